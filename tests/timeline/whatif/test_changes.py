"""The changes of the members of a consumer group: one for each member that joins or leaves."""

from __future__ import annotations

from groupreplay.timeline.whatif.moments import Arrival, Departure, Turn, moments
from groupreplay.timeline.whatif.recorded import Recorded, recorded
from support.histories.played import BEGIN, SECOND, history_of, joined_and_left

A, B = frozenset([("t", 0)]), frozenset([("t", 1)])


def known(silent_ms: int = 4 * SECOND, since_ms: int | None = None) -> Recorded:
    """What the log has of it."""
    read = recorded(history_of(joined_and_left(silent_ms), 180 * SECOND), since_ms)
    assert read is not None
    return read


def changes(read: Recorded) -> list[tuple[int, dict[str, frozenset[tuple[str, int]]]]]:
    """When, and who has what."""
    return [
        (each.at_ms - BEGIN, {member_id: member.places for member_id, member in each.members.items()})
        for each in read.generations
    ]


def test_each_member_has_a_change_of_its_own() -> None:
    """At the record of the member, before the rebalance is over; the subscription is that of its first assignment."""
    read = known()
    assert changes(read) == [
        (0, {"a": A | B}),
        (10_000, {"a": A | B, "b": frozenset()}),
        (13_000, {"a": A, "b": B}),
        (60_000, {"a": A}),
        (62_000, {"a": A | B}),
    ]
    assert (read.group_type, read.left_out) == ("consumer", 0)
    assert {member.topics for each in read.generations for member in each.members.values()} == {("t",)}
    since = known(since_ms=BEGIN + 30 * SECOND)
    assert (changes(since)[0], since.left_out) == ((30_000, {"a": A, "b": B}), 1)


def test_a_turn_is_at_the_time_of_the_record() -> None:
    """Nobody waits for a rebalance: joins and departures have the times of the log."""
    made = moments(known())
    assert [arrival.client for arrival in made.first] == [0]
    assert made.turns == (
        Turn(
            joined_ms=BEGIN + 10 * SECOND,
            stays=1,
            waited_ms=0,
            departures=(),
            arrivals=(Arrival(client=1, commit_ms=BEGIN + 26 * SECOND),),
        ),
        Turn(
            joined_ms=BEGIN + 60 * SECOND,
            stays=1,
            waited_ms=0,
            departures=(Departure(client=1, reason="left", last_ms=BEGIN + 56 * SECOND),),
            arrivals=(),
        ),
    )


def test_a_silent_member_left_by_a_timeout() -> None:
    """The log has no session of a consumer group: what is no rebalance timeout is the session."""
    reasons = [moments(known(silent_ms)).turns[-1].departures[0].reason for silent_ms in (9_000, 45_000)]
    assert reasons == ["left", "session_timeout"]
