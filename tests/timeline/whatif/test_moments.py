"""What clients did, with the bounds that records give."""

from __future__ import annotations

from groupreplay.timeline.whatif.moments import (
    Arrival,
    ClientHang,
    Departure,
    Silence,
    StaticRestart,
    Turn,
    moments,
)
from groupreplay.timeline.whatif.recorded import recorded
from support.histories.builders import generation, member
from support.histories.played import BEGIN, SECOND, commits, history_of, restarted


def test_a_departure_and_a_return() -> None:
    """The last commit before it left, and the regular commits after it came back."""
    known = recorded(history_of(restarted(), 180 * SECOND))
    assert known is not None
    made = moments(known)
    assert made.first == (
        Arrival(client=0, commit_ms=BEGIN + 1 * SECOND),
        Arrival(client=1, commit_ms=BEGIN + 2 * SECOND),
    )
    assert made.turns == (
        Turn(
            joined_ms=BEGIN + 59_990,
            stays=1,
            waited_ms=0,
            departures=(Departure(client=1, reason="left", last_ms=BEGIN + 57 * SECOND),),
            arrivals=(),
        ),
        Turn(
            joined_ms=BEGIN + 69_990,
            stays=1,
            waited_ms=0,
            departures=(),
            arrivals=(Arrival(client=1, commit_ms=BEGIN + 75 * SECOND),),
        ),
    )
    assert (made.restarts, made.hangs, made.before_joining) == ((), (), False)


def test_a_member_that_did_not_poll() -> None:
    """Its partitions have no commit for long, and it stays."""
    a, b = member("a", (0,)), member("b", (1,))
    records = [
        generation(1, a, b, at=BEGIN),
        *commits(0, 1 * SECOND, 180 * SECOND),
        *commits(1, 2 * SECOND, 60 * SECOND),
        *commits(1, 102 * SECOND, 180 * SECOND),
    ]
    known = recorded(history_of(records, 180 * SECOND))
    assert known is not None
    assert moments(known).hangs == (
        ClientHang(client=1, last_ms=BEGIN + 57 * SECOND, next_ms=BEGIN + 102 * SECOND),
    )


def test_a_static_restart() -> None:
    """A replaced static member was away after its last commit."""
    old, new = member("x1", (0,), instance_id="x"), member("x2", (0,), instance_id="x")
    records = [
        generation(1, old, at=BEGIN),
        *commits(0, 1 * SECOND, 20 * SECOND),
        generation(1, new, at=BEGIN + 30 * SECOND),
    ]
    known = recorded(history_of(records, 60 * SECOND))
    assert known is not None
    assert moments(known).restarts == (
        StaticRestart(client=0, last_ms=BEGIN + 16 * SECOND, back_ms=BEGIN + 30 * SECOND),
    )


def test_a_member_that_is_silent_at_the_end() -> None:
    """It may have ended, and its session has not; the others commit."""
    records = [
        generation(1, member("a", (0,)), member("b", (1,)), at=BEGIN),
        *commits(0, 1 * SECOND, 90 * SECOND),
        *commits(1, 2 * SECOND, 60 * SECOND),
    ]
    known = recorded(history_of(records, 90 * SECOND))
    assert known is not None
    assert moments(known).silences == (Silence(client=1, last_ms=BEGIN + 57 * SECOND, hangs=False),)
