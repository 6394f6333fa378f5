"""Counts of a day in bounded memory."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from groupreplay.state import Event
from groupreplay.state.events.group_events import MemberLeft
from groupreplay.streaming.sinks import day_counts
from groupreplay.streaming.sinks.day_counts import EVENTS, CountedEvent, Day, bound
from groupreplay.streaming.sinks.event_topic import Repeats
from support.histories.probed import START
from support.job.sink_messages import counted, events, expired, stable, stuck


def test_groups_that_are_gone_are_dropped_first() -> None:
    """Beyond the limit half of the groups are dropped: first those without a document, then the oldest."""
    by_group = dict.fromkeys("abcdefg", 1)
    assert bound(by_group, {"a", "b", "g"}, 7) == 0
    by_group["h"] = 1
    assert bound(by_group, {"a", "b", "g"}, 7) == 3
    assert [*by_group] == ["a", "b", "f", "g", "h"]
    assert bound(by_group, by_group.keys() - {"f"}, 4) == 2
    assert [*by_group] == ["b", "g", "h"]


def about(event: bytes, group: str) -> bytes:
    """The same event about another group."""
    plain = msgspec.json.decode(event)
    return msgspec.json.encode({**plain, "id": group, "data": {**plain["data"], "group_id": group}})


def test_a_crowd_of_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many groups have events, counts are kept of as many as the limit, and the number dropped is known."""
    monkeypatch.setattr(bound, "__defaults__", (10,))
    rebalanced = next(one for one in events(stable()[1]) if b"rebalance.completed" in one)
    fired = next(one for one in events(stuck()[1]) if b'"firing"' in one)
    lost = events([expired(1)])[0]
    snapshot = counted(
        about(event, f"{kind}{number}")
        for number in range(100)
        for kind, event in (("r", rebalanced), ("f", fired), ("l", lost))
    )
    today = snapshot.today
    sizes = [len(one) for one in (today.rebalances, today.expired, today.fired, snapshot.rebalanced_ms)]
    assert all(5 <= size <= 10 for size in sizes), sizes
    assert today.forgotten == 300 - sum(sizes[:3])
    assert today.events["rebalance.completed", "INFO"] == 100


def test_a_member_that_is_lost() -> None:
    """Only one that nobody had stopped counts: its event has the severity WARN."""
    fact = MemberLeft(
        member_id="m",
        client_id="c",
        client_host="/h",
        instance_id=None,
        reason="session_timeout",
        elapsed_ms=1,
        unplanned=True,
    )
    emitted = [
        Event(fact=one, group_id="g", time_ms=START, ordinal=number)
        for number, one in enumerate((fact, replace(fact, unplanned=False)))
    ]
    assert counted(events(emitted)).today.lost.total() == 1


def test_repeats_are_remembered_for_a_while() -> None:
    """The latest 200 000 ids; an id costs the same, however many were forgotten before."""
    repeats = Repeats()
    assert not any(repeats.has(str(number)) for number in range(600_000))
    assert repeats.has("599999")
    assert repeats.has("400000")
    assert not repeats.has("399999")


def test_a_crowd_of_names() -> None:
    """Events of unknown names are counted by name up to a limit, and together beyond it."""
    (value,) = events([expired(1)])
    day, plain = Day(), msgspec.json.decode(value)
    for number in range(500):
        event = EVENTS.decode(msgspec.json.encode({**plain, "type": f"groupreplay.e{number}.v1"}))
        assert event is not None
        day.count(event, ())
    assert (len(day.events), day.events["other", "other"]) == (day_counts._MOST_NAMES + 1, 300)


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00", "9999-12-31T23:59:59Z", "soon", "", "1e99"])
def test_times_that_no_calendar_has(time: str) -> None:
    """A completed rebalance with such a time has a time all the same, and raises nothing."""
    (value,) = [one for one in events(stable()[1]) if b"rebalance.completed" in one][:1]
    event = EVENTS.decode(msgspec.json.encode({**msgspec.json.decode(value), "time": time}))
    assert isinstance(event, CountedEvent)
    assert isinstance(event.completed_ms, int)
