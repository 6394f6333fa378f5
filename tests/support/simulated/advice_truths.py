"""What advice that was followed truly saved, by two plays of the same clients at the same times."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import TypeAlias

from support.simulated.advice_plays import Played

#: The true effect, of the side that was advised and the other one, in what the effect counts.
Truth: TypeAlias = Callable[[Played, Played], int]

SAVED_REBALANCES: Truth = lambda before, after: before.rebalances - after.rebalances  # noqa: E731
STOPPED_LESS: Truth = lambda before, after: before.stopped_ms - after.stopped_ms  # noqa: E731
#: A rebalance that both sides have begins and ends at the same time but for when heartbeats and sessions were.
_ALIKE_MS = 10_000


def saved_stops(before: Played, after: Played) -> int:
    """The stops of one side that the other one has not.

    How soon members learn of those that both have is drawn in each play anew: it is no effect of the setting.
    """
    only_before, only_after = [*before.stops()], list[tuple[int, int]]()
    for stop in after.stops():
        alike = [
            each
            for each in only_before
            if all(abs(one - other) <= _ALIKE_MS for one, other in zip(each, stop, strict=True))
        ]
        if alike:
            only_before.remove(min(alike, key=lambda each: abs(each[1] - stop[1])))
        else:
            only_after.append(stop)
    return sum(end - begin for begin, end in only_before) - sum(end - begin for begin, end in only_after)


SAVED: Mapping[str, Truth] = {"rebalances": SAVED_REBALANCES, "stopped_ms": saved_stops}


def _moved_ms(played: Played) -> int:
    """How long partitions of an incremental group that moved were with nobody: until the rebalance after the next."""
    made = played.history.rebalances
    return sum(
        (first.held - first.kept) * (second.at_ms - first.at_ms) for first, second in itertools.pairwise(made)
    )


def held_less(before: Played, after: Played) -> int:
    """The standstill of partitions whose owner stayed, less that of those that moved."""
    assert before.held_ms is not None
    return before.held_ms - _moved_ms(after)


def stopped_fewer(before: Played, after: Played) -> int:
    """The stops of these partitions."""
    moved = sum(each.held - each.kept for each in after.history.rebalances)
    return sum(each.held for each in before.history.rebalances) - moved
