"""The two Kafka sources of the query: the offsets topic, and the heartbeats that tell how far it was read.

Knows the options of Spark's Kafka connector, each with its reason; must not know record types.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from groupreplay.state.context import OFFSETS_TOPIC
from groupreplay.streaming.packing import HEARTBEAT_TAG
from groupreplay.streaming.properties import ClientProperties
from groupreplay.streaming.settings import Cluster
from groupreplay.streaming.step import RESERVED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: A heartbeat beyond this would fire every timer there is: the year 2100.
_LATEST_MS: Final = 4_102_444_800_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """A topic that is read as a whole: ``partitions`` is how many it has."""

    cluster: Cluster
    topic: str
    partitions: int


def connection_options(cluster: Cluster) -> dict[str, str]:
    """How the connector reaches a cluster; for sources and the sink alike."""
    return {
        **ClientProperties(cluster.properties).for_spark(),
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
    }


def read_options(plan: TopicPlan) -> dict[str, str]:
    """How a topic is read: by assignment, because a subscribing driver would join a group and be seen."""
    return {
        **connection_options(plan.cluster),
        "assign": json.dumps({plan.topic: list(range(plan.partitions))}),
        "startingOffsets": "earliest",
        # Aborted offset commits must not look real.
        "kafka.isolation.level": "read_committed",
        # At a partition's end a fetch waits this long; the default costs half a second for each partition.
        "kafka.fetch.max.wait.ms": "10",
        "kafka.max.poll.records": "20000",
        "kafka.max.partition.fetch.bytes": str(4 << 20),
    }


def log_records(spark: SparkSession, plan: TopicPlan, max_offsets_per_trigger: int) -> DataFrame:
    """The records of the offsets topic, in the columns that ``pack`` reads."""
    from pyspark.sql import functions as sql

    return _stream(
        spark,
        {
            **read_options(plan),
            "maxOffsetsPerTrigger": str(max_offsets_per_trigger),
            # Records that are gone unread would leave a state that is quietly wrong.
            "failOnDataLoss": "true",
        },
    ).select("partition", "offset", sql.unix_millis("timestamp").alias("timestamp_ms"), "key", "value")


def heartbeats(spark: SparkSession, plan: TopicPlan, run_id: str) -> DataFrame:
    """The heartbeats of this run as rows of the packed schema."""
    # Old heartbeats are of no use, so it does not matter when retention takes them.
    return heartbeat_rows(_stream(spark, {**read_options(plan), "failOnDataLoss": "false"}), run_id)


def heartbeat_rows(messages: DataFrame, run_id: str) -> DataFrame:
    """Messages of the topic of probes that are heartbeats of this run; all others are left out.

    A heartbeat of another run says nothing: its checkpoint may have been further, or another one.
    """
    from pyspark.sql import functions as sql

    text = sql.col("value").cast("string")
    caught_up_ms = sql.get_json_object(text, "$.caught_up_ms").try_cast("long")
    believable = caught_up_ms.between(0, _LATEST_MS)
    return messages.where(
        (sql.col("key") == _binary(RESERVED)) & (sql.get_json_object(text, "$.run_id") == run_id)
    ).select(
        _binary(HEARTBEAT_TAG).alias("key"),
        sql.lit(None).cast("binary").alias("packed"),
        sql.when(believable, sql.timestamp_millis(caught_up_ms)).alias("caught_up"),
    )


def planned_partitions(spark: SparkSession, plan: TopicPlan) -> int:
    """How many partitions with data the connector sees; nothing is read."""
    options: Mapping[str, Any] = {**read_options(plan), "endingOffsets": "latest"}
    return spark.read.format("kafka").options(**options).load().rdd.getNumPartitions()


def offsets_read(progress: Mapping[str, Any] | None) -> dict[int, int]:
    """The next offset of each partition of the offsets topic after the last finished batch."""
    for source in progress["sources"] if progress else ():
        end = source["endOffset"]
        end = json.loads(end) if isinstance(end, str) else end
        if end and OFFSETS_TOPIC in end:
            return {int(partition): int(offset) for partition, offset in end[OFFSETS_TOPIC].items()}
    return {}


def _stream(spark: SparkSession, options: Mapping[str, Any]) -> DataFrame:
    return spark.readStream.format("kafka").options(**options).load()


def _binary(value: bytes) -> Column:
    from pyspark.sql import functions as sql

    return sql.lit(bytearray(value))
