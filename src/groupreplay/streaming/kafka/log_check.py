"""Asks the brokers whether a topic still has what was read of it, and takes new marks.

librdkafka has no request for the end of a leader epoch. But a consumer that is assigned at an offset with an epoch
asks for it before it reads (KIP-320), and returns an error if the epoch ended below that offset.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.contract.log import (
    EpochEnd,
    LogAnswer,
    PartitionMark,
    RecordMark,
    is_cut,
    is_earlier_leader,
    is_later_leader,
    record_digest,
)
from groupreplay.streaming.kafka.client_errors import ends_reading
from groupreplay.streaming.kafka.clients import Connection

log = logging.getLogger(__name__)

#: How long all partitions together may take.
_ANSWER_SECONDS: Final = 20.0
_POLL_SECONDS: Final = 0.2
_FETCH_BYTES: Final = 64 * 1024
#: How long a leader from an earlier epoch is not believed: longer than a broker stays unfenced without its controllers.
_EARLIER_SECONDS: Final = 30.0
_EARLIER_PAUSE_SECONDS: Final = 1.0
#: A client that knows the leader before it is assigned does not ask for the epoch (librdkafka's issue 5158), and on a
#: busy machine a new one may have learned it meanwhile: one of a hundred. That an epoch has ended is never wrong.
_EPOCH_TRIES: Final = 5
#: The last record is looked for in so many offsets: there are none in markers of transactions and in what was
#: compacted away.
_LAST_OFFSETS: Final = 64
#: After so many bytes of one partition, the last record so far is as good.
_LAST_BYTES: Final = 256 * 1024
#: The error has the code of a reset of the offset for all its reasons. The end is -1 if the broker does not know it.
_EPOCH_ENDED: Final = re.compile(r"Partition log truncation detected at offset .*broker end offset is \d")
#: Read after the epoch was found to hold: retention has removed that part of the log.
_REMOVED: Final = KafkaError(KafkaError.OFFSET_OUT_OF_RANGE).str()


def present_ends(
    connection: Connection, topic: str, partitions: int, marks: Mapping[int, PartitionMark]
) -> dict[int, EpochEnd]:
    """The ends of all partitions, as their present leaders return them.

    A leader that was replaced while it could not reach the controllers still answers for a while. Its log may be
    shorter, which is no loss: so an end from an earlier epoch counts only if it stays.

    Raises:
        GroupReplayError: the cluster does not answer.
    """
    deadline = time.monotonic() + _EARLIER_SECONDS
    while True:
        ends = connection.log_ends(topic, partitions)
        earlier = [n for n, end in ends.items() if n in marks and is_earlier_leader(marks[n], end)]
        if not earlier or time.monotonic() > deadline:
            return ends
        log.debug("%s: partitions %s have an earlier leader", topic, earlier)
        connection.forget_admin()
        time.sleep(_EARLIER_PAUSE_SECONDS)


def cut_partitions(
    connection: Connection, topic: str, marks: Mapping[int, PartitionMark], ends: Mapping[int, EpochEnd]
) -> frozenset[int]:
    """The partitions whose log was cut since their mark; ``ends`` are those of now.

    Raises:
        GroupReplayError: a partition cannot be asked now.
    """
    marked = {number: mark for number, mark in marks.items() if number in ends}
    epochs = _epochs_hold(
        connection, topic, {n: mark.end for n, mark in marked.items() if is_later_leader(mark, ends[n])}
    )
    records = _records_at(
        connection,
        topic,
        {
            number: mark.record.offset
            for number, mark in marked.items()
            # Otherwise there is nothing to read, and the end says it.
            if mark.record is not None and mark.record.offset < ends[number].offset
        },
    )
    answers = {
        number: LogAnswer(end=ends[number], in_epoch=epochs.get(number), record=records.get(number))
        for number in marked
    }
    return frozenset(number for number, mark in marked.items() if is_cut(mark, answers[number]))


def last_records(connection: Connection, topic: str, ends: Mapping[int, int]) -> dict[int, RecordMark]:
    """The last record below the end of each partition; nothing of a partition that has none near its end.

    Among large records it may be an earlier one.

    Raises:
        GroupReplayError: a partition cannot be read now.
    """
    if not ends:
        return {}
    starts = connection.first_offsets(topic, max(ends) + 1)
    places = {
        number: max(starts[number], end - _LAST_OFFSETS)
        for number, end in ends.items()
        if starts[number] < end
    }
    records: dict[int, RecordMark] = {}
    left = dict.fromkeys(places, _LAST_BYTES)
    with closing(_assigned(connection, _at(topic, places))) as consumer:
        for message in _messages(consumer, connection, topic, left):
            number = message.partition()
            if number not in left:
                continue
            if message.error() is None and message.offset() < ends[number]:
                records[number] = _mark(message)
                left[number] -= len(message)
            if message.error() is not None or message.offset() >= ends[number] - 1 or left[number] < 0:
                del left[number]
    return records


def _epochs_hold(connection: Connection, topic: str, ends: Mapping[int, EpochEnd]) -> dict[int, bool]:
    """Whether the leaders' logs hold all offsets below these ends, in their epochs or earlier ones."""
    holds = dict.fromkeys(ends, True)
    for _ in range(_EPOCH_TRIES):
        places = [
            TopicPartition(topic, number, end.offset, leader_epoch=end.epoch)
            for number, end in ends.items()
            if holds[number]
        ]
        answers = _first_messages(connection, topic, places)
        holds |= {
            number: _EPOCH_ENDED.search(_error_text(message)) is None for number, message in answers.items()
        }
    return holds


def _records_at(connection: Connection, topic: str, offsets: Mapping[int, int]) -> dict[int, RecordMark]:
    """The first record of each partition at this offset or behind it."""
    starts = connection.first_offsets(topic, max(offsets) + 1) if offsets else {}
    # What retention has removed cannot be compared.
    places = {number: at for number, at in offsets.items() if starts[number] <= at}
    answers = _first_messages(connection, topic, _at(topic, places))
    return {number: _mark(message) for number, message in answers.items() if message.error() is None}


def _first_messages(
    connection: Connection, topic: str, places: Collection[TopicPartition]
) -> dict[int, Message]:
    """The first message of each place: a record, or the end of the partition or of the place's epoch as an error."""
    messages: dict[int, Message] = {}
    waiting = {place.partition for place in places}
    if not waiting:
        return messages
    with closing(_assigned(connection, places)) as consumer:
        for message in _messages(consumer, connection, topic, waiting):
            messages.setdefault(message.partition(), message)
            waiting.discard(message.partition())
    return messages


def _assigned(connection: Connection, places: Collection[TopicPartition]) -> Consumer:
    # A new one, and nothing is asked of it before (see _EPOCH_TRIES). One batch of each partition is enough.
    consumer = connection.consumer(fetch_bytes=_FETCH_BYTES)
    consumer.assign(list(places))
    return consumer


def _messages(
    consumer: Consumer, connection: Connection, topic: str, waiting: Collection[int]
) -> Iterator[Message]:
    """Messages, and errors about positions, until no partition is waited for."""
    deadline = time.monotonic() + _ANSWER_SECONDS
    while waiting:
        if time.monotonic() > deadline:
            raise GroupReplayError(
                f"no answer within {_ANSWER_SECONDS:g} s about partitions {sorted(waiting)[:5]}",
                where=topic,
                fix="check that they have a leader (groupreplay check)",
                exit_code=ExitCode.CONNECTION,
            )
        first = consumer.poll(_POLL_SECONDS)
        for message in [] if first is None else [first, *consumer.consume(1_000, timeout=0)]:
            error = message.error()
            if error is None or _is_answer(error):
                yield message
            elif ends_reading(error):
                raise connection.explain(KafkaException(error), topic)


def _is_answer(error: KafkaError) -> bool:
    if error.code() == KafkaError._AUTO_OFFSET_RESET:
        return _EPOCH_ENDED.search(error.str()) is not None or _REMOVED in error.str()
    return bool(error.code() == KafkaError._PARTITION_EOF)


def _error_text(message: Message) -> str:
    error = message.error()
    return "" if error is None else error.str()


def _mark(message: Message) -> RecordMark:
    return RecordMark(message.offset(), record_digest(message.key(), message.value(), message.timestamp()[1]))


def _at(topic: str, offsets: Mapping[int, int]) -> list[TopicPartition]:
    return [TopicPartition(topic, number, at) for number, at in offsets.items()]


#: Heartbeats must not wait: a broker that answers at all answers within this time.
_SECONDS: Final = 4.0


@dataclass(frozen=True, slots=True)
class LogEnds:
    """The ends of one topic, as its brokers answer now. Not thread-safe."""

    connection: Connection
    topic: str
    partitions: int

    def stable(self) -> Mapping[int, EpochEnd]:
        """The last stable offset of each partition that answers, and the epoch of its leader."""
        return self._ends(IsolationLevel.READ_COMMITTED)

    def high_watermarks(self) -> Mapping[int, int]:
        """The ends behind the records of open transactions, of the same partitions."""
        return {number: end.offset for number, end in self._ends(IsolationLevel.READ_UNCOMMITTED).items()}

    def _ends(self, level: IsolationLevel) -> Mapping[int, EpochEnd]:
        # Leaders first: the request for a partition without one is only answered when its time is over.
        led = self._led()
        if not led:
            return {}
        places = [(self.topic, number) for number in led]
        ends = self.connection.partition_ends(places, level, _SECONDS)
        if len(ends) < len(led):
            # librdkafka keeps the leaders that it once found.
            self.connection.forget_admin()
        return {number: end for (_, number), end in sorted(ends.items())}

    def _led(self) -> list[int]:
        """The partitions that have a leader; none when no broker answers."""
        try:
            metadata = self.connection.metadata(self.topic, self.topic, seconds=_SECONDS).topics[self.topic]
        except GroupReplayError as error:
            log.debug("no ends of %s for now: %s", self.topic, error)
            self.connection.forget_admin()
            return []
        return [
            n
            for n, partition in sorted(metadata.partitions.items())
            if partition.leader >= 0 and n < self.partitions
        ]
