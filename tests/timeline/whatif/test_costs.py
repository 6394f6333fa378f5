"""The costs of a history: each by hand."""

from __future__ import annotations

import pytest

from groupreplay.timeline.whatif.costs import Cost, costs
from support.histories.builders import generation, member, with_protocol
from support.histories.played import BEGIN, SECOND, commits, history_of, restarted


def test_rebalances_stops_and_moves() -> None:
    """Eager: both partitions stand from their last commit to the assignment: 4 + 3 and 4 + 4 seconds."""
    history = history_of(restarted(), 180 * SECOND)
    assert costs(history, BEGIN, 5 * SECOND) == {
        Cost.REBALANCES: 2,
        Cost.STOPPED_MS: 15 * SECOND,
        Cost.MOVED: 2,
        Cost.LOST: 0,
    }


def test_what_is_before_the_begin_does_not_count() -> None:
    """Nor a rebalance at that moment."""
    history = history_of(restarted(), 180 * SECOND)
    assert costs(history, BEGIN + 60 * SECOND, 5 * SECOND)[Cost.REBALANCES] == 1
    assert costs(history, BEGIN + 70 * SECOND, 5 * SECOND)[Cost.STOPPED_MS] == 0


def test_a_late_commit_is_a_stop() -> None:
    """By so much as it is later than usual: 45 s between two commits instead of 5."""
    records = [
        generation(1, member("a", (0,)), at=BEGIN),
        *commits(0, 1 * SECOND, 60 * SECOND),
        *commits(0, 101 * SECOND, 180 * SECOND),
    ]
    assert costs(history_of(records, 180 * SECOND), BEGIN, 5 * SECOND)[Cost.STOPPED_MS] == 40 * SECOND


@pytest.mark.parametrize(("assignor", "stopped_s"), [("range", 6), ("cooperative-sticky", 0)])
def test_a_join_begins_the_usual_time_anew(assignor: str, stopped_s: int) -> None:
    """Commits before a join, 6 s of it, and 5 s until the next commit: an eager member worked on nothing for 6 s.

    With an incremental assignor it kept its partition and worked all the time.
    """
    a, b = member("a", (0,)), member("b", (1,))
    records = [
        with_protocol(generation(1, a, at=BEGIN), assignor),
        *commits(0, 1 * SECOND, 42 * SECOND),
        with_protocol(generation(2, a, b, at=BEGIN + 47 * SECOND), assignor),
        *commits(0, 52 * SECOND, 120 * SECOND),
        *commits(1, 52 * SECOND, 120 * SECOND),
    ]
    history = history_of(records, 120 * SECOND)
    assert costs(history, BEGIN, 5 * SECOND)[Cost.STOPPED_MS] == stopped_s * SECOND
