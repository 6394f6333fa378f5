"""The batches of a real query, by the public listener and from the JVM."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from groupreplay.streaming.spark.batch_progress import batch_progress
from support.job.spark_sessions import small_session
from support.kafka.waiting import wait_until

pytestmark = pytest.mark.spark


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


def test_both_readers_give_the_same_json(tmp_path: Path) -> None:
    """Whatever the job takes from a batch, it takes it from the same text."""
    with (
        closing(batch_progress(small_session(), plain=True)) as listened,
        closing(batch_progress(small_session(), plain=False)) as from_java,
    ):
        query = three_batches(tmp_path)
        wait_until(lambda: len(listened.after(query, -1)) == 3)
        assert listened.after(query, -1) == from_java.after(query, -1)


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
