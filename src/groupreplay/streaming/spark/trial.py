"""A trial of a Spark that is newer than those the job was tested with: does the watermark reach the function?

Spark does not document that a column with the metadata of a watermark carries it into ``applyInPandasWithState``. If it
did not, deadlines would never come, and nothing would fail.



"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from groupreplay.streaming.spark.query import STATE_SCHEMA, caught_up_ms

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.state import GroupState

_SECONDS: Final = 180.0
_PAUSE_SECONDS: Final = 0.5
#: Longer than a batch of one row takes, so that there are pauses between the batches.
_TRIGGER: Final = "5 seconds"
#: The time in the first rows of the trial, and how far it goes forward with each batch.
_FIRST_MS: Final = 1_000_000
_STEP_MS: Final = 1_000


def watermark_is_passed(spark: SparkSession) -> bool:
    """Runs the job's operator in small, on rows that Spark makes: whether one of its calls has seen a watermark."""
    name = f"groupreplay_trial_{uuid.uuid4().hex}"
    writer = _seen(spark).writeStream.format("memory").queryName(name).outputMode("append")
    query = writer.trigger(processingTime=_TRIGGER).start()
    deadline = time.monotonic() + _SECONDS
    try:
        while query.isActive and time.monotonic() < deadline:
            if spark.table(name).where(f"watermark_ms >= {_FIRST_MS}").count():
                return True
            time.sleep(_PAUSE_SECONDS)
    finally:
        # Stopped within a batch, a query writes pages of stack traces.
        while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
            time.sleep(_PAUSE_SECONDS / 10)
        query.stop()
        spark.catalog.dropTempView(name)
    return False


def _seen(spark: SparkSession) -> DataFrame:
    """A row with the watermark of each call of the function."""
    from pyspark.sql.streaming.state import GroupStateTimeout

    rows = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", 1)
        .option("numPartitions", 1)
        .option("startTimestamp", _FIRST_MS)
        .option("advanceMillisPerBatch", _STEP_MS)
        .load()
        .selectExpr("cast('key' as binary) as key", "timestamp as caught_up")
    )
    return (
        rows.withWatermark("caught_up", "0 seconds")
        .select("key", caught_up_ms())
        .groupBy("key")
        .applyInPandasWithState(
            _watermarks,
            "watermark_ms bigint",
            STATE_SCHEMA,
            "append",
            GroupStateTimeout.ProcessingTimeTimeout,
        )
    )


def _watermarks(key: Any, frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    import pandas as pd

    for _ in frames:
        pass
    state.update((b"",))
    yield pd.DataFrame({"watermark_ms": [state.getCurrentWatermarkMs()]})
