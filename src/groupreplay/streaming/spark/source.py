"""The two Kafka sources of the query: the offsets topic, and the topic of probes and heartbeats.

Each option of Spark's Kafka connector has its reason beside it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from groupreplay.state.policy.context import OFFSETS_TOPIC
from groupreplay.streaming.config.properties import ClientProperties
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.rights import SPARK_GROUPS
from groupreplay.streaming.spark.checkpoint_files import source_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Bounds the first batch, which may find a month of probes. Far more than a prober writes between two batches: a
#: heartbeat must be read in the next batch.
_PROBES_PER_TRIGGER: Final = 500_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """A topic of which all partitions are read; ``partitions`` is their number."""

    cluster: Cluster
    topic: str
    partitions: int


def connection_options(cluster: Cluster) -> dict[str, str]:
    """The connector's options for a cluster; for sources and sinks."""
    return {
        **ClientProperties(cluster.properties).for_spark(),
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
    }


def read_options(plan: TopicPlan) -> dict[str, str]:
    """How a topic is read: by assignment, because a driver that subscribes joins a group and appears in the events."""
    return {
        # A partition without a leader is an error after this time; by default it would be one after three minutes. Of
        # several tries only the first is sure to end: each further one has a new consumer group, and waits for ever if
        # the coordinator of that group is away.
        "kafka.default.api.timeout.ms": "30000",
        "fetchOffset.numRetries": "1",
        # The same for a batch that was planned when the partition still had a leader; four tasks in turn wait so long.
        "kafkaConsumer.pollTimeoutMs": "30000",
        **connection_options(plan.cluster),
        "assign": json.dumps({plan.topic: list(range(plan.partitions))}),
        "startingOffsets": "earliest",
        # Aborted offset commits must not be read.
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
            # Records deleted before they were read make the state wrong.
            "failOnDataLoss": "true",
        },
    ).select("partition", "offset", sql.unix_millis("timestamp").alias("timestamp_ms"), "key", "value")


def probe_records(spark: SparkSession, plan: TopicPlan) -> DataFrame:
    """The messages of the topic of probes, in the columns that ``pack_probes`` reads."""
    messages = _stream(
        spark,
        {
            **read_options(plan),
            "maxOffsetsPerTrigger": str(_PROBES_PER_TRIGGER),
            # Old probes and heartbeats are of no use; retention may delete them.
            "failOnDataLoss": "false",
        },
    )
    timestamp = "unix_millis(timestamp) AS timestamp"
    return messages.selectExpr("partition", "offset", timestamp, "timestampType", "key", "value")


def planned_partitions(spark: SparkSession, plan: TopicPlan) -> int:
    """The number of partitions with data that the connector finds; reads no records."""
    options: Mapping[str, Any] = {
        **read_options(plan),
        "endingOffsets": "latest",
        # The name of a stream's consumer group; the default for batches would need one more right.
        "groupIdPrefix": SPARK_GROUPS.removesuffix("-"),
    }
    return spark.read.format("kafka").options(**options).load().rdd.getNumPartitions()


def offsets_read(progress: Mapping[str, Any] | None, topic: str = OFFSETS_TOPIC) -> dict[int, int]:
    """The next offset of each partition of a source's topic after a finished batch, from its progress in JSON."""
    for source in progress["sources"] if progress else ():
        end = source["endOffset"]
        if end and topic in end:
            return {int(partition): int(offset) for partition, offset in end[topic].items()}
    return {}


def offsets_in(lines: Iterable[str]) -> dict[int, int]:
    """The same from Spark's ``offsets`` file of a batch: two lines of its own, then a line for each source."""
    for text in map(source_line, lines):
        if text.startswith("{") and OFFSETS_TOPIC in (end := json.loads(text)):
            return {int(partition): int(offset) for partition, offset in end[OFFSETS_TOPIC].items()}
    return {}


def _stream(spark: SparkSession, options: Mapping[str, Any]) -> DataFrame:
    return spark.readStream.format("kafka").options(**options).load()
