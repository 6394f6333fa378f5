"""The offsets topic as ``watch`` reads it: poll by poll, without a consumer group."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from confluent_kafka import Consumer, Message, TopicPartition

from groupreplay.state.policy.context import OFFSETS_TOPIC
from groupreplay.streaming.contract.log import next_place, no_progress
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.topic_reader import batch_of, consume
from groupreplay.streaming.sources.topic import read_log

#: Records of one poll, about: more cost memory.
MOST_RECORDS: Final = 50_000
#: So many are read before a partition is divided.
_MOST_OF_PARTITION: Final = 200_000
#: A poll that is not full ends when nothing has arrived for this long.
_SILENCE_SECONDS: Final = 0.05
_LONGEST_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Arrived:
    """Records of one poll, and the next offset of each partition that has moved. ``is_full``: there are more."""

    batches: list[pa.RecordBatch]
    read_to: dict[int, int]
    records: int
    is_full: bool


@dataclass(slots=True)
class LogReader:
    """Reads from these offsets on; partitions without one from their beginning.

    What is there at the start is read partition by partition, if it is much: all records of a group are in one
    partition, and a group costs the engine the same for one record of a poll as for many.
    """

    connection: Connection
    partitions: int
    starts: Mapping[int, int]
    _next: dict[int, int] = field(init=False)
    _backlog: Iterator[Arrived] = field(init=False)
    _consumer: Consumer | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        first = self.connection.first_offsets(OFFSETS_TOPIC, self.partitions)
        self._next = {number: self.starts.get(number, at) for number, at in first.items()}
        self._backlog = self._by_partition()

    def close(self) -> None:
        """Ends reading."""
        self._backlog = iter(())
        if self._consumer is not None:
            self._consumer.close()

    def read(self, seconds: float) -> Arrived:
        """What arrives; waits so long for the first record.

        Raises:
            GroupReplayError: the brokers refuse the reader; at the start also when nothing arrives for a minute.
        """
        arrived = next(self._backlog, None)
        if arrived is None:
            self._consumer = self._consumer or self._assigned()
            arrived = self._newest(self._consumer, seconds)
        self._next.update(arrived.read_to)
        return arrived

    def _by_partition(self) -> Iterator[Arrived]:
        ends = self.connection.end_offsets(OFFSETS_TOPIC, self.partitions)
        spans = [(number, self._next[number], end) for number, end in sorted(ends.items())]
        if sum(end - start for _, start, end in spans) <= MOST_RECORDS:
            return
        batches, next_offsets, records = list[pa.RecordBatch](), dict[int, int](), 0
        for batch in read_log(self.connection, spans, no_progress):
            number, following = next_place(batch)
            batches.append(batch)
            next_offsets[number] = following
            records += batch.num_rows
            if records >= (MOST_RECORDS if following >= ends[number] else _MOST_OF_PARTITION):
                yield Arrived(batches, next_offsets, records, is_full=True)
                batches, next_offsets, records = [], {}, 0
        # Behind the last record of a partition may be markers of transactions.
        yield Arrived(
            batches, {number: max(self._next[number], end) for number, end in ends.items()}, records, True
        )

    def _assigned(self) -> Consumer:
        consumer = self.connection.consumer()
        consumer.assign([TopicPartition(OFFSETS_TOPIC, number, at) for number, at in self._next.items()])
        return consumer

    def _newest(self, consumer: Consumer, seconds: float) -> Arrived:
        """Of all partitions. An outage is no error."""
        by_partition: dict[int, list[Message]] = {}
        read_to: dict[int, int] = {}
        records, ends = 0, time.monotonic() + _LONGEST_SECONDS
        while records < MOST_RECORDS and time.monotonic() < ends:
            messages = consume(consumer, self.connection, seconds)
            if not messages:
                break
            seconds = _SILENCE_SECONDS
            for message in messages:
                number, offset = message.partition(), message.offset()
                if message.error() is not None:
                    # The end of the partition, behind the markers of transactions, which never arrive.
                    read_to[number] = offset
                    continue
                read_to[number] = offset + 1
                by_partition.setdefault(number, []).append(message)
                records += 1
        batches = [batch_of(by_partition[number]) for number in sorted(by_partition)]
        return Arrived(batches, read_to, records, is_full=records >= MOST_RECORDS)


class NoLog:
    """Stands for a log that cannot be read: nothing ever arrives."""

    def read(self, seconds: float) -> Arrived:
        """Waits, as for a record. All that there is was read: nothing of a partition 0."""
        time.sleep(seconds)
        return Arrived([], {0: 0}, 0, is_full=False)

    def close(self) -> None:
        """Nothing is to be closed."""
