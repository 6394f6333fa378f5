"""Checks before the job starts: for faults that would otherwise show late, or never."""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from groupreplay.state.policy.context import OFFSETS_TOPIC
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError, UnreachableError, unusable
from groupreplay.streaming.kafka.raw_log import can_fetch
from groupreplay.streaming.local.platforms import LINE_NAMES, find_java, find_line, javas_of
from groupreplay.streaming.spark.checkpoint import Checkpoint, local_folder
from groupreplay.streaming.spark.checkpoint_files import has_run, in_folder, unwritable
from groupreplay.streaming.spark.faults import Remedy, failure_text, headline, known_fault, remedy
from groupreplay.streaming.spark.operator import STATE_SCHEMA, caught_up_ms
from groupreplay.streaming.spark.query import TopicPlan, packed_log, planned_partitions
from groupreplay.streaming.spark.session import OLD_OFFSETS, jvm_runs_already
from groupreplay.streaming.spark.session_checks import (
    are_workers_like_driver,
    has_python_sources,
    need_pyspark,
    need_python_sources,
)

if TYPE_CHECKING:
    import pandas as pd
    from confluent_kafka import Message
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.state import GroupState

    from groupreplay.streaming.config.settings import RunSettings
    from groupreplay.streaming.kafka.clients import Connection
    from groupreplay.streaming.kafka.topic_identity import TopicIdentity

_READ_SECONDS: Final = 15.0
#: With more offsets to read, groups that are active do not wait for the others.
_LONG_LOG: Final = 1_000_000


def offsets_topic(connection: Connection) -> TopicIdentity:
    """The identity of the offsets topic, after one of its records was read.

    Raises:
        GroupReplayError: the cluster cannot be reached, the topic is missing, or may not be read.
    """
    identity = connection.identify(OFFSETS_TOPIC)
    with_data = _partitions_with_data(connection, identity.partitions)
    if with_data:
        partition, first_offset = next(iter(with_data.items()))
        record_at(connection, partition, first_offset)
    return identity


def log_plan(settings: RunSettings, spark: SparkSession, source: Connection, partitions: int) -> TopicPlan:
    """How the offsets topic is read, by ``RunSettings.log_source``."""
    by_python = settings.log_source == "python" or (
        settings.log_source == "auto"
        and has_python_sources()
        and are_workers_like_driver(spark)
        and can_fetch(source, OFFSETS_TOPIC)
    )
    return TopicPlan(
        cluster=settings.source,
        topic=OFFSETS_TOPIC,
        partitions=partitions,
        by_connector=not by_python,
        # A single run ends when everything is read, and nobody waits for its first event.
        long_log=None if settings.once else _LONG_LOG,
    )


def continued_plan(settings: RunSettings, plan: TopicPlan, checkpoint: Checkpoint) -> TopicPlan:
    """The plan, with the source that can go on with the checkpoint.

    Raises:
        GroupReplayError: that is groupreplay's, and the settings or this Spark exclude it.
    """
    if not plan.by_connector or not checkpoint.is_ahead():
        return plan
    if settings.log_source == "connector" or not has_python_sources():
        raise unusable(
            "the last run on this checkpoint has read active groups ahead of the others, and only groupreplay's own "
            "source can go on there",
            checkpoint.location,
            "use --log-source python, with Spark 4.2 or later, until the log is read to its end; or another "
            "--checkpoint",
        )
    return replace(plan, by_connector=False)


def check_plan(spark: SparkSession, connection: Connection, plan: TopicPlan) -> None:
    """Checks that the source of the plan finds the records of the topic.

    Raises:
        GroupReplayError: the topic holds records that the connector would never read; or the connector fails; or this
            Spark has no interface for a source of ours.
    """
    if not plan.by_connector:
        need_python_sources(spark)
        _open_source(spark, plan)
    elif _partitions_with_data(connection, plan.partitions) and not _planned(spark, plan):
        raise unusable(
            "Spark's Kafka connector plans to read no partition of a topic that holds records",
            plan.topic,
            f"keep {OLD_OFFSETS}=true, which this internal topic needs, or read it with "
            f"--log-source python (Spark 4.2 or later); this is Spark {spark.version}",
        )


def check_line(spark: SparkSession) -> None:
    """Tries what the job needs of a Spark that it was not tested with; does nothing on a known line.

    Raises:
        GroupReplayError: the watermark does not reach the function.
    """
    if find_line(spark.version) is None and not watermark_is_passed(spark):
        raise unusable(
            f"Spark {spark.version} does not pass the watermark to the function of applyInPandasWithState: "
            "no deadline of a group would ever come",
            None,
            f"use one of these lines of Spark: {LINE_NAMES}",
        )


def _open_source(spark: SparkSession, plan: TopicPlan) -> None:
    """Lets Spark start the processes of our source now, beside the trial of its workers, not one after the other."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    # The query will fail for the same reason, and has remedies.
    with suppress(Py4JError, PySparkException):
        packed_log(spark, plan, max_offsets_per_trigger=1, read_tasks=1, clock_correction_ms=0)


def _planned(spark: SparkSession, plan: TopicPlan) -> int:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return planned_partitions(spark, plan)
    except (Py4JError, PySparkException) as error:
        text = failure_text(error)
        if remedy(text) is Remedy.CLUSTER:
            raise UnreachableError(
                f"Spark's Kafka connector cannot reach the cluster: {headline(text)}",
                where=plan.cluster.bootstrap_servers,
                fix="check that all brokers run; groupreplay check tests everything that the job needs",
                exit_code=ExitCode.CONNECTION,
            ) from None
        raise known_fault(text) or GroupReplayError(
            f"Spark's Kafka connector cannot read the topic's offsets: {headline(text)}",
            where=plan.topic,
            fix="groupreplay check tests everything that it needs; --debug shows the whole error",
        ) from None


def _partitions_with_data(connection: Connection, partitions: int) -> dict[int, int]:
    """The first offset of each partition that holds records."""
    first = connection.first_offsets(OFFSETS_TOPIC, partitions)
    ends = connection.end_offsets(OFFSETS_TOPIC, partitions)
    return {partition: first[partition] for partition in sorted(first) if first[partition] < ends[partition]}


def record_at(
    connection: Connection, partition: int, offset: int, isolation_level: str = "read_committed"
) -> Message | None:
    """The first record of the offsets topic there or later; None when all that follows are control records.

    Raises:
        GroupReplayError: it cannot be read.
    """
    from confluent_kafka import KafkaException, TopicPartition

    from groupreplay.streaming.kafka.topic_reader import consume

    place = f"{OFFSETS_TOPIC}-{partition}"
    deadline = time.monotonic() + _READ_SECONDS
    try:
        with closing(connection.consumer(isolation_level)) as consumer:
            consumer.assign([TopicPartition(OFFSETS_TOPIC, partition, offset)])
            while (left := deadline - time.monotonic()) > 0:
                # All records from here on may be control records: then the end comes without a record.
                for message in consume(consumer, connection, left):
                    return message if message.error() is None else None
    except KafkaException as error:
        raise connection.explain(error, place) from None
    raise UnreachableError(
        f"no record of the offsets topic arrived within {_READ_SECONDS:g} s",
        where=f"{place}, {connection.cluster.bootstrap_servers}",
        fix="check the broker that leads this partition, then start again",
        exit_code=ExitCode.CONNECTION,
    )


def check_machine(settings: RunSettings) -> None:
    """Checks what needs neither a broker nor a JVM, which take many seconds: pyspark, Java, and a new local checkpoint.

    A checkpoint that has run before may come back with its disk, and is waited for later.

    Raises:
        GroupReplayError: the job cannot start on this machine.
    """
    release = need_pyspark()
    if not jvm_runs_already():
        find_java(javas_of(release))
    folder = local_folder(settings.checkpoint, settings.spark_conf)
    if folder is None or (folder.is_dir() and has_run(in_folder(folder))):
        return
    nearest = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        raise unwritable(error.strerror or str(error), str(folder)) from None


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
