"""Counts of events that a filter sees."""

from __future__ import annotations

from groupreplay.streaming.engine.event_tally import EventTally
from groupreplay.streaming.engine.replay import EventHead, Filter


def head(name: str, second: int, severity: int = 9) -> EventHead:
    """The attributes of an event."""
    return EventHead(f"groupreplay.{name}.v1", f"2026-01-01T00:00:{second:02d}.000Z", "0", severity)


def test_all_are_counted_and_some_selected() -> None:
    """By name and severity, with the extent of their times, whatever the filter says."""
    tally = EventTally(Filter(least_severity=13))
    events = [head("group.created", 5), head("rebalance.stuck", 3, 17), head("rebalance.stuck", 9, 13)]
    assert [tally(event) for event in events] == [False, True, True]
    assert (tally.shown, tally.first, tally.last) == (2, events[1].time, events[2].time)
    assert tally.text() == ("3 events: rebalance.stuck 2, group.created 1; INFO 1, WARN 1, ERROR 1")


def test_many_kinds() -> None:
    """The most frequent ones, and how many others; a severity that nobody knows is a number."""
    tally = EventTally(Filter())
    for number in range(8):
        tally(head(f"a.b{number}", 0, 3))
    assert tally.text() == ("8 events: a.b0 1, a.b1 1, a.b2 1, a.b3 1, a.b4 1, a.b5 1 and 2 other kinds; 3 8")
