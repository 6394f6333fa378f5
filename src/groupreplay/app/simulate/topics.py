"""Writes a simulation to topics of a live cluster: records with their simulated times, and the prober's messages."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message

from groupreplay.app.simulate.files import SimulatedRow, simulated_rows
from groupreplay.app.simulate.prober_messages import PROBES_TOPIC, RowTarget
from groupreplay.coordinator.simulation.simulation import SimulationPlan
from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.base.files import atomic_file, require_new
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.contract.log import ProgressCallback
from groupreplay.streaming.kafka.clients import REQUEST_SECONDS, Connection
from groupreplay.streaming.kafka.output_topics import WantedTopic, request_topics
from groupreplay.streaming.kafka.rights import CREATE, Right, grant_line

#: Brokers accept writes to internal topics only from a client with this name, that of Kafka's admin client.
_ADMINISTRATOR: Final = "__admin_client"
#: Simulated records may have old timestamps, and must not be deleted because of them.
_KEPT: Final = {"cleanup.policy": "delete", "retention.ms": "-1"}
_COMPACTED: Final = {"cleanup.policy": "compact"}
_ROOM_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationTopics:
    """The topics to write. ``offsets_topic``: the user allowed writing to the brokers' own __consumer_offsets."""

    cluster: Cluster
    topic: str
    probes_topic: str = PROBES_TOPIC
    offsets_topic: bool = False


def write_to_topic(
    plan: SimulationPlan,
    topics: SimulationTopics,
    truth: Path,
    progress: ProgressCallback,
    *,
    trace: Path | None = None,
    force: bool = False,
) -> int:
    """Append the simulation to the topics, and write the true states and the trace; returns the number of records.

    Missing topics are created. Files that exist are replaced with ``force`` only. Records keep their simulated times,
    but the topic assigns the offsets, and it contains neither aborted transactions nor transaction markers.

    Raises:
        GroupReplayError: the topic is the offsets topic without permission; a topic has another number of
            partitions; the cluster rejects the records, or the true states cannot be written.
    """
    _need_permission(topics)
    require_new([truth, trace], force=force)
    try:
        return _write(plan, topics, truth, progress, trace=trace, force=force)
    except GroupReplayError as error:
        if error.exit_code is ExitCode.AUTHORISATION:
            # `check` asks for the rights of the job, not for these.
            error.fix = "\n".join(grant_line(right, topics.cluster) for right in _rights(topics, plan))
        raise


def _rights(topics: SimulationTopics, plan: SimulationPlan) -> list[Right]:
    names = [topics.topic, *([] if plan.probe_interval_ms is None else [topics.probes_topic])]
    why = "to write the simulation"
    return [*(Right("Write", "topic", name, why) for name in names), CREATE]


def _write(
    plan: SimulationPlan,
    topics: SimulationTopics,
    truth: Path,
    progress: ProgressCallback,
    *,
    trace: Path | None,
    force: bool,
) -> int:
    connection = Connection(topics.cluster)
    _ensure(connection, topics, topics.topic, plan.partitions)
    if plan.probe_interval_ms is not None:
        _ensure(connection, topics, topics.probes_topic, 1)
    target = RowTarget(
        cluster_id=connection.identify(topics.topic).cluster_id,
        topic=topics.topic,
        probes_topic=topics.probes_topic,
        first_offsets=connection.end_offsets(topics.topic, plan.partitions),
    )
    with (
        nullcontext() if trace is None else atomic_file(trace, force=force) as trace_file,
        atomic_file(truth, force=force) as truth_file,
    ):
        rows = simulated_rows(plan, target, truth_file, progress, trace=trace_file)
        return _produce(topics, rows)


def _need_permission(topics: SimulationTopics) -> None:
    if topics.topic == OFFSETS_TOPIC and not topics.offsets_topic:
        raise GroupReplayError(
            "simulated groups must not be written to the offsets topic of a cluster in use",
            where=topics.cluster.bootstrap_servers,
            fix="choose another topic, or, on a test cluster of your own, add --into-offsets-topic",
            exit_code=ExitCode.USAGE,
        )


def _ensure(connection: Connection, topics: SimulationTopics, topic: str, partitions: int) -> None:
    """Check the topic's number of partitions; create the topic if it is missing."""
    # All topics: a request for one missing topic may create it.
    metadata = connection.metadata(topic).topics.get(topic)
    if metadata is None:
        config = _COMPACTED if topic == OFFSETS_TOPIC else _KEPT
        error = request_topics(connection, [WantedTopic(topic, config, partitions)]).errors[topic]
        if error is not None:
            raise connection.explain(error, topic)
    elif len(metadata.partitions) != partitions:
        raise GroupReplayError(
            f"the topic has {len(metadata.partitions)} partitions, not {partitions}",
            where=topic,
            fix="name another --probes-topic, or delete this one"
            if topic == topics.probes_topic
            else f"simulate with --partitions {len(metadata.partitions)}, or choose another topic",
            exit_code=ExitCode.USAGE,
        )


def _produce(topics: SimulationTopics, rows: Iterable[SimulatedRow]) -> int:
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
    for topic, partition, _, at_ms, _, key, value in rows:
        while True:
            try:
                producer.produce(topic, value, key, partition, on_delivery=delivered, timestamp=at_ms)
                break
            except BufferError:  # the queue is full
                producer.poll(_ROOM_SECONDS)
        producer.poll(0)
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
            fix="check the brokers, then simulate into another topic",
            exit_code=ExitCode.CONNECTION,
        )
    return count
