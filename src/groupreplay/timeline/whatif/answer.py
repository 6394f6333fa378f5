"""The answer: the recorded costs, those of the plays with the recorded and with the other settings, as ranges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import msgspec
import numpy as np
from msgspec import Meta

from groupreplay.coordinator.simulation.settings_table import SettingValue
from groupreplay.timeline.whatif.costs import Cost, Costs

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
