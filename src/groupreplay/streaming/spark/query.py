"""The query: the packed log and the packed probes, grouped by key, one call of ``step`` for each group."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

from groupreplay.state.events.event import Severity
from groupreplay.state.events.group_events import GroupQuarantined
from groupreplay.state.events.offset_events import OffsetsExpired
from groupreplay.state.output.envelope import event_type
from groupreplay.state.policy.context import OFFSETS_TOPIC
from groupreplay.streaming.config.properties import ClientProperties
from groupreplay.streaming.config.settings import Cluster, RunSettings, TopicNames
from groupreplay.streaming.contract.messages import Output
from groupreplay.streaming.engine.packing.key_columns import RECORD_TYPES
from groupreplay.streaming.engine.probe_rows import COUNTS, ProbeFilter, pack_probes
from groupreplay.streaming.kafka.publisher import BATCH_BYTES, LARGEST_BYTES
from groupreplay.streaming.kafka.rights import SPARK_GROUPS
from groupreplay.streaming.run.interface import QUARANTINED, UNMISSED, UNWRITTEN
from groupreplay.streaming.spark.checkpoint_files import source_line
from groupreplay.streaming.spark.log_offsets import is_ahead, of_topics
from groupreplay.streaming.spark.operator import (
    COUNTED_SCHEMA,
    OUTPUT_SCHEMA,
    PACKED_SCHEMA,
    RECORD_COUNTS,
    STATE_SCHEMA,
    Job,
    caught_up_ms,
    pack_log,
    step,
)
from groupreplay.streaming.spark.session_checks import has_shaded_clients, is_local

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

#: Bounds the first batch, which may find a month of probes. Far more than a prober writes between two batches: a
#: heartbeat must be read in the next batch.
_PROBES_PER_TRIGGER: Final = 500_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """A topic of which all partitions are read; ``partitions`` is their number.

    ``by_connector``: by Spark's Kafka connector; else by ``LogSource``, which reads the offsets topic only, and its
    active groups first if more than ``long_log`` offsets are to be read (None: never).
    """

    cluster: Cluster
    topic: str
    partitions: int
    by_connector: bool = True
    long_log: int | None = None


def connection_options(cluster: Cluster, *, shaded: bool = False) -> dict[str, str]:
    """The connector's options for a cluster; for sources and sinks. ``shaded``: see ``has_shaded_clients``."""
    return {
        **ClientProperties(cluster.properties).for_spark(shaded=shaded),
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
    }


def read_options(plan: TopicPlan, *, shaded: bool = False) -> dict[str, str]:
    """How a topic is read: by assignment, because a driver that subscribes joins a group and appears in the events."""
    return {
        # A partition without a leader is an error after this time; by default it would be one after three minutes. Of
        # several tries only the first is sure to end: each further one has a new consumer group, and waits for ever if
        # the coordinator of that group is away.
        "kafka.default.api.timeout.ms": "30000",
        "fetchOffset.numRetries": "1",
        # The same for a batch that was planned when the partition still had a leader; four tasks in turn wait so long.
        "kafkaConsumer.pollTimeoutMs": "30000",
        **connection_options(plan.cluster, shaded=shaded),
        "assign": json.dumps({plan.topic: list(range(plan.partitions))}),
        "startingOffsets": "earliest",
        # Aborted offset commits must not be read.
        "kafka.isolation.level": "read_committed",
        # At a partition's end a fetch waits this long; the default costs half a second for each partition.
        "kafka.fetch.max.wait.ms": "10",
        "kafka.max.poll.records": "20000",
        "kafka.max.partition.fetch.bytes": str(4 << 20),
    }


def packed_log(
    spark: SparkSession,
    plan: TopicPlan,
    max_offsets_per_trigger: int,
    read_tasks: int,
    clock_correction_ms: int,
) -> DataFrame:
    """The rows of ``pack`` for the records of the offsets topic, read in ``read_tasks`` tasks."""
    if plan.by_connector:
        records = log_records(spark, plan, max_offsets_per_trigger, read_tasks)
        return records.mapInArrow(partial(pack_log, clock_correction_ms=clock_correction_ms), COUNTED_SCHEMA)
    from groupreplay.streaming.spark.log_source import PLAN, LogPlan, LogSource

    _register_source(spark)
    log_plan = LogPlan(
        servers=plan.cluster.bootstrap_servers,
        properties=plan.cluster.properties,
        topic=plan.topic,
        partitions=plan.partitions,
        max_offsets=max_offsets_per_trigger,
        tasks=read_tasks,
        clock_correction_ms=clock_correction_ms,
        long_log=plan.long_log,
    )
    stream = spark.readStream.format(LogSource.name()).option(PLAN, log_plan.to_option())
    return stream.schema(COUNTED_SCHEMA).load()


@lru_cache(maxsize=1)
def _register_source(spark: SparkSession) -> None:
    """Once in a session: Spark warns of every further time."""
    from groupreplay.streaming.spark.log_source import LogSource

    spark.dataSource.register(LogSource)


def log_records(
    spark: SparkSession, plan: TopicPlan, max_offsets_per_trigger: int, read_tasks: int
) -> DataFrame:
    """The records of the offsets topic by the connector, in the columns that ``pack`` reads."""
    from pyspark.sql import functions as sql

    # Fifty tasks would start Python fifty times; so each task packs several partitions in turn.
    return (
        _stream(
            spark,
            {
                **read_options(plan, shaded=has_shaded_clients(spark)),
                "maxOffsetsPerTrigger": str(max_offsets_per_trigger),
                # Records deleted before they were read make the state wrong.
                "failOnDataLoss": "true",
            },
        )
        .select("partition", "offset", sql.unix_millis("timestamp").alias("timestamp_ms"), "key", "value")
        .coalesce(read_tasks)
    )


def probe_records(spark: SparkSession, plan: TopicPlan) -> DataFrame:
    """The messages of the topic of probes, in the columns that ``pack_probes`` reads."""
    messages = _stream(
        spark,
        {
            **read_options(plan, shaded=has_shaded_clients(spark)),
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
        **read_options(plan, shaded=has_shaded_clients(spark)),
        "endingOffsets": "latest",
        # The name of a stream's consumer group; the default for batches would need one more right.
        "groupIdPrefix": SPARK_GROUPS.removesuffix("-"),
    }
    return spark.read.format("kafka").options(**options).load().rdd.getNumPartitions()


def offsets_in(lines: Iterable[str]) -> dict[int, int]:
    """The next offset of each partition of the log, by Spark's ``offsets`` file of a batch.

    It has two lines of its own, then a line for each source.
    """
    for text in map(source_line, lines):
        if text.startswith("{") and OFFSETS_TOPIC in (end := json.loads(text)):
            return of_topics(end)[OFFSETS_TOPIC]
    return {}


def are_ahead(lines: Iterable[str]) -> bool:
    """Whether these offsets are such that only ``LogSource`` can go on with them."""
    return any(is_ahead(json.loads(text)) for text in map(source_line, lines) if text.startswith("{"))


def state_partitions_in(lines: Iterable[str]) -> int | None:
    """How many partitions the state has, by the same file: those of the first batch; None without one."""
    for text in map(source_line, lines):
        if text.startswith("{") and (conf := json.loads(text).get("conf")):
            return int(conf["spark.sql.shuffle.partitions"])
    return None


def _stream(spark: SparkSession, options: Mapping[str, Any]) -> DataFrame:
    return spark.readStream.format("kafka").options(**options).load()


#: A plan is kept for this time at least: executors come one after the other, and a new query loads the state again.
_GROWTH_SECONDS: Final = 30.0


@dataclass(slots=True)
class ReadTasks:
    """In how many tasks the log is read: as many as there are cores.

    A plan keeps this number, and a cluster may get its cores later: then it is at least the number of those that
    ``--shuffle-partitions`` says there will be.
    """

    spark: SparkSession
    shuffle_partitions: int
    log_partitions: int
    _planned: int = 0
    _planned_at: float = 0.0

    def plan(self) -> int:
        """The number for a plan that is made now."""
        self._planned, self._planned_at = self._wanted(), time.monotonic()
        return self._planned

    def growth(self) -> str | None:
        """Why the query must be planned again; None: it need not.

        Not for a cluster that has shrunk: its cores take several tasks in turn, and it may grow again.
        """
        if (
            time.monotonic() < self._planned_at + _GROWTH_SECONDS
            or (wanted := self._wanted()) <= self._planned
        ):
            return None
        return f"the cluster has grown, continuing with {wanted} tasks that read the log ({self._planned} before)"

    def _wanted(self) -> int:
        context = self.spark.sparkContext
        cores = context.defaultParallelism
        wanted = cores if is_local(str(context.master)) else max(cores, self.shuffle_partitions)
        return min(wanted, self.log_partitions)


PROBES_SCHEMA: Final = ", ".join([PACKED_SCHEMA, *(f"{name} bigint" for name in COUNTS)])
#: Names of the counters in the progress of a batch: of the records read, of the probes left out and of the messages
#: written.
OBSERVED_READ: Final = "read"
OBSERVED_PROBES: Final = "probes"
OBSERVED: Final = "written"


def record_sums() -> list[Column]:
    """The sum of each number in the column of counts, which is null in some rows."""
    from pyspark.sql import functions as sql

    numbers = (sql.element_at(sql.col(RECORD_COUNTS), place) for place in range(1, len(RECORD_TYPES) + 1))
    return [sql.sum(number).alias(name) for number, name in zip(numbers, RECORD_TYPES, strict=True)]


def output_rows(
    spark: SparkSession,
    *,
    log: TopicPlan,
    probes: TopicPlan,
    probe_filter: ProbeFilter,
    job: Job,
    max_offsets_per_trigger: int,
    read_tasks: int,
) -> DataFrame:
    """The rows that the job writes. The order of the two sources is part of every checkpoint."""
    from pyspark.sql.streaming.state import GroupStateTimeout

    return (
        packed_log(spark, log, max_offsets_per_trigger, read_tasks, job.context.clock_correction_ms)
        .observe(OBSERVED_READ, *record_sums())
        .drop(RECORD_COUNTS)
        .unionByName(
            # One task, so that one call sees all messages of a batch.
            probe_records(spark, probes)
            .coalesce(1)
            .mapInArrow(partial(pack_probes, probe_filter=probe_filter), PROBES_SCHEMA)
            .observe(OBSERVED_PROBES, *left_out())
            .drop(*COUNTS)
        )
        # No row is late with this kind of timeout; the watermark only carries the caught-up time to every group.
        .withWatermark("caught_up", "0 seconds")
        .select("key", "packed", caught_up_ms())
        .groupBy("key")
        .applyInPandasWithState(
            partial(step, job=job),
            OUTPUT_SCHEMA,
            STATE_SCHEMA,
            "append",
            GroupStateTimeout.ProcessingTimeTimeout,
        )
    )


def left_out() -> list[Column]:
    """Messages of the topic of probes that are not used, by reason."""
    from pyspark.sql import functions as sql

    return [sql.sum(sql.col(name)).alias(name) for name in COUNTS]


def counters(topics: TopicNames) -> list[Column]:
    """Rows of each topic, expiries in groups that do not matter, groups set aside, and rows without a topic."""
    from pyspark.sql import functions as sql

    expired = sql.col("event_type") == event_type(OffsetsExpired.NAME)
    # Evaluated for expiries alone: the message is parsed for it.
    is_missed = sql.get_json_object(sql.col("value").cast("string"), "$.data.matters")
    unmissed = expired & ((sql.col("severity") == Severity.INFO.value) | (is_missed == "false"))
    counts = [
        sql.count_if(sql.col("topic") == getattr(topics, output.value)).alias(output.value)
        for output in Output
    ]
    quarantined = sql.col("event_type") == event_type(GroupQuarantined.NAME)
    return [
        *counts,
        sql.count_if(unmissed).alias(UNMISSED),
        sql.count_if(quarantined).alias(QUARANTINED),
        sql.count_if(sql.col("topic").isNull()).alias(UNWRITTEN),
    ]


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
                **connection_options(settings.sink_cluster, shaded=has_shaded_clients(rows.sparkSession)),
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
