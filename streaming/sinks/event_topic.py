"""The events that the job wrote, read back from their topic: once up to its end, or for as long as they come.

Knows the topic and that an event may be in it twice; must not know what an event means. Nothing here joins a
group.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

import msgspec

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.contract.output import Output, OutputRow
from groupreplay.streaming.engine.replay import EventHead, Filter, events_in_order
from groupreplay.streaming.kafka.clients import Connection, ends_reading

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, TopicPartition

log = logging.getLogger(__name__)

#: Repeats come from a batch that was done twice: they are near each other.
_REMEMBERED: Final = 200_000
#: How much earlier than it happened an event may seem to have been written: two clocks are at work.
_SKEW_MS: Final = 60_000
_POLL_SECONDS: Final = 0.2
_SILENCE_SECONDS: Final = 30.0
_REQUEST_SECONDS: Final = 10.0


class _Data(msgspec.Struct):
    group_id: str | None = None


class _Head(EventHead):
    """What of a CloudEvent decides whether it is shown."""

    id: str
    severitynumber: int
    data: _Data


_head: Final = msgspec.json.Decoder(_Head)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which events are shown: of groups that match one of the globs (all without one), of a severity or above."""

    groups: Sequence[str] = ()
    least_severity: int = 0
    filter: Filter = field(default_factory=Filter)

    def __call__(self, event: _Head) -> bool:
        """Whether an event is shown. What is about no group is shown when no group is named."""
        if event.severitynumber < self.least_severity or not self.filter(event):
            return False
        group_id = event.data.group_id
        return not self.groups or (
            group_id is not None and any(fnmatchcase(group_id, glob) for glob in self.groups)
        )


class Repeats:
    """The ids that came last, to tell an event that comes again."""

    def __init__(self) -> None:
        self._seen: dict[str, None] = {}

    def has(self, event_id: str) -> bool:
        """Whether this id came before; from now on it did."""
        if event_id in self._seen:
            return True
        self._seen[event_id] = None
        if len(self._seen) > _REMEMBERED:
            del self._seen[next(iter(self._seen))]
        return False


class EventTopic:
    """The topic of events on one cluster; read it once. ``unreadable`` counts messages that are no events.

    Raises, whenever it is used, GroupReplayError: there is no such topic, no broker answers, or it may not be
    read.
    """

    def __init__(self, cluster: Cluster, topic: str, wanted: Wanted) -> None:
        self.unreadable = 0
        self._connection = Connection(cluster)
        self._topic = topic
        self._wanted = wanted
        self._repeats = Repeats()

    def read(self, *, follow: bool) -> Iterator[bytes]:
        """The events that are there, by time, and with ``follow`` those that come, until somebody interrupts.

        Without a time to begin from, ``follow`` begins with what is new.
        """
        partitions = self._partitions()
        with closing(self._connection.consumer()) as consumer:
            since_ms = self._wanted.filter.since_ms
            if since_ms is not None or not follow:
                yield from events_in_order(self._to_the_end(consumer, partitions, since_ms), Filter())
            else:
                self._assign_the_end(consumer, partitions)
            while follow:
                rows = self._rows(consume(consumer, self._connection, self._topic))
                yield from (row.value for row in rows if row.value is not None)

    def _partitions(self) -> int:
        try:
            return self._connection.identify(self._topic).partitions
        except GroupReplayError as error:
            if error.exit_code is not ExitCode.DATA:
                raise
            raise GroupReplayError(
                f"there is no topic {self._topic!r}, or this login may not see it",
                where=self._connection.cluster.bootstrap_servers,
                fix="groupreplay run makes it and writes it; --events-topic NAME if it has another name, "
                "--bootstrap-server for the cluster of the job's topics",
                exit_code=ExitCode.DATA,
            ) from None

    def _assign_the_end(self, consumer: Consumer, partitions: int) -> None:
        from confluent_kafka import OFFSET_END, TopicPartition

        consumer.assign([TopicPartition(self._topic, number, OFFSET_END) for number in range(partitions)])

    def _to_the_end(self, consumer: Consumer, partitions: int, since_ms: int | None) -> Iterator[OutputRow]:
        """What was written up to now; the consumer then stands there."""
        consumer.assign(self._starts(consumer, partitions, since_ms))
        open_partitions = set(range(partitions))
        heard = time.monotonic()
        while open_partitions:
            messages = consume(consumer, self._connection, self._topic)
            if messages:
                heard = time.monotonic()
            elif time.monotonic() - heard > _SILENCE_SECONDS:
                raise GroupReplayError(
                    f"nothing came for {_SILENCE_SECONDS:.0f} s",
                    where=f"{self._topic}-{min(open_partitions)}",
                    fix="check that every partition of the topic has a leader",
                    exit_code=ExitCode.CONNECTION,
                )
            open_partitions -= {_place(message) for message in messages if message.error() is not None}
            yield from self._rows(messages)

    def _starts(self, consumer: Consumer, partitions: int, since_ms: int | None) -> list[TopicPartition]:
        from confluent_kafka import OFFSET_BEGINNING, KafkaException, TopicPartition

        first = OFFSET_BEGINNING if since_ms is None else max(0, since_ms - _SKEW_MS)
        places = [TopicPartition(self._topic, number, first) for number in range(partitions)]
        if since_ms is None:
            return places
        try:
            found: list[TopicPartition] = consumer.offsets_for_times(places, timeout=_REQUEST_SECONDS)
        except KafkaException as error:
            raise self._connection.explain(error, self._topic) from None
        return found

    def _rows(self, messages: Sequence[Message]) -> Iterator[OutputRow]:
        """The events that are wanted, each once."""
        for message in messages:
            value = message.value()
            if message.error() is not None or value is None:
                continue
            try:
                event = _head.decode(value)
            except msgspec.DecodeError:
                self.unreadable += 1
                continue
            if self._wanted(event) and not self._repeats.has(event.id):
                yield OutputRow(Output.EVENTS, message.key() or b"", value)


def consume(consumer: Consumer, connection: Connection, where: str) -> list[Message]:
    """Messages, and ends of partitions as messages with an error. An outage is waited for.

    Raises:
        GroupReplayError: the brokers refuse to be read.
    """
    from confluent_kafka import KafkaError, KafkaException

    messages = consumer.consume(num_messages=500, timeout=_POLL_SECONDS)
    for message in messages:
        error = message.error()
        if error is not None and ends_reading(error):
            raise connection.explain(KafkaException(error), where)
        if error is not None:
            log.debug("%s: %s", where, error)
    return [one for one in messages if one.error() is None or one.error().code() == KafkaError._PARTITION_EOF]


def _place(message: Message) -> int:
    return int(message.partition() or 0)
