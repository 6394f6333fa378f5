"""The status of the job, from the progress of its query."""

from __future__ import annotations

import msgspec
import pytest

from groupreplay.streaming.contract.messages import QueryStatus
from groupreplay.streaming.contract.probe_messages import ERROR_LIMIT, RoundSummary
from groupreplay.streaming.run.interface import Batch
from groupreplay.streaming.run.single_run import SingleRun
from groupreplay.streaming.run.status import JobReport, QueryHealth
from groupreplay.version import __version__
from support.job.progress import IDENTITY, batch


def test_the_document_before_the_first_batch() -> None:
    """Everything that is known at the start, and nulls for the rest; all fields are there."""
    assert msgspec.to_builtins(JobReport(IDENTITY).document(5_000)) == {
        "cluster_id": "c",
        "topic": "__consumer_offsets",
        "era": "e",
        "job_id": "j",
        "run_id": "r",
        "version": __version__,
        "first_start_ms": 1,
        "started_ms": 2,
        "heartbeat_ms": 5_000,
        "phase": "starting",
        "caught_up_ms": None,
        "trigger_seconds": 10,
        "lag": {"offsets": 0, "partitions": {}},
        "batch": None,
        "state_rows": 0,
        "counters": {
            "batches": 0,
            "records": 0,
            "events": 0,
            "states": 0,
            "dead_letters": 0,
            "job": 0,
            "unmissed_expired": 0,
            "quarantined": 0,
            "unwritten": 0,
            "probes_unreadable": 0,
            "probes_misdated": 0,
        },
        "record_types": {},
        "restarts": 0,
        "last_error": None,
        "prober_restarts": 0,
        "prober": None,
        "clock_off_ms": None,
        "rules": {"changes": 0, "error": None},
        "host": "",
        "checkpoint": "",
        "query": {"running": True, "since_ms": 5_000, "error": None},
        "once": False,
        "settled": False,
        "hides_names": False,
    }


def test_a_query_settles_some_time_after_it_has_caught_up() -> None:
    """By then it has also called groups whose deadline passed before it began: three times as long as it was behind.

    Another query of the same run begins anew.
    """
    report = JobReport(IDENTITY)
    settled = []
    # Begun at 100 s; caught up, to a time behind that, by 120 s; so settled from 120 + 30 + 3 * 20 on.
    for number, (at_s, evaluated_s) in enumerate([(100, 50), (120, 100), (150, 140), (209, 200), (210, 205)]):
        report.take([batch(number, {}, started_ms=1_000 * at_s, evaluated_to_ms=1_000 * evaluated_s)])
        settled.append(report.document(0).settled)
    report.query_started()
    assert (settled, report.document(0).settled) == ([False] * 4 + [True], False)


def test_a_single_run_is_told_of_queries_and_batches() -> None:
    """Each batch once, and the document says that this run ends by itself."""
    told: list[object] = []

    class Told(SingleRun):
        def query_started(self) -> None:
            told.append("start")

        def take(self, batch: Batch) -> None:
            told.append(batch.number)

    single_run = Told(clock=lambda: 0, settle_seconds=0, is_probing=False, is_synced=lambda: True)
    report = JobReport(IDENTITY, single_run=single_run)
    report.query_started()
    report.take([batch(0, {0: 1}), batch(1, {0: 2})])
    report.take([batch(1, {0: 2}), batch(2, {0: 2})])
    assert told == ["start", 0, 1, 2]
    assert report.document(0).once


def test_the_document_has_the_last_round_of_the_prober() -> None:
    """When it last asked, which brokers answered, whether it may see all groups, how often it was restarted."""
    last = RoundSummary(
        cluster_id="c",
        taken_ms=7,
        brokers={1: None, 2: "timed out"},
        rights="ok",
        partitions={},
        partition_count=None,
        groups=3,
    )
    document = msgspec.to_builtins(JobReport(IDENTITY, last_round=last, prober_restarts=2).document(0))
    assert document["prober_restarts"] == 2
    assert document["prober"] == {
        "round_ms": 7,
        "rights": "ok",
        "brokers": {"1": None, "2": "timed out"},
        "groups": 3,
    }


def test_every_batch_is_counted_once() -> None:
    """The same progress may be seen many times; counters add up those of each batch."""
    report = JobReport(IDENTITY)
    counts = {"events": 2, "states": 1, "unmissed_expired": 3, "quarantined": 1, "probes_unreadable": 2}
    fields = {"counts": counts, "record_types": {"OffsetCommit": 5, "GroupMetadata": 1}}
    first, second = batch(3, {0: 5}, **fields), batch(4, {0: 9}, **fields)
    for seen in ([first], [first], [first, second], [second]):
        report.take(seen)
    document = msgspec.to_builtins(report.document(0))
    assert document["counters"] == {
        "batches": 2,
        "records": 8,
        "events": 4,
        "states": 2,
        "dead_letters": 0,
        "job": 0,
        "unmissed_expired": 6,
        "quarantined": 2,
        "unwritten": 0,
        "probes_unreadable": 4,
        "probes_misdated": 0,
    }
    assert document["record_types"] == {"GroupMetadata": 2, "OffsetCommit": 10}
    assert document["batch"] == {"id": 4, "seconds": 1.5, "rows": 5, "phases": {}, "state": None}
    assert document["state_rows"] == 7
    assert report.read() == {0: 9}


@pytest.mark.parametrize(
    ("caught_up_ms", "phase"),
    [(None, "catching_up"), (939_999, "catching_up"), (940_000, "caught_up"), (1_000_000, "caught_up")],
)
def test_the_phase_follows_the_caught_up_time(caught_up_ms: int | None, phase: str) -> None:
    """A minute behind (or three triggers, if that is more) still counts as caught up."""
    report = JobReport(IDENTITY, caught_up_ms=caught_up_ms)
    report.take([batch(0, {0: 1})])
    assert report.phase(1_000_000) == phase


def test_a_run_that_has_ended_says_so() -> None:
    """Whatever it had reached: a start of another run need not wait for it."""
    report = JobReport(IDENTITY, caught_up_ms=5_000)
    report.take([batch(0, {0: 1})])
    report.stopped = True
    assert report.document(5_000).phase == "stopped"


def test_how_far_the_probes_were_read() -> None:
    """Each source of the query has its own offsets."""
    report = JobReport(IDENTITY)
    assert report.read_of("group-probes") == {}
    report.take([batch(0, {0: 7})])
    assert (report.read(), report.read_of("group-probes")) == ({0: 7}, {0: 1})


def test_the_line_for_a_person() -> None:
    """Before, during and after the catch-up: what a person wants to know in one line."""
    clock, tasks = Clock(), [None, (3, 8)]
    report = JobReport(IDENTITY, ends={0: 100}, seconds=clock, tasks=lambda: tasks[-1])
    begun = "starting: the first batch has not finished after "
    ended = ", 3 of 8 tasks of its present stage have ended"
    assert report.line(0) == f"{begun}0 s{ended}"
    clock.now += 36
    tasks.append(None)
    assert report.line(0) == f"{begun}36 s"
    report.take([batch(0, {0: 0})])
    assert report.line(0) == "catching up: 0% read, 100 records to go, last batch 1.5 s, 0 events so far"
    report.take([batch(1, {0: 75})])
    assert report.line(0) == "catching up: 75% read, 25 records to go, last batch 1.5 s, 0 events so far"
    report.caught_up_ms = 1_000
    assert report.line(2_000) == ("caught up to 1970-01-01T00:00:01.000Z, last batch 1.5 s, 0 events so far")


def test_what_a_log_gets_a_line_for() -> None:
    """Ten seconds of a start, a tenth of what is to be read, and each phase; not each batch."""
    clock = Clock()
    report = JobReport(IDENTITY, ends={0: 100}, seconds=clock)
    steps = [report.step(0)]
    for seconds in (9, 1, 10):
        clock.now += seconds
        steps.append(report.step(0))
    for number, offset in enumerate((0, 5, 9, 75)):
        report.take([batch(number, {0: offset})])
        steps.append(report.step(0))
    report.caught_up_ms = 1_000
    steps.append(report.step(2_000))
    assert steps == [
        *("starting 0", "starting 0", "starting 1", "starting 2"),
        *("catching_up 0", "catching_up 0", "catching_up 0", "catching_up 7"),
        "caught_up",
    ]


class Clock:
    """Seconds that are set by hand; 100 s are the time 1 000 000 of the job's clock."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    @property
    def ms(self) -> int:
        """The time by the job's clock."""
        return round(900_000 + 1_000 * self.now)


def statuses(health: QueryHealth, clock: Clock, seconds: int) -> list[tuple[int, QueryStatus]]:
    """The status whenever it changes within these seconds, with the second of the change."""
    found: list[tuple[int, QueryStatus]] = []
    for second in range(seconds):
        status = health.status(clock.ms)
        if not found or found[-1][1] != status:
            found.append((second, status))
        clock.now += 1
    return found


def running(since_ms: int) -> QueryStatus:
    """A query that reads."""
    return QueryStatus(running=True, since_ms=since_ms)


def stopped(since_ms: int, error: str | None = None) -> QueryStatus:
    """A query that does not."""
    return QueryStatus(running=False, since_ms=since_ms, error=error)


def test_a_query_that_is_started_again_soon_was_never_away() -> None:
    """Other rules, a clock that was set, one failure: half a minute is no outage."""
    clock = Clock()
    health = QueryHealth(10, clock)
    health.batch_finished(1)
    health.failed("no broker")
    assert statuses(health, clock, 29) == [(0, running(1_000_000))]
    health.started()
    assert statuses(health, clock, 60) == [(0, running(1_000_000))]
    health.batch_finished(1)
    assert statuses(health, clock, 100) == [(0, running(1_000_000))]


def test_a_query_that_fails_again_and_again() -> None:
    """It counts from the failure, with its reason, until a batch is finished: in between it runs for moments."""
    clock = Clock()
    health = QueryHealth(10, clock)
    health.batch_finished(1)
    health.failed("disk full")
    assert statuses(health, clock, 50) == [
        (0, running(1_000_000)),
        (30, stopped(1_000_000, "disk full")),
    ]
    health.started()
    assert statuses(health, clock, 5) == [(0, stopped(1_000_000, "disk full"))]
    health.failed("x" * 1_000)
    assert statuses(health, clock, 5) == [(0, stopped(1_000_000, "x" * ERROR_LIMIT))]
    health.started()
    health.batch_finished(1)
    assert statuses(health, clock, 5) == [(0, running(1_060_000))]


@pytest.mark.parametrize(
    ("trigger", "last_batch", "failure", "allowed"),
    [
        (10, 1.0, None, 120),
        (60, 1.0, None, 180),
        (10, 100.0, None, 300),
        (10, None, None, 300),
        (10, None, "no broker", 120),
    ],
)
def test_a_query_that_waits_for_ever(
    trigger: float, last_batch: float | None, failure: str | None, allowed: int
) -> None:
    """Spark itself may wait for a broker without a word; long triggers, long batches and a first read have longer."""
    clock = Clock()
    health = QueryHealth(trigger, clock)
    if last_batch is not None:
        health.batch_finished(last_batch)
    if failure is not None:
        health.failed(failure)
    health.started()
    assert statuses(health, clock, 400) == [
        (0, running(1_000_000)),
        (allowed, stopped(1_000_000, failure)),
    ]
    assert health.quiet_seconds == 400


def test_a_run_that_begins_late() -> None:
    """What is made long before its first query has the same patience."""
    clock = Clock()
    health = QueryHealth(10, clock)
    clock.now += 10_000
    health.started()
    assert statuses(health, clock, 299) == [(0, running(11_000_000))]


def test_a_job_that_waits_says_so() -> None:
    """Phase, line and document; a run that has ended is not waiting."""
    clock = Clock()
    report = JobReport(IDENTITY, caught_up_ms=1_000_000, seconds=clock)
    report.take([batch(0, {0: 1})])
    report.query_failed("disk full \x1b[2J")
    clock.now += 30
    assert report.phase(clock.ms) == "waiting"
    assert report.line(clock.ms) == (
        "waiting: the query has been stopped since 1970-01-01T00:16:40.000Z: disk full \\u{1b}[2J"
    )
    assert report.document(clock.ms).query == stopped(1_000_000, "disk full \x1b[2J")
    report.stopped = True
    assert report.phase(clock.ms) == "stopped"
