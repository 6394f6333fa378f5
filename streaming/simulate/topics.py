"""A simulation as topics of a live cluster: its records with their times, and the prober's answers beside them.

Knows topics and the producer; must not know what stands in a row (`simulation_rows`) nor what a group does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import NewTopic

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.state.simulation.simulation import Plan
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.clients import REQUEST_SECONDS, Connection
from groupreplay.streaming.kafka.topic_reader import ProgressCallback, no_progress
from groupreplay.streaming.simulate.files import appearing
from groupreplay.streaming.simulate.rows import PROBES_TOPIC, Place, Row, simulated_rows

#: Only Kafka's own administration client may write to internal topics, and brokers know it by its name.
_ADMINISTRATOR: Final = "__admin_client"
#: What is simulated may be of last year, and must stay all the same.
_KEPT: Final = {"cleanup.policy": "delete", "retention.ms": "-1"}
_COMPACTED: Final = {"cleanup.policy": "compact"}
_ROOM_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationTopics:
    """Where a simulation goes. ``offsets_topic``: into the brokers' own topic, which somebody has said."""

    cluster: Cluster
    topic: str
    probes_topic: str = PROBES_TOPIC
    offsets_topic: bool = False


def write_to_topic(
    plan: Plan, topics: SimulationTopics, truth: Path, progress: ProgressCallback = no_progress
) -> int:
    """Write the simulation behind what the topics have, and the truth. Returns the number of records.

    A topic that is missing is made. Records keep the times that were simulated; a topic counts offsets by itself,
    and has neither aborted transactions nor the markers of the others.

    Raises:
        GroupReplayError: it is the offsets topic, and nobody has said so; a topic has another number of
            partitions; the cluster does not take the records, or the truth cannot be written.
    """
    if topics.topic == OFFSETS_TOPIC and not topics.offsets_topic:
        raise GroupReplayError(
            "simulated groups do not belong into the offsets topic of a cluster that is in use",
            where=topics.cluster.bootstrap_servers,
            fix="name another topic, or on a cluster of your own add --into-offsets-topic",
            exit_code=ExitCode.USAGE,
        )
    connection = Connection(topics.cluster)
    _ensure(connection, topics.topic, plan.partitions)
    if plan.probe_interval_ms is not None:
        _ensure(connection, topics.probes_topic, 1)
    place = Place(
        cluster_id=connection.identify(topics.topic).cluster_id,
        topic=topics.topic,
        probes_topic=topics.probes_topic,
        first_offsets=connection.end_offsets(topics.topic, plan.partitions),
    )
    with appearing(truth) as told:
        return _produce(topics, simulated_rows(plan, place, told, progress))


def _ensure(connection: Connection, topic: str, partitions: int) -> None:
    """The topic with so many partitions; made if there is none."""
    try:
        # All of them: to name a topic that is missing may create it.
        known = connection.admin().list_topics(timeout=REQUEST_SECONDS).topics.get(topic)
        if known is None:
            config = _COMPACTED if topic == OFFSETS_TOPIC else _KEPT
            wanted = NewTopic(topic, partitions, replication_factor=-1, config=dict(config))
            connection.admin().create_topics([wanted])[topic].result(REQUEST_SECONDS)
            return
    except KafkaException as error:
        raise connection.explain(error, topic) from None
    if len(known.partitions) != partitions:
        raise GroupReplayError(
            f"the topic has {len(known.partitions)} partitions, not {partitions}",
            where=topic,
            fix=f"simulate with --partitions {len(known.partitions)}, or name another topic",
            exit_code=ExitCode.USAGE,
        )


def _produce(topics: SimulationTopics, rows: Iterable[Row]) -> int:
    cluster = topics.cluster
    if topics.topic == OFFSETS_TOPIC:
        cluster = replace(cluster, properties={**cluster.properties, "client.id": _ADMINISTRATOR})
    connection = Connection(cluster)
    producer = connection.producer()
    refused: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            refused.append(error)

    count = 0
    for topic, partition, _, timestamp_ms, _, key, value in rows:
        record = {
            "topic": topic,
            "partition": partition,
            "timestamp": timestamp_ms,
            "key": key,
            "value": value,
        }
        _send(producer, {**record, "on_delivery": delivered})
        count += 1
        if refused:
            break
    left = 0 if refused else producer.flush(2 * REQUEST_SECONDS)
    if refused:
        raise connection.explain(KafkaException(refused[0]), topics.topic)
    if left:
        raise GroupReplayError(
            f"{left} records were not delivered in time",
            where=cluster.bootstrap_servers,
            fix="look at the brokers, then simulate into another topic",
            exit_code=ExitCode.CONNECTION,
        )
    return count


def _send(producer: Producer, record: dict[str, Any]) -> None:
    """Hand a record over; while the queue is full, wait for the brokers."""
    while True:
        try:
            producer.produce(**record)
        except BufferError:
            producer.poll(_ROOM_SECONDS)
        else:
            producer.poll(0)
            return
