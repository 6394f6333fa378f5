"""The status of the job, from the progress of its query."""

from __future__ import annotations

import msgspec
import pytest

from groupreplay import __version__
from groupreplay.streaming.contract.probe_messages import RoundSummary
from groupreplay.streaming.job.job_status import JobReport
from groupreplay.streaming.spark.query import OBSERVED, OBSERVED_PROBES, OBSERVED_READ
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
    }


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
    """The same progress may be seen many times; counters add up what Spark observed in each batch."""
    report = JobReport(IDENTITY)
    # Spark's sums are null where no row had a number.
    observed = {
        OBSERVED: {
            "events": 2,
            "states": 1,
            "dead_letters": 0,
            "job": 0,
            "unmissed_expired": 3,
            "quarantined": 1,
        },
        OBSERVED_READ: {"OffsetCommit": 5, "GroupMetadata": 1, "unknown": None},
        OBSERVED_PROBES: {"probes_unreadable": 2, "probes_misdated": None},
    }
    first, second = batch(3, {0: 5}, observedMetrics=observed), batch(4, {0: 9}, observedMetrics=observed)
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
    assert document["batch"] == {"id": 4, "seconds": 1.5, "rows": 5}
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
    report = JobReport(IDENTITY, ends={0: 100})
    assert report.line(0) == "starting: no batch has finished yet"
    report.take([batch(0, {0: 0})])
    assert report.line(0) == "catching up: 0% read, 100 records to go, last batch 1.5 s, 0 events so far"
    report.take([batch(1, {0: 75})])
    assert report.line(0) == "catching up: 75% read, 25 records to go, last batch 1.5 s, 0 events so far"
    report.caught_up_ms = 1_000
    assert report.line(2_000) == ("caught up to 1970-01-01T00:00:01.000Z, last batch 1.5 s, 0 events so far")
