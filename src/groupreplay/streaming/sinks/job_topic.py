"""The topic ``group-job`` as a run follows it: the documents and claims of all runs that write to it.

Readers use assigned partitions only.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.contract.log import keys_and_values
from groupreplay.streaming.contract.messages import (
    JobDocument,
    JobStateMessage,
    OwnerClaim,
    decode_run_message,
    decode_state_message,
)
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.topic_reader import consume, read_messages, starts_since, starts_within

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

RunMessage: TypeAlias = JobDocument | OwnerClaim

#: A run writes its document once per trigger, and few other messages.
_TAIL_MESSAGES: Final = 1_000
#: A new topic has no leaders for a moment.
_LEADER_SECONDS: Final = 15.0
_PAUSE_SECONDS: Final = 0.5
#: How long a reader that failed is not opened again: each try may take as long as a request.
_REOPEN_SECONDS: Final = 10.0


def ends_of(connection: Connection, topic: str, partitions: int) -> dict[int, int]:
    """The end of each partition, also of a topic that was created a moment ago.

    Raises:
        GroupReplayError: no broker answers within seconds.
    """
    deadline = time.monotonic() + _LEADER_SECONDS
    while True:
        try:
            return connection.end_offsets(topic, partitions)
        except GroupReplayError:
            if time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE_SECONDS)


def _tail_starts(first: Mapping[int, int], ends: Mapping[int, int], size: int) -> Iterator[Mapping[int, int]]:
    """Where the last messages begin; then those of ever more of them, until it is the whole topic."""
    starts: Mapping[int, int] = {}
    while starts != first:
        starts = {number: max(first[number], end - size) for number, end in ends.items()}
        yield starts
        size *= 10


class JobTopic:
    """The topic from its present end on, and the last messages before it. Not thread-safe."""

    def __init__(self, connection: Connection, topic: str, partitions: int) -> None:
        self.topic = topic
        self._connection = connection
        self._partitions = partitions
        self._ends = ends_of(connection, topic, partitions)
        self._next = dict(self._ends)
        self._consumer: Consumer | None = None
        self._open_at = 0.0

    def last_messages(self) -> dict[str, RunMessage]:
        """The last message of each run that may go on, by run id, in the order in which they wrote.

        These are the last run that claimed the topics, and runs that wrote after its claim: all others end when they
        read the claim.
        """
        found: dict[str, RunMessage] = {}
        for messages in self.tails():
            found.clear()
            for message in messages:
                if isinstance(message, OwnerClaim):
                    found.clear()
                found.pop(message.run_id, None)
                found[message.run_id] = message
            if found:
                break
        return found

    def tails(self) -> Iterator[Iterator[RunMessage]]:
        """The last messages before the present end, oldest first; then ever more of them, until it was the whole topic.

        Raises:
            GroupReplayError: the topic cannot be read; also while iterating.
        """
        first = self._connection.first_offsets(self.topic, self._partitions)
        yield from map(self._between, _tail_starts(first, self._ends, _TAIL_MESSAGES))

    def _between(self, starts: Mapping[int, int]) -> Iterator[RunMessage]:
        for batch in read_messages(self._connection, self.topic, starts, self._ends):
            for key, value in keys_and_values(batch):
                message = decode_run_message(key, value)
                if message is not None:
                    yield message

    def new_messages(self, seconds: float) -> list[RunMessage]:
        """What was written since the last call; waits up to this time for the first message.

        A reader that fails is opened again after a while, at the place that it has reached.

        Raises:
            GroupReplayError: the topic cannot be read now.
        """
        if time.monotonic() < self._open_at:
            time.sleep(min(seconds, _PAUSE_SECONDS))
            return []
        try:
            messages = consume(self._opened(), self._connection, seconds)
        except GroupReplayError:
            self.close()
            self._open_at = time.monotonic() + _REOPEN_SECONDS
            raise
        found = []
        for message in messages:
            if message.error() is None:
                self._next[message.partition() or 0] = (message.offset() or 0) + 1
                decoded = decode_run_message(message.key(), message.value())
                found += [] if decoded is None else [decoded]
        return found

    def is_read_to_end(self) -> bool:
        """Whether everything that is in the topic now was returned: otherwise silence proves nothing.

        Raises:
            GroupReplayError: no broker answers.
        """
        ends = self._connection.end_offsets(self.topic, self._partitions)
        return all(self._next[number] >= end for number, end in ends.items())

    def _opened(self) -> Consumer:
        from confluent_kafka import TopicPartition

        if self._consumer is None:
            first = self._connection.first_offsets(self.topic, self._partitions)
            ends = self._connection.end_offsets(self.topic, self._partitions)
            self._next = starts_within(self._next, first, ends)
            consumer = self._connection.consumer()
            consumer.assign([TopicPartition(self.topic, number, at) for number, at in self._next.items()])
            self._consumer = consumer
        return self._consumer

    def close(self) -> None:
        """Closes the connection; the next call opens another one."""
        if self._consumer is not None:
            with suppress(RuntimeError):
                self._consumer.close()
        self._consumer = None


#: The query writes its state every few minutes, and the driver a document with each trigger.
_STATE_TAIL_MESSAGES: Final = 5_000
_POLL_SECONDS: Final = 0.5


class OwnMessage(NamedTuple):
    """A message of ``group-probes`` or ``group-job``; ``append_ms`` is None where the client has dated it."""

    topic: str
    partition: int
    offset: int
    append_ms: int | None
    key: bytes | None
    value: bytes | None


class OwnTopics:
    """The two topics from a place on, both by one reader. Not thread-safe.

    Every method raises GroupReplayError when the topics cannot be read.
    """

    def __init__(self, connection: Connection, topics: TopicNames) -> None:
        self._connection = connection
        self._topics = topics
        self._starts: dict[int, int] = {}
        self._job_next: dict[int, int] = {}
        self._consumer: Consumer | None = None

    def last_state(self) -> JobStateMessage | None:
        """The last state that a query has written, of any job; new messages of ``group-job`` follow what was read."""
        topic = self._topics.job
        ends = ends_of(self._connection, topic, self._connection.topic_id(topic)[1])
        first = self._connection.first_offsets(topic, len(ends))
        self._job_next = dict(ends)
        last = None
        for starts in _tail_starts(first, ends, _STATE_TAIL_MESSAGES):
            for batch in read_messages(self._connection, topic, starts, ends):
                for key, value in keys_and_values(batch):
                    last = decode_state_message(key, value) or last
            if last is not None:
                break
        return last

    def begin(self, read_to: Mapping[int, int], since_ms: int) -> None:
        """Begins, also anew, behind these offsets of ``group-probes``; without any, with what is newer."""
        from confluent_kafka import TopicPartition

        topic, count = self._topics.probes, self._connection.topic_id(self._topics.probes)[1]
        ends = ends_of(self._connection, topic, count)
        first = self._connection.first_offsets(topic, count)
        since = first if read_to else starts_since(self._connection, topic, ends, since_ms)
        places = {**since, **{number: at + 1 for number, at in read_to.items()}}
        starts = starts_within(places, first, ends)
        if self._consumer is None:
            self._consumer = self._connection.consumer()
        job = [TopicPartition(self._topics.job, number, at) for number, at in self._job_next.items()]
        self._consumer.assign([*job, *(TopicPartition(topic, number, at) for number, at in starts.items())])

    def new_messages(self) -> list[OwnMessage]:
        """What was written since the last call; waits a moment for the first message."""
        assert self._consumer is not None
        try:
            messages = consume(self._consumer, self._connection, _POLL_SECONDS)
        except GroupReplayError:
            self.close()
            raise
        return [self._taken(message) for message in messages if message.error() is None]

    def _taken(self, message: Message) -> OwnMessage:
        from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME

        topic, partition, offset = str(message.topic()), message.partition() or 0, message.offset() or 0
        kind, written_ms = message.timestamp()
        append_ms = written_ms if kind == TIMESTAMP_LOG_APPEND_TIME else None
        if topic == self._topics.job:
            self._job_next[partition] = offset + 1
        return OwnMessage(topic, partition, offset, append_ms, message.key(), message.value())

    def close(self) -> None:
        """Closes the connection; ``begin`` opens another one."""
        if self._consumer is not None:
            with suppress(RuntimeError):
                self._consumer.close()
        self._consumer = None
