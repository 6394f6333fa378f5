"""When the job is blind or behind: from what its rounds and heartbeats say, with time as an argument."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from groupreplay.state import OFFSETS_TOPIC, Context, Event, Severity, SnapshotError
from groupreplay.state.conditions.condition import Condition
from groupreplay.state.conditions.job.blind import GRANT_DESCRIBE, JobBlind
from groupreplay.state.events.event import Cause, Evidence
from groupreplay.state.job.observations import (
    HeartbeatObservation,
    JobObservation,
    LogObservation,
    LogRecord,
    ObservationPlace,
    RoundObservation,
)
from groupreplay.state.job_watch import JobWatch
from groupreplay.state.policy.rules import Policy
from support.histories.builders import check

CONTEXT = Context(cluster_id="c")
MINUTE = 60_000
WELL = {0: (5, 5), 1: (9, 9)}


def place(at: int) -> ObservationPlace:
    """Where something said at that moment is recorded."""
    return ObservationPlace("group-probes", 0, at)


def taken(
    at: int,
    partitions: Mapping[int, tuple[int, int]] = WELL,
    *,
    rights: str = "ok",
    brokers: Mapping[int, str | None] | None = None,
    count: int | None = 2,
) -> RoundObservation:
    """A round in which all is well but what is said."""
    return RoundObservation(at, place(at), dict(brokers or {1: None}), rights, dict(partitions), count)


def beat(at: int, caught_up: int | None) -> HeartbeatObservation:
    """A heartbeat."""
    return HeartbeatObservation(at, place(at), caught_up)


def fed(
    observations: Sequence[JobObservation], context: Context = CONTEXT, blob: bytes | None = None
) -> list[Event]:
    """The events, one observation a call, with a snapshot taken and restored between any two."""
    events = []
    for one in observations:
        watch = JobWatch(context) if blob is None else JobWatch.from_snapshot(context, blob)
        events += watch.apply([one])
        assert watch.changed or not events
        blob = watch.snapshot()
    whole = JobWatch(context).apply(list(reversed(observations)))
    assert whole == events  # however it is cut into calls
    return events


def story(events: Sequence[Event]) -> list[tuple[Any, ...]]:
    """Time, kind, status and start of each condition."""
    told = []
    for event in events:
        assert isinstance(event.fact, Condition)
        what = event.fact.what if isinstance(event.fact, JobBlind) else event.fact.NAME
        told.append((event.time_ms, what, event.fact.status, event.fact.since_ms))
    return told


def test_a_hanging_transaction() -> None:
    """The stable offset stands still below the high watermark for a minute; it moves on when it ends."""
    stuck = {0: (7, 5), 1: (9, 9)}
    events = fed(
        [
            taken(MINUTE),
            taken(2 * MINUTE, stuck),
            taken(3 * MINUTE, {0: (8, 5), 1: (9, 9)}),
            taken(3 * MINUTE + 1, {0: (9, 5), 1: (12, 9)}),
            taken(4 * MINUTE, {0: (9, 9), 1: (12, 10)}),
        ]
    )
    assert story(events) == [
        (3 * MINUTE + 1, "hanging_transaction", "firing", 2 * MINUTE),
        (4 * MINUTE, "hanging_transaction", "resolved", 2 * MINUTE),
    ]
    check(events[0].fact, partitions=(0,), brokers=(), threshold_ms=MINUTE, severity=Severity.ERROR)
    at = 3 * MINUTE + 1
    cause = Cause(topic="group-probes", partition=0, offset=at, timestamp_ms=at)
    check(events[0], evidence=Evidence.PROBE, group_id=None, cause=cause)


def test_transactions_that_come_and_go_are_normal() -> None:
    """There is one open at each look, but never the same: the stable offset moves."""
    assert fed([taken(at * 10_000, {0: (at + 3, at), 1: (9, 9)}) for at in range(1, 60)]) == []


def test_a_partition_that_does_not_answer_is_neither_held_nor_free() -> None:
    """What was known of it stays, and the time goes on."""
    stuck = {0: (7, 5), 1: (9, 9)}
    rounds = [taken(MINUTE, stuck), taken(MINUTE + 10_000, {1: (9, 9)}), taken(3 * MINUTE, stuck)]
    assert story(fed(rounds)) == [(3 * MINUTE, "hanging_transaction", "firing", MINUTE)]


def test_missing_rights() -> None:
    """ConditionUpdate at once, with the command that grants them; a round that cannot tell changes nothing."""
    events = fed(
        [
            taken(1, rights="unknown"),
            taken(2, rights="missing"),
            taken(3, rights="unknown"),
            taken(4, rights="missing"),
            taken(5, rights="ok"),
        ]
    )
    assert story(events) == [(2, "no_rights", "firing", 2), (5, "no_rights", "resolved", 2)]
    check(events[0].fact, fix=GRANT_DESCRIBE)


def test_silent_brokers() -> None:
    """Three rounds in a row without an answer; one answer in between begins the count anew."""
    away = {1: None, 2: "timed out"}
    events = fed(
        [
            taken(1, brokers=away),
            taken(2, brokers=away),
            taken(3),
            taken(4, brokers=away),
            taken(5, brokers=away),
            taken(6, {1: (9, 9)}, brokers=away),
            taken(7),
        ]
    )
    assert story(events) == [(6, "brokers_silent", "firing", 4), (7, "brokers_silent", "resolved", 4)]
    check(events[0].fact, partitions=(), brokers=(2,))


def test_partitions_without_an_answer() -> None:
    """A broker that is gone is no longer listed; its partitions are missed all the same."""
    events = fed([taken(at, {1: (9, 9)}) for at in (1, 2, 3)])
    assert story(events) == [(3, "brokers_silent", "firing", 1)]
    check(events[0].fact, partitions=(0,), brokers=())


def test_a_changed_number_of_partitions() -> None:
    """Groups move to other partitions, which the job does not read; a round that cannot tell is no change."""
    more = {**WELL, 2: (0, 0)}
    rounds = [taken(1, count=None), taken(2), taken(3, more, count=3), taken(4, count=None)]
    assert story(fed(rounds)) == [(3, "partition_count_changed", "firing", 3)]


def test_a_job_that_is_behind() -> None:
    """Its caught-up time is older than a minute for five; a start counts from its first heartbeat."""
    events = fed(
        [
            *(beat(at * MINUTE, None) for at in range(1, 6)),
            beat(6 * MINUTE, None),
            beat(7 * MINUTE, 6 * MINUTE),
            *(beat(at * MINUTE, 7 * MINUTE) for at in range(8, 15)),
        ]
    )
    assert story(events) == [
        (6 * MINUTE, "job.behind", "firing", MINUTE),
        (7 * MINUTE, "job.behind", "resolved", MINUTE),
        (14 * MINUTE, "job.behind", "firing", 9 * MINUTE),
    ]
    check(events[-1].fact, caught_up_ms=7 * MINUTE, lag_ms=7 * MINUTE, threshold_ms=5 * MINUTE)


def test_a_slow_trigger_is_not_late() -> None:
    """With a trigger of a minute the job is never closer than that; three triggers are allowed."""
    slow = Context(cluster_id="c", catch_up_after_ms=3 * MINUTE)
    assert fed([beat(at * MINUTE, (at - 3) * MINUTE) for at in range(4, 30)], slow) == []


def test_the_numbers_are_settings() -> None:
    """As for the conditions of groups."""
    numbers = {"job.blind": {"silent_rounds": 1}, "job.behind": {"lag_ms": 0, "threshold_ms": 10}}
    context = Context(cluster_id="c", catch_up_after_ms=0, policy=Policy(numbers=numbers))
    events = fed([taken(1, brokers={2: "x"}), beat(2, 1), beat(12, 11)], context)
    assert story(events) == [(1, "brokers_silent", "firing", 1), (12, "job.behind", "firing", 2)]


def test_of_the_time_before_nothing_is_said() -> None:
    """At a first start the topic may hold the rounds of another job; they do not count."""
    context = Context(cluster_id="c", emit_since_ms=3)
    assert story(fed([taken(1, rights="missing"), taken(4, rights="missing")], context)) == [
        (4, "no_rights", "firing", 4)
    ]


def test_what_was_said_too_late_is_said_again() -> None:
    """A job that was down reads old rounds: nobody is alerted by those, so what still holds is repeated."""
    watch = JobWatch(CONTEXT)
    now_ms = 60 * MINUTE
    assert story(watch.apply([taken(1, rights="missing")], recorded_ms=now_ms)) == [
        (1, "no_rights", "firing", 1)
    ]
    watch = JobWatch.from_snapshot(CONTEXT, watch.snapshot())
    assert story(watch.apply([taken(now_ms, rights="missing")], recorded_ms=now_ms)) == [
        (now_ms, "no_rights", "firing", 1)
    ]
    assert watch.apply([taken(now_ms + 1, rights="missing")], recorded_ms=now_ms + 1) == []


def test_repeats_change_nothing() -> None:
    """A batch may be replayed."""
    watch = JobWatch(CONTEXT)
    watch.apply([taken(2, rights="missing"), beat(2, 1)])
    again = JobWatch.from_snapshot(CONTEXT, watch.snapshot())
    assert again.apply([taken(2, rights="ok"), taken(1, rights="ok"), beat(2, 1)]) == []
    assert not again.changed
    assert [one["what"] for one in again.conditions()] == ["no_rights"]


YEAR = 365 * 24 * 60 * MINUTE


def later(at: int, seen: JobObservation) -> JobObservation:
    """The same observation at this place of the topic."""
    return replace(seen, place=place(at))


@pytest.mark.parametrize("forged", [taken(YEAR), beat(YEAR, YEAR), beat(YEAR, None)])
def test_a_message_from_next_year_mutes_nothing(forged: JobObservation) -> None:
    """One message of a clock that is ahead, or forged, is one message: those behind it count as before."""
    stuck = {0: (7, 5), 1: (9, 9)}
    true = [
        observation
        for at in range(1, 20)
        for observation in (taken(at * MINUTE, stuck, rights="missing"), beat(at * MINUTE + 1, None))
    ]
    expected = story(fed(true))
    assert [one[1:3] for one in expected] == [
        ("no_rights", "firing"),
        ("hanging_transaction", "firing"),
        ("job.behind", "firing"),
    ]
    # What it resolves itself begins again: the last minutes are left for that.
    for where in range(len(true) - 14):
        mixed = [*true[:where], forged, *true[where:]]
        events = fed([later(at, one) for at, one in enumerate(mixed)])
        held = {what: status for _, what, status, _ in story(events)}
        assert held == {"no_rights": "firing", "hanging_transaction": "firing", "job.behind": "firing"}, where


@pytest.mark.parametrize("off_ms", [-60 * MINUTE, -YEAR, 60 * MINUTE, YEAR])
def test_a_prober_with_another_clock(off_ms: int) -> None:
    """Nothing lasts longer or shorter because rounds and heartbeats come from two machines."""
    start = 2 * YEAR
    stuck = {0: (7, 5), 1: (9, 9)}
    observations: list[JobObservation] = []
    for at in range(start, start + 6 * MINUTE, 10_000):
        # Late for four minutes, held back for half a minute: both are too short.
        late, held = at < start + 4 * MINUTE, at < start + MINUTE // 2
        observations.append(beat(at, None if late else at))
        observations.append(taken(at + off_ms, stuck if held else WELL))
    assert fed([later(at, one) for at, one in enumerate(observations)]) == []


def test_a_topic_that_begins_anew() -> None:
    """Places begin at 0 when somebody creates the topic again; newer messages count all the same."""
    watch = JobWatch(CONTEXT)
    watch.apply([later(1_000, taken(MINUTE))])
    assert story(watch.apply([later(0, taken(2 * MINUTE, rights="missing"))])) == [
        (2 * MINUTE, "no_rights", "firing", 2 * MINUTE)
    ]
    assert watch.apply([later(0, taken(2 * MINUTE, rights="ok"))]) == []


def clock_beat(
    at: int, off_ms: int | None = None, high: Mapping[int, int] | None = None
) -> HeartbeatObservation:
    """A heartbeat that measures the driver's clock, and has the ends of the log."""
    return replace(beat(at, at), clock_off_ms=off_ms, high_watermarks=dict(high or {}))


def test_the_job_s_own_clock() -> None:
    """Off by more than a minute; it is over when a heartbeat says so."""
    off_ms = 60 * MINUTE
    events = fed([clock_beat(at, off) for at, off in ((1, 60_000), (2, off_ms), (3, -off_ms), (4, 0))])
    assert story(events) == [(2, "clock", "firing", 2), (4, "clock", "resolved", 2)]
    check(events[0].fact, partitions=(), brokers=(), off_ms=off_ms, offset=None, threshold_ms=60_000)
    assert JobBlind.firing_text(msgspec.to_builtins(events[0].fact)).startswith(
        "clock, 1 h 0 min ahead; chronyc"
    )


def test_heartbeats_and_rounds_report_each_their_own() -> None:
    """A heartbeat begins and ends nothing that a round has shown, and the other way round; the last round counts."""
    silent = {1: "timed out"}
    observations = [
        *(taken(at, brokers=silent) for at in (1, 2)),
        clock_beat(3, -61_000),
        taken(4, brokers=silent),
        *(clock_beat(at, 0) for at in (5, MINUTE, 10 * MINUTE)),
        taken(10 * MINUTE + 1),
    ]
    assert story(fed(observations)) == [
        (3, "clock", "firing", 3),
        (4, "brokers_silent", "firing", 1),
        (5, "clock", "resolved", 3),
        (10 * MINUTE + 1, "brokers_silent", "resolved", 1),
    ]


@pytest.mark.parametrize("leaders", [{}, {3: 7, 4: 7}])
def test_the_clock_of_a_coordinator(leaders: dict[int, int]) -> None:
    """The record that shows it is the cause: its place, and a time that is right; the broker only if it is known."""
    watch = JobWatch(CONTEXT)
    now = 1_700_000_000_000
    watch.apply([replace(taken(now), leaders=leaders), clock_beat(now + 1, 0, {3: 10, 4: 0, 5: 0})])
    wrong = LogObservation((LogRecord(3, 11, now - 20 * MINUTE), LogRecord(5, 1, now)))
    watch = JobWatch.from_snapshot(CONTEXT, watch.snapshot())
    (event,) = watch.apply([wrong])
    assert story([event]) == [(now + 1, "clock", "firing", now + 1)]
    brokers = (7,) if leaders else ()
    check(event.fact, partitions=(3,), brokers=brokers, off_ms=-20 * MINUTE - 1, offset=11)
    check(
        event,
        cause=Cause(topic=OFFSETS_TOPIC, partition=3, offset=11, timestamp_ms=now + 1),
        evidence=Evidence.PROBE,
    )
    # Another partition of that broker shows the same, the round too: nothing new.
    again = LogObservation((LogRecord(4, 1, now - 20 * MINUTE),))
    assert watch.apply([later(now + 2, taken(now + 2)), again]) == []
    right = LogObservation((LogRecord(3, 12, now + 3), LogRecord(4, 2, now + 3)))
    ends = clock_beat(now + 4, 0, {3: 13, 4: 3, 5: 2})
    assert story(watch.apply([right])) == [(now + 1, "clock", "resolved", now + 1)]
    assert watch.apply([ends]) == []
    assert watch.conditions() == []


def test_both_clocks_are_two_conditions() -> None:
    """Each begins and ends by itself; a record that is right again does not end the other one."""
    watch = JobWatch(CONTEXT)
    now = 1_700_000_000_000
    watch.apply([clock_beat(now, 10 * MINUTE, {3: 10})])
    watch.apply([LogObservation((LogRecord(3, 11, now - 20 * MINUTE),))])
    assert [one["off_ms"] for one in watch.conditions()] == [-20 * MINUTE, 10 * MINUTE]
    watch.apply([LogObservation((LogRecord(3, 12, now),))])
    assert [one["off_ms"] for one in watch.conditions()] == [10 * MINUTE]


@pytest.mark.parametrize("blob", [b"", b"\x63rest"])
def test_a_snapshot_of_another_release(blob: bytes) -> None:
    """It is refused by name, not misread."""
    with pytest.raises(SnapshotError, match="job state version"):
        JobWatch.from_snapshot(CONTEXT, blob)
