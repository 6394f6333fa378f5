"""The recorded history and one play with other settings on one time axis, as a picture shows them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from groupreplay.timeline.group_history import GroupHistory
from groupreplay.timeline.whatif.costs import Cost, Costs, stops_by_place


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

    text: Annotated[str, Meta(description="The question, and of how many plays one is drawn.")]
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
