"""What has been written to ``group-probes`` so far: for a prober that starts, and for who looks back.

Knows how to find and read the topic; must not know what an answer means.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
from confluent_kafka import KafkaException

from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.contract.probe_messages import (
    GroupAnswer,
    ProbeMessage,
    RoundSummary,
    decode_message,
)
from groupreplay.streaming.kafka.clients import REQUEST_SECONDS, Connection
from groupreplay.streaming.kafka.topic_reader import read_messages
from groupreplay.streaming.prober.prober import IN_PROGRESS

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ProbesPlace:
    """Where somebody wants probes to be read; ``asked_for`` when they said so, and it is not just a guess."""

    cluster: Cluster
    topic: str
    asked_for: bool = True


@dataclass(frozen=True, slots=True)
class Probes:
    """A topic of probes up to ``ends``; ``batches`` have the columns of ``rows.ROW_SCHEMA``, read once."""

    connection: Connection
    topic: str
    batches: Iterable[pa.RecordBatch]
    ends: Mapping[int, int]

    def since(self) -> Iterator[pa.RecordBatch]:
        """What has come behind the ends until this moment."""
        ends = self.connection.end_offsets(self.topic, len(self.ends))
        return read_messages(self.connection, self.topic, self.ends, ends)


def open_probes(place: ProbesPlace) -> Probes | None:
    """The topic of probes up to its end at this moment; None when there is none.

    Raises:
        GroupReplayError: it was asked for and cannot be read. If not, a warning says so.
    """
    connection = Connection(place.cluster)
    try:
        partitions = _partitions(connection, place.topic)
        if partitions:
            ends = connection.end_offsets(place.topic, partitions)
            starts = connection.first_offsets(place.topic, partitions)
            batches = read_messages(connection, place.topic, starts, ends)
            # The first one now: what may not be read is found out here.
            first = next(batches, None)
            return Probes(connection, place.topic, chain([first] if first else [], batches), ends)
    except GroupReplayError as error:
        if place.asked_for:
            raise
        log.warning("the probes in topic %s are left out: %s", place.topic, error.what)
        return None
    if place.asked_for:
        raise GroupReplayError(
            "there is no such topic",
            where=f"{place.topic}, {place.cluster.bootstrap_servers}",
            fix="name the topic that the job's --probes-topic names, and its cluster",
        )
    return None


def shows_rounds(batches: Iterable[pa.RecordBatch]) -> tuple[bool, Iterable[pa.RecordBatch]]:
    """Whether a prober was at work, by the first batch, and the same batches again.

    Without one the topic still holds the heartbeats of the job.
    """
    rest = iter(batches)
    head = [one for one in [next(rest, None)] if one is not None]
    is_probed = any(isinstance(message, RoundSummary) for message in _messages(head))
    return is_probed, chain(head, rest)


def groups_in_progress(connection: Connection, topic: str, cluster_id: str, since_ms: int) -> set[str]:
    """The groups whose last answer since then was a rebalance in progress.

    Raises:
        GroupReplayError: the cluster does not answer, or we may not read.
    """
    partitions = _partitions(connection, topic)
    if not partitions:
        return set()
    ends = connection.end_offsets(topic, partitions)
    starts = connection.offsets_since(topic, partitions, since_ms)
    last: dict[str, GroupAnswer] = {}
    for message in _messages(read_messages(connection, topic, starts, ends)):
        if isinstance(message, GroupAnswer) and message.cluster_id == cluster_id:
            last[message.group_id] = message
    return {group for group, answer in last.items() if answer.state in IN_PROGRESS}


def _messages(batches: Iterable[pa.RecordBatch]) -> Iterator[ProbeMessage | None]:
    for batch in batches:
        for key, value in zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True):
            yield decode_message(key, value)


def _partitions(connection: Connection, topic: str) -> int:
    try:
        # All of them: to name a topic that is missing may create it.
        known = connection.admin().list_topics(timeout=REQUEST_SECONDS).topics
    except KafkaException as error:
        raise connection.explain(error, topic) from None
    found = known.get(topic)
    return 0 if found is None or found.error is not None else len(found.partitions)
