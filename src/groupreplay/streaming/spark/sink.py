"""The Kafka sink: rows of ``step`` to messages of four topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from groupreplay.streaming.config.settings import RunSettings
from groupreplay.streaming.kafka.publisher import BATCH_BYTES, LARGEST_BYTES
from groupreplay.streaming.spark.source import connection_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def messages(rows: DataFrame) -> DataFrame:
    """The rows in the columns of Spark's Kafka sink, without those that have no topic; ``headers`` is JSON before."""
    from pyspark.sql import functions as sql

    headers = sql.map_entries(sql.from_json("headers", "map<string,string>"))
    return rows.where(sql.col("topic").isNotNull()).select(
        "topic",
        "key",
        "value",
        sql.transform(
            headers,
            lambda entry: sql.struct(entry["key"].alias("key"), entry["value"].cast("binary").alias("value")),
        ).alias("headers"),
    )


#: Settings of the user come later.
_PRODUCER: Final = {
    # The brokers decide what is too large.
    "kafka.max.request.size": str(4 * LARGEST_BYTES),
    # Brokers that take nothing are reported after two minutes (each of four tries) instead of eight.
    "kafka.delivery.timeout.ms": "30000",
    "kafka.request.timeout.ms": "15000",
}


def writer(rows: DataFrame, settings: RunSettings, batch_bytes: int = BATCH_BYTES) -> DataStreamWriter:
    """The writer of the messages, on the checkpoint of the settings, without a trigger.

    ``batch_bytes`` must not be above the limit of any topic: a refused batch is split into batches of this size, again
    and again until its messages expire.
    """
    return (
        rows.writeStream.format("kafka")
        .queryName("groupreplay")
        .options(
            **{
                **_PRODUCER,
                "kafka.batch.size": str(batch_bytes),
                **connection_options(settings.sink_cluster),
            }
        )
        .option("includeHeaders", "true")
        .option("checkpointLocation", settings.checkpoint)
        .outputMode("append")
    )


def start(rows: DataFrame, settings: RunSettings, batch_bytes: int = BATCH_BYTES) -> StreamingQuery:
    """Starts the query. Messages may be repeated after a failure."""
    interval = f"{round(settings.batch_seconds * 1000)} milliseconds"
    return writer(rows, settings, batch_bytes).trigger(processingTime=interval).start()
