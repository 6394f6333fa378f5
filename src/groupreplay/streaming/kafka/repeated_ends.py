"""The topics and ends of a cluster for one that asks again and again: what seldom changes is not asked for each time.

DescribeTopics costs the client as much for each partition as the ends themselves, and the Admin client makes a future
of each partition. So topics are described in every tenth round, and between if the metadata or the ends say that they
are others; ends are asked for by one call for many partitions (docs/lag.md, "Rights, and what it costs").
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from confluent_kafka import OFFSET_END, Consumer, IsolationLevel, KafkaException, TopicPartition

from groupreplay.streaming.contract.log import EpochEnd
from groupreplay.streaming.contract.partition_ends import PartitionEnds
from groupreplay.streaming.kafka.clients import REQUEST_SECONDS, Connection
from groupreplay.streaming.kafka.log_ends import (
    Place,
    ReadableTopics,
    TopicLayout,
    latest_ends,
    read_ends,
    readable_topics,
)

#: All topics are described once in so many rounds.
_WHOLE_ROUNDS: Final = 10
_LEVEL_NAMES: Final = {
    IsolationLevel.READ_UNCOMMITTED: "read_uncommitted",
    IsolationLevel.READ_COMMITTED: "read_committed",
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
