"""The batches of a real query."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupreplay.streaming.spark.batches import batches_after
from support.job.spark_sessions import small_session


@pytest.mark.spark
def test_batches_behind_a_known_one(tmp_path: Path) -> None:
    """All of them where some are missing, else the last; their fields are those that PySpark shows."""
    spark = small_session()
    for number in range(3):
        spark.range(number + 1).coalesce(1).write.mode("append").parquet(str(tmp_path / "rows"))
    query = (
        spark.readStream.schema("id bigint")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(tmp_path / "rows"))
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    shown = [(one["batchId"], one["numInputRows"]) for one in query.recentProgress]
    found = {
        known: [(one["batchId"], one["numInputRows"]) for one in batches_after(query, known)]
        for known in (-1, 0, 1, None)
    }
    assert sorted(rows for _, rows in shown) == [1, 2, 3]
    assert found == {-1: shown, 0: shown, 1: shown[-1:], None: shown[-1:]}
