"""Records that cannot be read, by the dozen."""

from __future__ import annotations

from collections import Counter
from itertools import count

import pytest

from groupreplay.state import Event
from groupreplay.state.conditions.job_blind import JobBlind
from groupreplay.state.events.event import Evidence, Severity
from groupreplay.state.events.offset_events import OffsetsSummary
from groupreplay.state.job.job_state import (
    Burst,
    DayTotal,
    JobState,
    Quarantines,
    Silence,
    Stall,
    add_count,
    add_quarantined,
    count_burst,
    read,
    write,
)
from groupreplay.state.job.observations import HeartbeatObservation, ObservationPlace, RoundObservation
from groupreplay.state.job_watch import JobWatch
from groupreplay.state.policy.context import DEFAULT_RETENTION_MS, Context
from groupreplay.state.snapshot.group_snapshot import ActiveCondition, ConditionKey
from groupreplay.state.stored_form import SnapshotError, sealed
from support.histories import builders

MINUTE = 60_000


def test_counts_of_a_window() -> None:
    """What is older does not count; the beginning stays as long as there are too many."""
    burst, told = Burst(), []
    for minute, total in enumerate([0, 5, 5, 9, 9, 9, 9]):
        burst = count_burst(burst, "r", total, minute * MINUTE, 3 * MINUTE, 9)
        told.append((sum(count for _, count in burst.marks), burst.since_ms))
    at = 3 * MINUTE
    assert told == [(0, None), (5, None), (5, None), (9, at), (4, None), (4, None), (0, None)]


def test_a_new_run_counts_from_nothing() -> None:
    """A count that is lower is not a fall, and a heartbeat that is repeated adds nothing."""
    burst = Burst()
    for run_id, total in (("a", 7), ("a", 7), ("b", 2), ("b", 1)):
        burst = count_burst(burst, run_id, total, MINUTE, 3 * MINUTE, 99)
    assert sum(count for _, count in burst.marks) == 9


def said(*, rounds: bool) -> list[tuple[int, str, str]]:
    """What the job says of 30 records that it cannot read, all in one minute."""
    watch, events = JobWatch(Context(cluster_id="c")), list[Event]()
    for minute in range(1, 15):
        at = minute * MINUTE
        seen = [
            HeartbeatObservation(
                at, ObservationPlace("p", 0, 2 * minute), at, "r", 0, 30 if minute > 2 else 1
            )
        ]
        if rounds:
            seen.insert(
                0,
                RoundObservation(
                    at - 1, ObservationPlace("p", 0, 2 * minute - 1), {1: None}, "ok", {0: (5, 5)}, 1
                ),
            )  # type: ignore[arg-type]
        events += watch.apply(seen)
        watch = JobWatch.from_snapshot(watch.context, watch.snapshot())
    facts = [(event.time_ms, event.fact) for event in events]
    return [(at, fact.what, fact.status) for at, fact in facts if isinstance(fact, JobBlind)]


def test_a_burst_makes_the_job_blind() -> None:
    """Twenty-four within ten minutes; it is over when they are ten minutes old."""
    assert said(rounds=False) == [
        (3 * MINUTE, "dead_letters", "firing"),
        (13 * MINUTE, "dead_letters", "resolved"),
    ]


def test_a_burst_beside_the_rounds_of_a_prober() -> None:
    """It makes no difference: a prober that ends must not silence what the heartbeats count."""
    assert said(rounds=True) == said(rounds=False)


DAY = 86_400_000


def test_a_day_is_summed_when_it_is_over() -> None:
    """By the first heartbeat of another day; the next day begins with nothing."""
    tally, said = DayTotal(), []
    beats = [("r", 0, DAY), ("r", 3, DAY + 9), ("r", 5, 2 * DAY - 1), ("r", 6, 2 * DAY), ("r", 6, 3 * DAY)]
    for run_id, total, at_ms in beats:
        tally, summary = add_count(tally, run_id, total, at_ms)
        said.append(summary)
    told = OffsetsSummary(since_ms=DAY, until_ms=2 * DAY, expired=6)
    assert said == [None, None, None, told, None]


def test_the_summary_of_a_new_run_counts_from_nothing() -> None:
    """What the one before had counted stays counted."""
    tally, _ = add_count(DayTotal(), "first", 5, DAY)
    tally, _ = add_count(tally, "second", 2, DAY + 1)
    tally, _ = add_count(tally, "second", 3, DAY + 2)
    assert tally == DayTotal("second", 3, 1, 8)


def test_five_thousand_groups_are_one_event() -> None:
    """However often the job was written down and taken up meanwhile."""
    blob, events, offset = JobWatch(builders.CONTEXT).snapshot(), [], count()
    for hour in range(49):
        watch = JobWatch.from_snapshot(builders.CONTEXT, blob)
        at_ms = DAY + hour * 3_600_000
        beat = HeartbeatObservation(
            at_ms, ObservationPlace("p", 0, next(offset)), at_ms, "run", min(5_000, 300 * hour)
        )
        events += watch.apply([beat, beat])
        blob = watch.snapshot()
    assert [(event.fact, event.time_ms, event.group_id) for event in events] == [
        (OffsetsSummary(since_ms=DAY, until_ms=2 * DAY, expired=5_000), 2 * DAY, None)
    ]


def one_day_of_work(number: int) -> list[builders.Raw]:
    """A group of a console or a test run: joins, commits, ends, and is cleaned up after the retention."""
    at = DAY + 17_000 * number
    swept = at + 3_000 + DEFAULT_RETENTION_MS + 300_000
    return [
        builders.generation(1, builders.member("a", [0]), at=at),
        builders.commit("t", 0, 5, at=at + 2_000),
        builders.emptied(2, at=at + 3_000),
        builders.no_offset("t", 0, at=swept),
        builders.gone(at=swept),
    ]


@pytest.mark.parametrize("groups", [100, pytest.param(5_000, marks=pytest.mark.long)])
def test_groups_that_expire_on_one_day(groups: int) -> None:
    """Warned of, swept and forgotten without a word of WARN; what the job has counted of them is one event."""
    events = [event for number in range(groups) for event in builders.replay(one_day_of_work(number))[1]]
    names = Counter(event.fact.NAME for event in events)
    assert (names["offsets.expired"], names["offsets.expiring"]) == (groups, 2 * groups)
    assert {event.severity or event.fact.severity for event in events} == {Severity.INFO}
    watch = JobWatch(builders.CONTEXT)
    beats = [
        HeartbeatObservation(at, ObservationPlace("p", 0, at), at, "run", names["offsets.expired"])
        for at in (9 * DAY - 1, 9 * DAY)
    ]
    (summary,) = watch.apply(beats)
    assert summary.fact == OffsetsSummary(since_ms=8 * DAY, until_ms=9 * DAY, expired=groups)


def after(*heartbeats: tuple[str, str, bool, int]) -> list[tuple[int, int | None]]:
    """(groups set aside, since when) after each heartbeat: run, release, retries, count; they are a second apart."""
    state, seen = Quarantines(), []
    for at, (run, release, retries, groups) in enumerate(heartbeats, 1):
        state = add_quarantined(state, run, release, retries, groups, 1_000 * at)
        seen.append((state.earlier + state.counted, state.since_ms))
    return seen


def test_counted_while_the_run_goes_on() -> None:
    """From the first group on; the time is that of the first heartbeat with one."""
    run = [("a", "1", False, count) for count in (0, 1, 1, 3)]
    assert after(*run) == [(0, None), (1, 2_000), (1, 2_000), (3, 2_000)]


def test_kept_by_a_restart() -> None:
    """The same release does not try them again; its own come on top."""
    assert after(("a", "1", False, 2), ("b", "1", False, 0), ("b", "1", False, 1)) == [
        (2, 1_000),
        (2, 1_000),
        (3, 1_000),
    ]


def test_forgotten_when_tried_again() -> None:
    """Another release, or a run that was asked to, counts those that fail again."""
    assert after(("a", "1", False, 2), ("b", "2", False, 0)) == [(2, 1_000), (0, None)]
    assert after(("a", "1", False, 2), ("b", "1", True, 1)) == [(2, 1_000), (1, 1_000)]


#: Every field has a value that no other field and no default has.
STATE = JobState(
    round_ms=1,
    heartbeat_ms=2,
    partition_count=3,
    other_count_since_ms=4,
    refused_since_ms=5,
    late_since_ms=6,
    stalls={7: Stall(8, 9)},
    silent_brokers={10: Silence(11, 12)},
    silent_partitions={13: Silence(14, 15)},
    active={
        ConditionKey("job.blind", "no_rights"): ActiveCondition(17, ("{}",), Evidence.PROBE, b"{}", True),
        ConditionKey("job.behind", ""): ActiveCondition(17, (), Evidence.LOG, b"{}"),
    },
    day_total=DayTotal("r", 16, 17, 18),
    burst=Burst("q", 19, ((20, 21),), 22),
)


def test_what_was_written_is_read() -> None:
    """Every field comes back."""
    assert read(write(STATE)) == STATE


@pytest.mark.parametrize(
    "blob", [b"\x01\xa1x", b"\x01abcd", sealed(1, 1, b"\xff"), sealed(1, 3, b"\x90"), b"\x09"]
)
def test_another_state_is_refused(blob: bytes) -> None:
    """Damaged bytes and those of a later release."""
    with pytest.raises(SnapshotError, match="job state"):
        read(blob)
