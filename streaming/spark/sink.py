"""The Kafka sink: rows of ``step`` to messages of four topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from groupreplay.streaming.config.settings import RunSettings
from groupreplay.streaming.kafka.message_limits import LARGEST_BYTES
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
    # An idempotent producer whose message was refused as too large never writes to that partition again, and Spark
    # keeps one producer for all tasks and queries. One request at a time keeps the order without idempotence.
    "kafka.enable.idempotence": "false",
    "kafka.max.in.flight.requests.per.connection": "1",
    "kafka.batch.size": str(128 * 1024),
    # Brokers that take nothing are reported after two minutes (each of four tries) instead of eight. A request that
    # gets no answer is not sent again: the broker may still write it, behind newer messages.
    "kafka.delivery.timeout.ms": "30000",
    "kafka.request.timeout.ms": "30000",
}


def writer(rows: DataFrame, settings: RunSettings) -> DataStreamWriter:
    """The writer of the messages, on the checkpoint of the settings, without a trigger."""
    return (
        rows.writeStream.format("kafka")
        .queryName("groupreplay")
        .options(**{**_PRODUCER, **connection_options(settings.sink_cluster)})
        .option("includeHeaders", "true")
        .option("checkpointLocation", settings.checkpoint)
        .outputMode("append")
    )


def start(rows: DataFrame, settings: RunSettings) -> StreamingQuery:
    """Starts the query. Messages may be repeated after a failure."""
    interval = f"{round(settings.trigger_seconds * 1000)} milliseconds"
    return writer(rows, settings).trigger(processingTime=interval).start()
