"""The streaming queries that are compared, in one Spark session: each reads a whole topic once and ends.

All have the same source with the same options and differ in what follows the source.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from processes import Cost, Meter
from py4j.protocol import Py4JError

from groupreplay.state import OFFSETS_TOPIC, Context
from groupreplay.streaming.config.settings import Cluster, RunSettings
from groupreplay.streaming.engine.packing.pack import pack
from groupreplay.streaming.engine.probe_rows import ProbeFilter
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.output_topics import ensure_topics
from groupreplay.streaming.spark.internals.jvm import JavaProgress
from groupreplay.streaming.spark.operator import COUNTED_SCHEMA, Job
from groupreplay.streaming.spark.preflight import log_plan
from groupreplay.streaming.spark.query import (
    OBSERVED,
    TopicPlan,
    counters,
    log_records,
    messages,
    output_rows,
    writer,
)
from groupreplay.streaming.spark.session import close, quiet, spark_session, use_local_files

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.streaming.state import GroupState

#: The group id in a key of any record, as bytes: text is not decoded, so that no key can stop the query.
_GROUP_BYTES = "substring(key, 5, cast(conv(hex(substring(key, 3, 2)), 16, 10) as int)) as key"


@dataclass(frozen=True)
class Pass:
    """One pass over the topic. ``seconds`` are those of the batches, ``wall_seconds`` from start to end."""

    seconds: float
    wall_seconds: float
    records: int
    batches: Sequence[Mapping[str, Any]]
    cost: Cost


@dataclass(frozen=True)
class Session:
    """The job's own session and the process id of its JVM."""

    spark: SparkSession
    jvm: int


class Queries:
    """The session, the settings and the plan that the queries share."""

    def __init__(self, session: Session, settings: RunSettings, folder: Path) -> None:
        self.spark, self._jvm = session.spark, session.jvm
        self.settings, self._folder = settings, folder
        source = Connection(settings.source)
        topic = source.identify(OFFSETS_TOPIC)
        self._cluster_id, self._era = topic.cluster_id, topic.era
        self.log = TopicPlan(cluster=settings.source, topic=OFFSETS_TOPIC, partitions=topic.partitions)
        partitions = ensure_topics(source, settings.topics)
        probes = settings.topics.probes
        self._probes = TopicPlan(cluster=settings.source, topic=probes, partitions=partitions[probes])
        self._log_of_job = log_plan(settings, self.spark, source, topic.partitions)
        self._read_tasks = self.spark.sparkContext.defaultParallelism

    def connector(self, settings: RunSettings) -> DataStreamWriter:
        """Spark's Kafka source alone."""
        return _noop(self._records(settings), settings)

    def count_rows(self, settings: RunSettings) -> DataStreamWriter:
        """Raw records by group, in Spark's operator, which only counts them."""
        keyed = self._records(settings).selectExpr(_GROUP_BYTES)
        return _noop(_counted(keyed), settings)

    def count_packed(self, settings: RunSettings) -> DataStreamWriter:
        """Packed rows by group, in Spark's operator, which only counts them."""
        cores = self.spark.sparkContext.defaultParallelism
        packed = self._records(settings).coalesce(cores).mapInArrow(pack, COUNTED_SCHEMA)
        return _noop(_counted(packed.select("key", "packed")), settings)

    def job(self, settings: RunSettings) -> DataStreamWriter:
        """The query of the job, as ``run`` builds it; writes events of the past, too."""
        return self._job(settings, self._log_of_job)

    def job_connector(self, settings: RunSettings) -> DataStreamWriter:
        """The same with ``--log-source connector``."""
        return self._job(settings, self.log)

    def _job(self, settings: RunSettings, log: TopicPlan) -> DataStreamWriter:
        rows = output_rows(
            self.spark,
            log=log,
            probes=self._probes,
            probe_filter=ProbeFilter(topic=self._probes.topic, cluster_id=self._cluster_id),
            job=Job(context=Context(cluster_id=self._cluster_id, era=self._era), topics=settings.topics),
            max_offsets_per_trigger=settings.max_offsets_per_trigger,
            read_tasks=self._read_tasks,
        )
        return writer(messages(rows.observe(OBSERVED, *counters(settings.topics))), settings)

    def measure(self, query: Callable[[RunSettings], DataStreamWriter]) -> Pass:
        """Reads the topic to its present end."""
        with TemporaryDirectory(dir=self._folder) as checkpoint, Meter(self._jvm) as meter:
            batches, wall_seconds = _run(query(replace(self.settings, checkpoint=checkpoint)))
        return Pass(
            seconds=sum(batch["durationMs"]["triggerExecution"] for batch in batches) / 1000,
            wall_seconds=wall_seconds,
            records=sum(batch["numInputRows"] for batch in batches),
            batches=[batch["durationMs"] | {"numInputRows": batch["numInputRows"]} for batch in batches],
            cost=meter.cost,
        )

    def read(self, query: Callable[[RunSettings], DataStreamWriter]) -> float:
        """The same without the measured processes; the seconds of the batches."""
        with TemporaryDirectory(dir=self._folder) as checkpoint:
            batches, _ = _run(query(replace(self.settings, checkpoint=checkpoint)))
        return float(sum(batch["durationMs"]["triggerExecution"] for batch in batches) / 1000)

    def _records(self, settings: RunSettings) -> DataFrame:
        return log_records(self.spark, self.log, settings.max_offsets_per_trigger, self._read_tasks)


def _counted(rows: DataFrame) -> DataFrame:
    from pyspark.sql.streaming.state import GroupStateTimeout

    # Inside a function, so that it goes to the workers by value: they do not have this module.
    def count(key: tuple[bytes], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        """The least that an operator with a state can do."""
        known = state.get[0] if state.exists else 0
        state.update((known + sum(len(frame) for frame in frames),))
        return iter(())

    return rows.groupBy("key").applyInPandasWithState(
        count, "count bigint", "count bigint", "append", GroupStateTimeout.NoTimeout
    )


def _noop(rows: DataFrame, settings: RunSettings) -> DataStreamWriter:
    return rows.writeStream.format("noop").option("checkpointLocation", settings.checkpoint)


def _run(query: DataStreamWriter) -> tuple[list[Mapping[str, Any]], float]:
    """(progress of the batches with data, seconds from start to end)."""
    begin = time.perf_counter()
    running = query.trigger(availableNow=True).start()
    running.awaitTermination()
    seconds = time.perf_counter() - begin
    return [batch for batch in JavaProgress().after(running, -1) if batch["numInputRows"]], seconds


@contextmanager
def session(settings: RunSettings) -> Iterator[Session]:
    """Starts and ends the JVM; a process can do that once."""
    spark = spark_session(settings)
    use_local_files(spark, settings)
    # With timers every batch is followed by another one, and a query with ``availableNow`` would never end.
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    try:
        yield Session(spark, int(jvm.java.lang.ProcessHandle.current().pid()))
    except Exception:
        # Not after a signal: it interrupts a call of the JVM, and this call would wait for that one for ever.
        with suppress(Py4JError):  # the JVM may be ending, too
            quiet(spark)  # a query that is stopped in a batch writes pages of stack traces
        raise
    finally:
        close(spark)


def settings_for(
    server: str, *, shuffle_partitions: int, max_offsets: int, master: str | None
) -> RunSettings:
    """The settings of a run, without a checkpoint: each pass has its own."""
    return RunSettings(
        source=Cluster(bootstrap_servers=server),
        checkpoint="unused",
        master=master,
        shuffle_partitions=shuffle_partitions,
        max_offsets_per_trigger=max_offsets,
        # The consumers of a query keep fetched records for a while after its end; a job has only one query.
        spark_conf={"spark.driver.memory": "6g"},
        log_level="ERROR",
    )
