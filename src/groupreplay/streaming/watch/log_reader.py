"""The offsets topic as ``watch`` reads it: all partitions at once, without a consumer group, poll by poll."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

from groupreplay.state.policy.context import OFFSETS_TOPIC
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.topic_reader import batch_of, consume

#: Records of one poll: as many as the engine folds at once.
MOST_RECORDS: Final = 200_000
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
    """Reads from these offsets on; partitions without one from their beginning."""

    connection: Connection
    partitions: int
    starts: Mapping[int, int]
    _consumer: Consumer = field(init=False)

    def __post_init__(self) -> None:
        self._consumer = self.connection.consumer()
        self._consumer.assign(
            [
                TopicPartition(OFFSETS_TOPIC, number, self.starts.get(number, OFFSET_BEGINNING))
                for number in range(self.partitions)
            ]
        )

    def close(self) -> None:
        """Ends reading."""
        self._consumer.close()

    def read(self, seconds: float) -> Arrived:
        """What arrives; waits so long for the first record.

        Raises:
            GroupReplayError: the brokers refuse the reader. An outage is no error.
        """
        by_partition: dict[int, list[Message]] = {}
        read_to: dict[int, int] = {}
        records, ends = 0, time.monotonic() + _LONGEST_SECONDS
        while records < MOST_RECORDS and time.monotonic() < ends:
            messages = consume(self._consumer, self.connection, seconds)
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
