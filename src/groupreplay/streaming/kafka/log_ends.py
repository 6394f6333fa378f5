"""The ends of partitions of any topics, by requests to their leaders; for the prober, and for the lag of now.

The prober asks again and again. DescribeTopics costs the client as much for each partition as the ends themselves,
and the Admin client makes a future of each partition. So topics are described in every tenth round, and between if
the metadata or the ends say that they are others; ends are asked for by one call for many partitions (docs/lag.md,
"Rights, and what it costs").
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Final

from confluent_kafka import (
    OFFSET_END,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import TopicDescription

from groupreplay.streaming.contract.log import EpochEnd
from groupreplay.streaming.contract.partition_ends import PartitionEnds
from groupreplay.streaming.kafka.clients import ANSWER_SECONDS, REQUEST_SECONDS, Connection
from groupreplay.streaming.kafka.topic_identity import topic_id_of

#: Topics per DescribeTopics: the response lists every partition of each.
_TOPICS_A_REQUEST: Final = 500
#: Partitions per call; librdkafka sends one request to each leader.
_PARTITIONS_A_CALL: Final = 5_000

#: A topic and the number of a partition.
Place = tuple[str, int]
#: The ends of partitions at an isolation level; those without an answer are left out.
AskLatest = Callable[[Collection[Place], IsolationLevel], Mapping[Place, EpochEnd]]
#: All topics are described once in so many rounds.
_WHOLE_ROUNDS: Final = 10
_LEVEL_NAMES: Final = {
    IsolationLevel.READ_UNCOMMITTED: "read_uncommitted",
    IsolationLevel.READ_COMMITTED: "read_committed",
}


@dataclass(frozen=True, slots=True)
class TopicLayout:
    """The id of a topic (``0``: the brokers have none), its partitions with a leader, and those without one."""

    topic_id: str
    led: tuple[int, ...]
    leaderless: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadableTopics:
    """Topics by name; ``refused``: those that are there and gave no answer, and why; ``internal``: Kafka's own."""

    layouts: Mapping[str, TopicLayout] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    internal: frozenset[str] = frozenset()


def readable_topics(
    connection: Connection, only: Collection[str] | None = None, *, internal: bool = False
) -> ReadableTopics:
    """The topics that this login may describe; ``only`` those of these names, without Kafka's ``internal`` ones.

    Creates none of them.

    Raises:
        GroupReplayError: without ``only``, no broker answers.
    """
    names = iter(sorted(connection.metadata("cluster").topics if only is None else only))
    layouts: dict[str, TopicLayout] = {}
    refused: dict[str, str] = {}
    kafkas_own: set[str] = set()
    while chunk := list(islice(names, _TOPICS_A_REQUEST)):
        answers = connection.admin().describe_topics(TopicCollection(chunk), request_timeout=REQUEST_SECONDS)
        for name, answer in answers.items():
            try:
                described = answer.result(ANSWER_SECONDS)
            except KafkaException as error:
                # A topic that was deleted since it was listed is no topic of this round.
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    refused[name] = error.args[0].str()
                continue
            if internal or not described.is_internal:
                layouts[name] = _layout(described)
            if described.is_internal:
                kafkas_own.add(name)
    return ReadableTopics(layouts, refused, frozenset(kafkas_own))


def _layout(described: TopicDescription) -> TopicLayout:
    has_leader = {partition.id: bool(partition.leader) for partition in described.partitions}
    return TopicLayout(
        topic_id_of(described.topic_id),
        tuple(sorted(number for number, led in has_leader.items() if led)),
        tuple(sorted(number for number, led in has_leader.items() if not led)),
    )


def read_ends(
    connection: Connection,
    places: Collection[Place],
    starts: Mapping[Place, int] | None = None,
    latest: AskLatest | None = None,
) -> dict[Place, PartitionEnds]:
    """The ends of these partitions now; those without an answer are left out.

    The end is that of Kafka's tools: behind the records of open transactions. Log start offsets in ``starts`` are not
    asked for. ``latest`` asks for the ends; by default ``latest_ends``.
    """
    ends: dict[Place, PartitionEnds] = {}
    rest = iter(sorted(places))
    while chunk := list(islice(rest, _PARTITIONS_A_CALL)):
        ends |= _chunk_ends(connection, chunk, starts or {}, latest or partial(latest_ends, connection))
    if len(ends) < len(places):
        # For this call librdkafka caches partition leaders even after they have changed.
        connection.forget_admin()
    return ends


def latest_ends(
    connection: Connection, places: Collection[Place], level: IsolationLevel
) -> dict[Place, EpochEnd]:
    """The ends of partitions by the Admin client: each partition fails for itself."""
    return connection.partition_ends(places, level, REQUEST_SECONDS)


def _chunk_ends(
    connection: Connection, places: Collection[Place], earlier: Mapping[Place, int], latest: AskLatest
) -> dict[Place, PartitionEnds]:
    unasked = [place for place in places if place not in earlier]
    starts = {**earlier, **(connection.partition_starts(unasked) if unasked else {})}
    high = latest(places, IsolationLevel.READ_UNCOMMITTED)
    # After the high watermarks: otherwise records written in between would look like an open transaction.
    stable = latest(places, IsolationLevel.READ_COMMITTED)
    return {
        place: PartitionEnds(
            min(starts[place], end.offset),
            end.offset,
            min(stable[place].offset, end.offset),
            -1 if end.epoch is None else end.epoch,
        )
        for place, end in high.items()
        if place in starts and place in stable
    }


class RepeatedEnds:
    """One round is a call of ``topics``, one of ``ends``, and another of ``topics`` if the ends raise a doubt."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._round = -1
        #: Kafka's internal topics too, so that they are not described again in each round.
        self._described: dict[str, TopicLayout] = {}
        self._shown: frozenset[str] = frozenset()
        self._consumers: dict[IsolationLevel, Consumer] = {}

    def topics(self, doubted: Collection[str] = ()) -> ReadableTopics:
        """The topics of a new round; with ``doubted``, those of this round, after these were described again.

        Raises:
            GroupReplayError: no broker answers.
        """
        self._round += not doubted
        present: Mapping[str, Any] = self._connection.metadata("cluster").topics
        if self._round % _WHOLE_ROUNDS == 0 and not doubted:
            self._described = {}
        asked = {name for name, topic in present.items() if name in doubted or self._is_other(name, topic)}
        answers = readable_topics(self._connection, asked, internal=True) if asked else ReadableTopics()
        hidden = answers.internal | (self._described.keys() - self._shown)
        self._described = {
            name: answers.layouts.get(name) or _layout_now(self._described[name], topic)
            for name, topic in present.items()
            if name in answers.layouts or (name in self._described and name not in asked)
        }
        self._shown = frozenset(self._described.keys() - hidden)
        return ReadableTopics({name: self._described[name] for name in sorted(self._shown)}, answers.refused)

    def _is_other(self, name: str, topic: Any) -> bool:
        before = self._described.get(name)
        return (
            before is None
            or topic.error is not None
            or topic.partitions.keys() != {*before.led, *before.leaderless}
        )

    def ends(self, places: Collection[Place], starts: Mapping[Place, int]) -> dict[Place, PartitionEnds]:
        """As ``read_ends``, for a third of its CPU time."""
        return read_ends(self._connection, places, starts, self._latest)

    def _latest(self, places: Collection[Place], level: IsolationLevel) -> dict[Place, EpochEnd]:
        consumer = self._consumers.pop(level, None) or self._connection.consumer(_LEVEL_NAMES[level])
        wanted = [TopicPartition(topic, number, OFFSET_END) for topic, number in places]
        try:
            # -1 is a time of ListOffsets too: the end of the log.
            answers = consumer.offsets_for_times(wanted, REQUEST_SECONDS)
        except KafkaException:
            # One partition without an answer fails the call for all; and the leaders may be others since.
            consumer.close()
            return latest_ends(self._connection, places, level)
        self._consumers[level] = consumer
        return {
            (end.topic, end.partition): EpochEnd(end.offset, end.leader_epoch)
            for end in answers
            if not end.error and end.offset >= 0
        }


def _layout_now(layout: TopicLayout, topic: Any) -> TopicLayout:
    """The same partitions with the leaders of now."""
    led = tuple(sorted(number for number, partition in topic.partitions.items() if partition.leader >= 0))
    return TopicLayout(layout.topic_id, led, tuple(sorted(topic.partitions.keys() - set(led))))
