"""``group-probes`` and ``group-job`` as the driver reads them back, to evaluate the job's own conditions.

Readers use assigned partitions only.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.contract.job_document import JobStateMessage, decode_state_message
from groupreplay.streaming.contract.rows import keys_and_values
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.topic_reader import consume, read_messages
from groupreplay.streaming.sinks.job_topic import ends_of

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

#: The query writes its state every few minutes, and the driver a document with each trigger.
_TAIL_MESSAGES: Final = 5_000
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
        size = _TAIL_MESSAGES
        while True:
            starts = {number: max(first[number], end - size) for number, end in ends.items()}
            last = None
            for batch in read_messages(self._connection, topic, starts, ends):
                for key, value in keys_and_values(batch):
                    last = decode_state_message(key, value) or last
            if last is not None or starts == {number: first[number] for number in starts}:
                return last
            size *= 10

    def begin(self, read_to: Mapping[int, int], since_ms: int) -> None:
        """Begins, also anew, behind these offsets of ``group-probes``; without any, with what is newer."""
        from confluent_kafka import TopicPartition

        topic, count = self._topics.probes, self._connection.topic_id(self._topics.probes)[1]
        ends = ends_of(self._connection, topic, count)
        first = self._connection.first_offsets(topic, count)
        since = {} if read_to else self._connection.offsets_since(topic, count, since_ms)
        starts = {}
        for number, end in ends.items():
            at = read_to[number] + 1 if number in read_to else since.get(number, first[number])
            # -1: nothing is so new. A topic that was created again begins at 0.
            starts[number] = end if at < 0 else at if first[number] <= at <= end else first[number]
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
        return [self._taken(one) for one in messages if one.error() is None]

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
