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


def test_a_last_commit_at_the_usual_time_may_be_one_at_the_close() -> None:
    """A and b left soon after a commit of their own; so the last one of c, after 4.9 of 5 s, is no regular one."""
    members = {name: member(name, (place,)) for place, name in enumerate("abcd")}
    a, b, c, d = members.values()
    records = [
        generation(1, a, b, c, d, at=BEGIN),
        *(record for place in range(4) for record in commits(place, 1 * SECOND, 30 * SECOND)),
        *commits(0, 28 * SECOND, 28 * SECOND + 1),
        generation(2, b, c, d, at=BEGIN + 29 * SECOND),
        *(record for place in (1, 2, 3) for record in commits(place, 31 * SECOND, 60 * SECOND)),
        *commits(1, 58 * SECOND, 58 * SECOND + 1),
        generation(3, c, d, at=BEGIN + 59 * SECOND),
        *(record for place in (2, 3) for record in commits(place, 61 * SECOND, 90 * SECOND)),
        *commits(2, 90_900, 90_901),
        generation(4, d, at=BEGIN + 92 * SECOND),
        *commits(3, 91 * SECOND, 180 * SECOND),
    ]
    known = recorded(history_of(records, 180 * SECOND))
    assert known is not None
    departures = [departure for turn in moments(known).turns for departure in turn.departures]
    assert departures == [
        Departure(client=0, reason="left", last_ms=BEGIN + 28 * SECOND, closed=True),
        Departure(client=1, reason="left", last_ms=BEGIN + 58 * SECOND, closed=True),
        Departure(client=2, reason="left", last_ms=BEGIN + 90_900, closed=True),
    ]


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


def test_a_static_member_closes_at_the_usual_time() -> None:
    """It commits when it closes, as the first restart shows; so its last commit before the second one is its close."""
    lives = [member(f"x{number}", (0,), instance_id="x") for number in range(3)]
    records = [
        generation(1, lives[0], at=BEGIN),
        *commits(0, 1 * SECOND, 27 * SECOND),
        *commits(0, 28 * SECOND, 28 * SECOND + 1),
        generation(1, lives[1], at=BEGIN + 30 * SECOND),
        *commits(0, 35 * SECOND, 91 * SECOND),
        generation(1, lives[2], at=BEGIN + 102 * SECOND),
        *commits(0, 107 * SECOND, 150 * SECOND),
    ]
    known = recorded(history_of(records, 150 * SECOND))
    assert known is not None
    assert moments(known).restarts == (
        StaticRestart(client=0, last_ms=BEGIN + 28 * SECOND, back_ms=BEGIN + 30 * SECOND, closed=True),
        StaticRestart(client=0, last_ms=BEGIN + 90 * SECOND, back_ms=BEGIN + 102 * SECOND, closed=True),
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
