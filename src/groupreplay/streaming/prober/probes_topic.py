"""Reads the topic ``group-probes``: for a starting prober, and for commands that read the offsets topic."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, starmap
from typing import TYPE_CHECKING

import pyarrow as pa

from groupreplay.streaming.base.broker_clock import BrokerClock
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.contract.probe_messages import (
    ClockReading,
    GroupAnswer,
    ProbeMessage,
    RoundSummary,
    decode_message,
    encode_message,
)
from groupreplay.streaming.kafka.topic_reader import keys_and_values, read_messages

if TYPE_CHECKING:
    from groupreplay.streaming.kafka.clients import Connection
    from groupreplay.streaming.kafka.publisher import Publisher

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ProbesPlace:
    """The probes topic to read; ``asked_for``: the user named it, so it must exist."""

    cluster: Cluster
    topic: str
    asked_for: bool = True


@dataclass(frozen=True, slots=True)
class Probes:
    """A probes topic up to ``ends``; ``batches`` have the columns of ``ROW_SCHEMA`` and can be read once."""

    connection: Connection
    topic: str
    batches: Iterable[pa.RecordBatch]
    ends: Mapping[int, int]

    def since(self) -> Iterator[pa.RecordBatch]:
        """The messages that have arrived after ``ends``."""
        ends = self.connection.end_offsets(self.topic, len(self.ends))
        return read_messages(self.connection, self.topic, self.ends, ends)


def open_probes(place: ProbesPlace) -> Probes | None:
    """The probes topic up to its current end; None if there is none.

    Raises:
        GroupReplayError: the user named the topic and it cannot be read; otherwise a warning is logged.
    """
    from groupreplay.streaming.kafka.clients import Connection

    connection = Connection(place.cluster)
    try:
        partitions = _partitions(connection, place.topic)
        if partitions:
            ends = connection.end_offsets(place.topic, partitions)
            starts = connection.first_offsets(place.topic, partitions)
            batches = read_messages(connection, place.topic, starts, ends)
            # Read the first batch now, so that missing rights are noticed here.
            first = next(batches, None)
            return Probes(connection, place.topic, chain([first] if first else [], batches), ends)
    except GroupReplayError as error:
        if place.asked_for:
            raise
        log.warning("the prober's answers in topic %s are not used: %s", place.topic, error.what)
        return None
    if place.asked_for:
        raise GroupReplayError(
            "the topic does not exist",
            where=f"{place.topic}, {place.cluster.bootstrap_servers}",
            fix="give the --probes-topic of the job, and its cluster",
        )
    return None


def read_clock(publisher: Publisher, topic: str, cluster_id: str, clock: BrokerClock) -> None:
    """Write one message to learn the brokers' time from its append time.

    Raises:
        GroupReplayError: the message was not delivered in time.
        KafkaException: the broker rejected it.
    """
    reading = ClockReading(cluster_id=cluster_id, at_ms=clock.now_ms())
    clock.note(publisher.publish(topic, [encode_message(reading)]))


def shows_rounds(batches: Iterable[pa.RecordBatch]) -> tuple[bool, Iterable[pa.RecordBatch]]:
    """Whether a prober was active, according to the first batch; and all the batches.

    Without a prober the topic still contains the job's heartbeats.
    """
    rest = iter(batches)
    head = [one for one in [next(rest, None)] if one is not None]
    is_probed = any(isinstance(message, RoundSummary) for message in _messages(head))
    return is_probed, chain(head, rest)


@dataclass(frozen=True, slots=True)
class LastRounds:
    """The groups that were rebalancing in their last answer.

    ``listed_ms`` is when a round has listed all groups (None: not known).
    """

    in_progress: frozenset[str] = frozenset()
    listed_ms: int | None = None


def last_rounds(connection: Connection, topic: str, cluster_id: str, since_ms: int) -> LastRounds:
    """The rounds since then, of any prober of that cluster.

    Raises:
        GroupReplayError: the cluster does not answer, or this login may not read the topic.
    """
    from groupreplay.streaming.prober.prober import IN_PROGRESS

    partitions = _partitions(connection, topic)
    if not partitions:
        return LastRounds()
    ends = connection.end_offsets(topic, partitions)
    starts = connection.offsets_since(topic, partitions, since_ms)
    last: dict[str, GroupAnswer] = {}
    listed_ms: int | None = None
    for message in _messages(read_messages(connection, topic, starts, ends)):
        if isinstance(message, GroupAnswer) and message.cluster_id == cluster_id:
            last[message.group_id] = message
        elif isinstance(message, RoundSummary) and _is_complete(message, cluster_id):
            listed_ms = message.taken_ms
    begun = frozenset(group for group, answer in last.items() if answer.state in IN_PROGRESS)
    return LastRounds(begun, listed_ms)


def _is_complete(summary: RoundSummary, cluster_id: str) -> bool:
    return summary.cluster_id == cluster_id and not any(summary.brokers.values())


def _messages(batches: Iterable[pa.RecordBatch]) -> Iterator[ProbeMessage | None]:
    return starmap(decode_message, chain.from_iterable(map(keys_and_values, batches)))


def _partitions(connection: Connection, topic: str) -> int:
    from confluent_kafka import KafkaException

    from groupreplay.streaming.kafka.clients import REQUEST_SECONDS

    try:
        # Lists all topics: a request for one missing topic may create it.
        known = connection.admin().list_topics(timeout=REQUEST_SECONDS).topics
    except KafkaException as error:
        raise connection.explain(error, topic) from None
    found = known.get(topic)
    return 0 if found is None or found.error is not None else len(found.partitions)
