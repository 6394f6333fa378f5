"""What a starting prober, and a starting job, learn from the topic ``group-probes``."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from groupreplay.streaming.base.clock import BrokerClock
from groupreplay.streaming.contract.probe_messages import (
    ClockReading,
    GroupAnswer,
    RoundSummary,
    encode_message,
)
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.publisher import Publisher
from groupreplay.streaming.kafka.topic_reader import read_messages
from groupreplay.streaming.prober.prober import IN_PROGRESS
from groupreplay.streaming.sources.source import probe_messages
from groupreplay.streaming.sources.topic import partitions_of

log = logging.getLogger(__name__)


def read_clock(publisher: Publisher, topic: str, cluster_id: str, clock: BrokerClock) -> None:
    """Write one message to learn the brokers' time from its append time.

    Raises:
        GroupReplayError: the message was not delivered in time.
        KafkaException: the broker rejected it.
    """
    reading = ClockReading(cluster_id=cluster_id, at_ms=clock.now_ms())
    clock.note(publisher.publish(topic, [encode_message(reading)]))


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
    partitions = partitions_of(connection, topic)
    if not partitions:
        return LastRounds()
    ends = connection.end_offsets(topic, partitions)
    starts = connection.offsets_since(topic, partitions, since_ms)
    last: dict[str, GroupAnswer] = {}
    listed_ms: int | None = None
    for message in probe_messages(read_messages(connection, topic, starts, ends)):
        if isinstance(message, GroupAnswer) and message.cluster_id == cluster_id:
            last[message.group_id] = message
        elif isinstance(message, RoundSummary) and _is_complete(message, cluster_id):
            listed_ms = message.taken_ms
    begun = frozenset(group for group, answer in last.items() if answer.state in IN_PROGRESS)
    return LastRounds(begun, listed_ms)


def _is_complete(summary: RoundSummary, cluster_id: str) -> bool:
    return summary.cluster_id == cluster_id and not any(summary.brokers.values())
