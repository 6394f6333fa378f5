"""When the job is behind, and what all of its own conditions have in common; time is an argument."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from groupreplay.state import Context, SnapshotError
from groupreplay.state.job.observations import JobObservation, LogObservation, LogRecord
from groupreplay.state.job_watch import JobWatch
from groupreplay.state.policy.rules import Policy
from groupreplay.state.stored_form import sealed
from support.histories.builders import check
from support.tools.job_observations import CONTEXT, MINUTE, WELL, beat, clock_beat, fed, later, story, taken


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
    thresholds = {"job.blind": {"silent_rounds": 1}, "job.behind": {"lag_ms": 0, "threshold_ms": 10}}
    context = Context(cluster_id="c", catch_up_after_ms=0, policy=Policy(thresholds=thresholds))
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


@pytest.mark.parametrize(
    ("blob", "said"),
    [
        (b"", "job state is damaged: "),
        (b"\x63rest", "job state of version 99 is damaged: "),
        (sealed(10, 1, b"rest"), "job state version 10, this release reads "),
    ],
)
def test_a_snapshot_of_another_release(blob: bytes, said: str) -> None:
    """It is refused by name, not misread; and so are bytes of no release."""
    with pytest.raises(SnapshotError, match=said):
        JobWatch.from_snapshot(CONTEXT, blob)


LATE = 60 * MINUTE


def test_what_the_driver_told_in_time_is_not_told_again() -> None:
    """The query was away and reads it late: heartbeats say up to where the driver has published itself."""
    seen = [taken(1, rights="missing"), replace(beat(2, 1), told_to=2)]
    assert len(JobWatch(CONTEXT).apply([*seen, taken(LATE, rights="missing")], recorded_ms=LATE)) == 1
    seen[1] = replace(beat(2, 1), told_to=1)
    assert len(JobWatch(CONTEXT).apply([*seen, taken(LATE, rights="missing")], recorded_ms=LATE)) == 2


@pytest.mark.parametrize(("told_to", "repeats"), [(LATE, 0), (LATE - 1, 1), (10**9, 0)])
def test_what_the_driver_told_counts_also_in_a_later_call(told_to: int, repeats: int) -> None:
    """A call that was late and knew of nothing is put right by the next one; no heartbeat speaks for later messages."""
    watch = JobWatch(CONTEXT)
    watch.apply([taken(1, rights="missing")], recorded_ms=LATE)
    watch = JobWatch.from_snapshot(CONTEXT, watch.snapshot())
    again = watch.apply([replace(beat(LATE, LATE), told_to=told_to)], recorded_ms=LATE)
    assert len(again) == repeats
    later_on = [taken(LATE + 1), taken(LATE + 2, rights="missing")]
    assert len(watch.apply(later_on, recorded_ms=4 * LATE)) == 2
    assert len(watch.apply([taken(4 * LATE, rights="missing")], recorded_ms=4 * LATE)) == 1


def test_the_driver_leaves_the_coordinators_clocks_alone() -> None:
    """It has no records of the log: what the query found neither ends nor begins, and shifts no id of another event."""
    now = 1_700_000_000_000
    watch = JobWatch(CONTEXT)
    watch.apply([replace(taken(now), leaders={3: 7}), clock_beat(now + 1, 0, {3: 10})])
    watch.apply([LogObservation((LogRecord(3, 11, now - 20 * MINUTE),))])
    driver = JobWatch.from_snapshot(CONTEXT, watch.snapshot_for_driver(), sees_log=False)
    assert driver.conditions() == watch.conditions()
    assert [one["brokers"] for one in driver.conditions()] == [(7,)]
    more = [
        clock_beat(now + 2, 0, {3: 12}),
        replace(clock_beat(now + MINUTE, 10 * MINUTE, {3: 12}), query_stopped_ms=now),
    ]
    assert driver.apply(more) == watch.apply(more)
    assert driver.conditions() == watch.conditions()
    # Another era forgets the records: for the query the condition is over.
    other_era = replace(clock_beat(now + 2 * MINUTE, 0, {}), era="another", query_stopped_ms=now)
    of_query, of_driver = watch.apply([other_era]), driver.apply([other_era])
    assert [one.ordinal for one in of_query] == [0, 2_000]
    assert of_driver == of_query[:1]
    assert [one["brokers"] for one in driver.conditions() if one["what"] == "clock" and one["brokers"]] == [
        (7,)
    ]
