"""What is looked at before the job starts: everything that would otherwise fail late, or not at all.

Knows the questions and the remedies; must not know how the job runs.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from groupreplay.state.policy.context import OFFSETS_TOPIC
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.job.supervisor import failure_text, headline, known_fault
from groupreplay.streaming.spark.session import SESSION_CONF
from groupreplay.streaming.spark.source import TopicPlan, planned_partitions

if TYPE_CHECKING:
    from confluent_kafka import Message
    from pyspark.sql import SparkSession

    from groupreplay.streaming.kafka.clients import Connection, TopicIdentity

log = logging.getLogger(__name__)

_READ_SECONDS: Final = 15.0


def offsets_topic(connection: Connection) -> TopicIdentity:
    """Which life of the offsets topic this is, after one record of it was read.

    Raises:
        GroupReplayError: the cluster cannot be reached, the topic is missing, or may not be read.
    """
    identity = connection.identify(OFFSETS_TOPIC)
    with_data = _partitions_with_data(connection, identity.partitions)
    if with_data:
        partition, first_offset = next(iter(with_data.items()))
        record_at(connection, partition, first_offset)
    return identity


def check_plan(spark: SparkSession, connection: Connection, plan: TopicPlan) -> None:
    """Sees to it that Spark's connector finds the records that are there.

    Raises:
        GroupReplayError: the topic holds records, and the connector would read none, for ever; or it fails.
    """
    if _partitions_with_data(connection, plan.partitions) and not _planned(spark, plan):
        option = next(name for name in SESSION_CONF if "OffsetFetching" in name)
        raise GroupReplayError(
            "Spark's Kafka connector plans to read no partition of a topic that holds records",
            where=plan.topic,
            fix=f"let {option}=true stand, which this internal topic needs; {spark.version} is this Spark",
            exit_code=ExitCode.DATA,
        )


def _planned(spark: SparkSession, plan: TopicPlan) -> int:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return planned_partitions(spark, plan)
    except (Py4JError, PySparkException) as error:
        text = failure_text(error)
        raise known_fault(text) or GroupReplayError(
            f"Spark's Kafka connector cannot look at the topic: {headline(text)}",
            where=plan.topic,
            fix="groupreplay check looks at everything that it needs; --debug shows all of it",
        ) from None


def _partitions_with_data(connection: Connection, partitions: int) -> dict[int, int]:
    """The first offset of each partition that holds something."""
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
    from confluent_kafka import KafkaError, KafkaException, TopicPartition

    from groupreplay.streaming.kafka.clients import ends_reading

    place = f"{OFFSETS_TOPIC}-{partition}"
    consumer = connection.consumer(isolation_level)
    try:
        consumer.assign([TopicPartition(OFFSETS_TOPIC, partition, offset)])
        deadline = time.monotonic() + _READ_SECONDS
        while (left := deadline - time.monotonic()) > 0:
            message = consumer.poll(left)
            error = None if message is None else message.error()
            if error is None and message is not None:
                return message
            # Everything from here on may be control records: an end without a record is an answer, too.
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                return None
            if error is not None and ends_reading(error):
                raise connection.explain(KafkaException(error), place)
    except KafkaException as error:
        raise connection.explain(error, place) from None
    finally:
        consumer.close()
    raise GroupReplayError(
        f"no record of the offsets topic arrived within {_READ_SECONDS:g} s",
        where=f"{place}, {connection.cluster.bootstrap_servers}",
        fix="look at the broker that leads this partition, then start again",
        exit_code=ExitCode.CONNECTION,
    )
