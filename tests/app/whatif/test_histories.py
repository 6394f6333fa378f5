"""Histories are read from rows: events in order, and all commits."""

from __future__ import annotations

from support.histories.builders import GROUP
from support.histories.played import BEGIN, SECOND, history_of, restarted


def test_events_commits_and_the_end() -> None:
    """All of one group."""
    history = history_of(restarted(), 180 * SECOND)
    assert [event.name for event in history.events if event.name == "rebalance.completed"] == [
        "rebalance.completed"
    ] * 3
    assert (history.group_id, history.end_ms) == (GROUP, BEGIN + 180 * SECOND)
    assert sorted(history.commits.places) == [("t", 0), ("t", 1)]
    assert len(history.commits.at_ms) == 36 + 12 + 2 + 21
