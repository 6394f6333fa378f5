"""The answer: the recorded costs, and those of plays with the recorded and with the other settings, as ranges.

Its picture has the recorded history and one play with the other settings on one time axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Final

import msgspec
import numpy as np
from msgspec import Meta

from groupreplay.coordinator.simulation.settings_table import SettingValue
from groupreplay.timeline.group_history import GroupHistory
from groupreplay.timeline.whatif.costs import Cost, Costs, stops_by_place

#: The bounds of a range, and its middle.
_PERCENTILES: Final = (5, 50, 95)
#: The k-th of n draws is the percentile k / (n + 1): one more draw, as the truth is, is below it as often. With NumPy's
#: default, (k - 1) / (n - 1), a range of 50 draws would hold 86 % of such draws.
_METHOD: Final = "weibull"
#: Plays as close as this share of a recorded number reproduce it; so a time is answered no better than to this share.
_CLOSE: Final = 0.02


class Range(msgspec.Struct, frozen=True, kw_only=True):
    """The 5th, 50th and 95th percentile of the draws."""

    least: float
    median: float
    most: float

    @classmethod
    def of(cls, numbers: Sequence[float]) -> Range:
        """That of some numbers."""
        bounds = np.percentile(np.array(numbers), _PERCENTILES, method=_METHOD)
        least, median, most = (float(bound) for bound in bounds)
        return cls(least=least, median=median, most=most)

    def at_best(self, share: float) -> Range:
        """Wide enough for this share of its middle to either side."""
        least, most = self.median * (1 - share), self.median * (1 + share)
        return Range(least=min(self.least, least), median=self.median, most=max(self.most, most))

    def minus(self, number: float) -> Range:
        """The range of the differences from a number."""
        return Range(least=self.least - number, median=self.median - number, most=self.most - number)


class CostAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One cost. ``other`` and ``difference`` are null where the recorded settings do not reproduce what is recorded."""

    cost: Cost
    recorded: Annotated[int, Meta(description="As the log has it; milliseconds are summed over partitions.")]
    played: Annotated[Range, Meta(description="With the recorded settings.")]
    reproduced: Annotated[bool, Meta(description="Whether the recorded number is among those of the plays.")]
    other: Annotated[Range | None, Meta(description="With the other settings.")]
    difference: Annotated[Range | None, Meta(description="The other settings less what is recorded.")]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a group's history would have been. ``answered``: the plays reproduce the recorded number of rebalances."""

    group_id: str
    since_ms: int
    until_ms: int
    draws: int
    seed: int
    changed: Annotated[Mapping[str, SettingValue], Meta(description="What was asked about, by Kafka's name.")]
    settings: Annotated[Mapping[str, SettingValue], Meta(description="The recorded settings, as played.")]
    assumed: Annotated[
        Mapping[str, SettingValue], Meta(description="Those of them that no record and no flag has.")
    ]
    answered: bool
    costs: tuple[CostAnswer, ...]
    notes: tuple[str, ...] = ()


def cost_answers(recorded: Costs, played: Sequence[Costs], other: Sequence[Costs]) -> tuple[CostAnswer, ...]:
    """The answer for each cost; none is answered if the number of rebalances is not reproduced."""
    reproduced = {cost: _is_among(recorded[cost], [each[cost] for each in played]) for cost in Cost}
    answers = []
    for cost in Cost:
        is_known = reproduced[cost] and reproduced[Cost.REBALANCES]
        others = _others(cost, other) if is_known else None
        answers.append(
            CostAnswer(
                cost=cost,
                recorded=recorded[cost],
                played=Range.of([each[cost] for each in played]),
                reproduced=reproduced[cost],
                other=others,
                difference=None if others is None else others.minus(recorded[cost]),
            )
        )
    return tuple(answers)


def _others(cost: Cost, plays: Sequence[Costs]) -> Range:
    counted = Range.of([play[cost] for play in plays])
    return counted.at_best(_CLOSE) if cost is Cost.STOPPED_MS else counted


def _is_among(number: int, numbers: Sequence[int]) -> bool:
    close = _CLOSE * number
    return min(numbers) - close <= number <= max(numbers) + close


class WhatIfLane(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two histories; times are milliseconds since 1970."""

    name: str
    rebalances_ms: Annotated[tuple[int, ...], Meta(description="When each rebalance was over.")]
    stops: Annotated[
        tuple[tuple[int, int], ...],
        Meta(description="Times in which a partition or more stood still, at most."),
    ]


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What was recorded, and what other settings would have made of it (docs/whatif.md)."""

    text: Annotated[
        str, Meta(description="The question, of how many plays one is drawn, and what it rests on.")
    ]
    costs: Annotated[tuple[str, ...], Meta(description="What is answered of each cost, in words.")]
    lanes: Annotated[
        tuple[WhatIfLane, ...],
        Meta(description="As recorded; then one play, the middle one by how long partitions stood still."),
    ]


def _same(at_ms: int) -> int:
    return at_ms


def lane(
    name: str, history: GroupHistory, begin_ms: int, interval_ms: int, at: Callable[[int], int] = _same
) -> WhatIfLane:
    """What a history has after ``begin_ms``; ``at``: the time on the axis of a time in it, a play lacks some."""
    end_ms = history.end_ms
    stops = [
        (max(stop.since_ms, begin_ms), min(stop.until_ms, end_ms))
        for of_place in stops_by_place(history, interval_ms).values()
        for stop in of_place
        if stop.until_ms > begin_ms and stop.since_ms < end_ms
    ]
    return WhatIfLane(
        name=name,
        rebalances_ms=tuple(
            at(event.time_ms)
            for event in history.events
            if event.name == "rebalance.completed" and begin_ms < event.time_ms <= end_ms
        ),
        stops=tuple((at(since_ms), at(until_ms)) for since_ms, until_ms in _merged(stops)),
    )


def middle_play(plays: Sequence[Costs]) -> int:
    """The number of the play in the middle, by how long partitions stood still."""
    order = sorted(range(len(plays)), key=lambda number: (plays[number][Cost.STOPPED_MS], number))
    return order[len(order) // 2]


def _merged(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    merged = list[tuple[int, int]]()
    for since_ms, until_ms in sorted(spans):
        if merged and since_ms <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], until_ms)
        else:
            merged.append((since_ms, until_ms))
    return merged
