"""What a run learns of the batches of a real query, by both ways; and how many offsets the next batch reads."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.streaming.contract.messages import StateCost
from groupreplay.streaming.run.interface import Batch
from groupreplay.streaming.spark.progress import BatchSize, batch_progress, finished_batch
from groupreplay.streaming.spark.query import OBSERVED, OBSERVED_PROBES, OBSERVED_READ
from support.job.spark_sessions import private_parts, small_session
from support.kafka.waiting import wait_until

#: Spark's report of a batch, without the fields that nobody reads.
PROGRESS: Final[Mapping[str, Any]] = {
    "batchId": 3,
    "timestamp": "2027-01-15T08:00:00.250Z",
    "batchDuration": 1_500,
    "durationMs": {"triggerExecution": 1_250, "addBatch": 1_000, "walCommit": 125},
    "numInputRows": 3,
    "eventTime": {"watermark": "1970-01-01T00:00:00.000Z", "max": "2027-01-15T08:00:00.000Z"},
    "sources": [
        {"endOffset": {"group-probes": {"0": 3}}, "numInputRows": 1},
        {
            "startOffset": {"__consumer_offsets": {"0": 2}},
            "endOffset": {"__consumer_offsets": {"0": 7, "1": 0}},
            "numInputRows": 2,
        },
    ],
    "stateOperators": [
        {
            "numRowsTotal": 7,
            "numRowsUpdated": 3,
            "memoryUsedBytes": 4_096,
            "allUpdatesTimeMs": 500,
            "allRemovalsTimeMs": 250,
            "commitTimeMs": 125,
            "customMetrics": {
                "rocksdbLoadLatencyMs": 1_500,
                "rocksdbNumLoadedFromDfs": 2,
                "rocksdbGetCount": 9,
            },
        }
    ],
    # Spark's sums are null where no row had a number.
    "observedMetrics": {
        OBSERVED: {"events": 2, "unmissed_expired": 3},
        OBSERVED_READ: {"OffsetCommit": 5, "GroupMetadata": 1, "unknown": None},
        OBSERVED_PROBES: {"probes_unreadable": 2, "probes_misdated": None},
    },
}
BATCH = Batch(
    number=3,
    started_ms=1_800_000_000_250,
    seconds=1.25,
    rows=7,
    records=6,
    read_to={"group-probes": {0: 3}, "__consumer_offsets": {0: 7, 1: 0}},
    counts={"events": 2, "unmissed_expired": 3, "probes_unreadable": 2, "probes_misdated": 0},
    record_types={"OffsetCommit": 5, "GroupMetadata": 1},
    groups=7,
    evaluated_to_ms=0,
    caught_up_ms=1_800_000_000_000,
    phases={"addBatch": 1.0, "walCommit": 0.125},
    state=StateCost(
        written=3,
        memory_bytes=4_096,
        update_seconds=0.5,
        timer_seconds=0.25,
        commit_seconds=0.125,
        load_seconds=1.5,
        loaded=2,
    ),
    log_offsets=5,
)


def test_what_a_run_takes_from_sparks_report() -> None:
    """Numbers of this batch alone; times in milliseconds, the offsets of each source by topic."""
    assert finished_batch(PROGRESS) == BATCH


def test_groups_that_are_read_ahead() -> None:
    """What all groups were read up to is read: nothing yet in a batch of those that are ahead alone."""
    ahead = {"ahead": {"0": 9}, "aheadTo": {"0": 9}, "activeGroups": "eJwDAAAAAAE="}
    source = {
        "startOffset": {"__consumer_offsets": {"0": 3}},
        "endOffset": {"__consumer_offsets": {"0": 3}, **ahead},
        "numInputRows": 2,
    }
    batch = finished_batch({**PROGRESS, "sources": [source]})
    assert (batch.read_to, batch.log_offsets) == ({"__consumer_offsets": {0: 3}}, 0)


@pytest.mark.parametrize("event_time", [{}, None])
def test_a_report_of_little(event_time: dict[str, str] | None) -> None:
    """Before the first batch with data a source has no offsets; Spark 3.5 has no ``batchDuration`` and no loads."""
    bare = {
        **PROGRESS,
        "sources": [{"endOffset": None, "numInputRows": 0}],
        "eventTime": event_time,
        "durationMs": {},
        "observedMetrics": {},
        "stateOperators": [{"numRowsTotal": 7, "customMetrics": {}}],
    }
    fields = {
        "rows": 0,
        "records": 0,
        "read_to": {},
        "counts": {},
        "record_types": {},
        "phases": {},
        "state": StateCost(),
        "log_offsets": None,
    }
    expected = replace(BATCH, seconds=1.5, evaluated_to_ms=-1, caught_up_ms=-1, **fields)
    assert finished_batch(bare) == expected
    assert (expected.read(), BATCH.read(), BATCH.read("group-probes")) == ({}, {0: 7, 1: 0}, {0: 3})


@pytest.mark.spark
@pytest.mark.parametrize("plain", [False, True], ids=["from the JVM", "listener"])
def test_batches_behind_a_known_one(tmp_path: Path, plain: bool) -> None:
    """All of them where some are missing, else the last; their fields are those that PySpark shows."""
    with closing(batch_progress(small_session(), plain=plain)) as progress:
        query = three_batches(tmp_path)
        # A listener is told in a thread of its own.
        wait_until(lambda: [one["batchId"] for one in progress.after(query, None)] == [2])
        shown = [(one["batchId"], one["numInputRows"]) for one in query.recentProgress]
        found = {
            known: [(one["batchId"], one["numInputRows"]) for one in progress.after(query, known)]
            for known in (-1, 0, 1, None)
        }
        assert sorted(rows for _, rows in shown) == [1, 2, 3]
        assert found == {-1: shown, 0: shown, 1: shown[-1:], None: shown[-1:]}


@private_parts
@pytest.mark.spark
def test_both_readers_give_the_same_json(tmp_path: Path) -> None:
    """Whatever the job takes from a batch, it takes it from the same text."""
    with (
        closing(batch_progress(small_session(), plain=True)) as listened,
        closing(batch_progress(small_session(), plain=False)) as from_java,
    ):
        query = three_batches(tmp_path)
        wait_until(lambda: len(listened.after(query, -1)) == 3)
        assert listened.after(query, -1) == from_java.after(query, -1)


@pytest.mark.spark
def test_batches_of_another_query_are_left_out(tmp_path: Path) -> None:
    """A job that starts its query again does not count the batches of the former one."""
    with closing(batch_progress(small_session(), plain=True)) as progress:
        first = three_batches(tmp_path / "first")
        second = three_batches(tmp_path / "second")
        wait_until(lambda: len(progress.after(second, -1)) == 3)
        runs = [{one["runId"] for one in progress.after(query, -1)} for query in (first, second)]
        assert runs == [{str(first.runId)}, {str(second.runId)}]


def three_batches(folder: Path) -> Any:
    """A query that has run three batches, of one, two and three rows."""
    spark = small_session()
    for number in range(3):
        spark.range(number + 1).coalesce(1).write.mode("append").parquet(str(folder / "rows"))
    query = (
        spark.readStream.schema("id bigint")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder / "rows"))
        .writeStream.format("noop")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


def batch(records: int, seconds: float, log_offsets: int | None = None) -> Batch:
    """A finished batch."""
    return Batch(number=0, started_ms=0, seconds=seconds, records=records, log_offsets=log_offsets)


def plans(size: BatchSize, *batches: Batch) -> list[int]:
    """The first plan, and one after each batch that asks for another."""
    planned = [size.plan()]
    for finished in batches:
        size.learn(finished)
        planned += [size.plan()] if size.change() else []
    return planned


@pytest.mark.parametrize(
    ("batches", "planned"),
    [
        pytest.param([(100_000, 1)], [100_000, 2_000_000], id="a log with few groups"),
        pytest.param([(100_000, 2)], [100_000, 1_500_000], id="a faster pace is worth another plan"),
        pytest.param([(100_000, 20)], [100_000], id="not worth another plan"),
        pytest.param(
            [(100_000, 200)], [100_000, 15_000], id="a call for each offset, on the worker of PySpark"
        ),
        pytest.param([(100_000, 200), (15_000, 30)], [100_000, 15_000], id="the pace holds"),
        pytest.param([(100_000, 200), (15_000, 3)], [100_000, 15_000, 150_000], id="then come larger groups"),
        pytest.param([(100_000, 100_000)], [100_000, 10_000], id="never less than is worth a batch"),
        pytest.param([(20_000, 300), (0, 300)], [100_000], id="not the offsets take the time"),
        pytest.param([(7, 120, 100_000)], [100_000, 25_000], id="of the others compaction has left nothing"),
        pytest.param([(80_000, 120, 80_000)], [100_000], id="all that there was"),
        pytest.param([(0, 7, 0)], [100_000], id="groups that are read ahead of the others alone"),
        pytest.param(
            [(100_000, 7), (100_000, 9, 100_000)], [100_000, 428_571], id="a batch of the plan before"
        ),
        pytest.param([(96_000, 125)], [100_000, 23_040], id="shares are rounded down"),
    ],
)
def test_plans(batches: list[tuple[int, float, int]], planned: list[int]) -> None:
    """A batch over a minute makes the next ones smaller; a pace of twice the plan makes them larger."""
    assert plans(BatchSize(2_000_000), *(batch(*values) for values in batches)) == planned


def test_the_reason_has_the_numbers() -> None:
    """The line of the job says what was seen and what follows."""
    size = BatchSize(2_000_000)
    size.plan()
    size.learn(batch(100_000, 200))
    assert size.change() == (
        "a batch of 100,000 offsets took 200 s, continuing with at most 15,000 in a batch"
    )
    size.plan()
    assert size.change() is None


def test_a_single_run_begins_with_the_bound_of_the_settings() -> None:
    """Another plan would only cost time; a batch over a minute makes the next ones smaller here, too."""
    assert plans(BatchSize(2_000_000, is_single_run=True), batch(2_000_000, 10)) == [2_000_000]
    assert plans(BatchSize(2_000_000, is_single_run=True), batch(2_000_000, 100)) == [2_000_000, 600_000]


@given(most=st.integers(1, 10**8), batches=st.lists(st.tuples(st.integers(0, 10**8), st.floats(0, 10**5))))
def test_the_bound_of_the_settings_holds(most: int, batches: list[tuple[int, float]]) -> None:
    """Whatever the batches were."""
    for planned in plans(BatchSize(most), *(batch(*values) for values in batches)):
        assert 1 <= planned <= most
