"""Reads the messages of topics from a live cluster, as Arrow batches (``contract.log``).

Nothing here joins a consumer group.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Final

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from groupreplay.streaming.base.errors import ExitCode, UnreachableError
from groupreplay.streaming.contract.log import BATCH_ROWS, ROW_SCHEMA, ProgressCallback, no_progress
from groupreplay.streaming.kafka.client_errors import ends_reading
from groupreplay.streaming.kafka.clients import Connection

_BATCH_BYTES: Final = 32 * 1024 * 1024
_SILENCE_SECONDS: Final = 60.0


def read_messages(
    connection: Connection,
    topic: str,
    starts: Mapping[int, int],
    ends: Mapping[int, int],
    silence_seconds: float = _SILENCE_SECONDS,
) -> Iterator[pa.RecordBatch]:
    """The messages of any topic between these offsets; a start of -1 means that there are none.

    Raises:
        UnreachableError: nothing arrived for ``silence_seconds``; also while iterating.
    """
    spans = [(number, starts[number], end) for number, end in sorted(ends.items()) if starts[number] >= 0]
    return read_spans(connection, topic, spans, no_progress, silence_seconds)


def starts_since(
    connection: Connection, topic: str, ends: Mapping[int, int], since_ms: int
) -> dict[int, int]:
    """Where to begin for the messages of ``since_ms`` and later: at the end of a partition that has none of them."""
    since = connection.offsets_since(topic, len(ends), since_ms)
    return {number: end if since[number] < 0 else since[number] for number, end in ends.items()}


def follow_topic(
    connection: Connection, topic: str, starts: Mapping[int, int], until: Callable[[], bool]
) -> Iterator[pa.RecordBatch]:
    """Records from the given offsets on, one partition per batch, until ``until()`` is true."""
    with closing(connection.consumer()) as consumer:
        consumer.assign([TopicPartition(topic, number, at) for number, at in starts.items()])
        while not until():
            by_partition: dict[int, list[Message]] = {}
            for message in _records(consumer, connection, 0.2):
                by_partition.setdefault(message.partition(), []).append(message)
            for number in sorted(by_partition):
                yield batch_of(by_partition[number])


def read_spans(
    connection: Connection,
    topic: str,
    spans: Sequence[tuple[int, int, int]],
    progress: ProgressCallback,
    silence_seconds: float = _SILENCE_SECONDS,
) -> Iterator[pa.RecordBatch]:
    """The messages of a topic in these spans (partition, first offset, offset behind the last), one after the other.

    Raises:
        UnreachableError: nothing arrived for ``silence_seconds``; also while iterating.
    """
    spans = [(number, start, end) for number, start, end in spans if start < end]
    total = sum(end - start for _, start, end in spans)
    done = 0
    with closing(connection.consumer()) as consumer:
        for number, start, end in spans:
            place = TopicPartition(topic, number, start)
            for batch in _read_span(consumer, connection, place, end, silence_seconds):
                last = batch.column("offset")[-1].as_py()
                progress(done + last + 1 - start, total)
                yield batch
            done += end - start
    progress(total, total)


def _read_span(
    consumer: Consumer, connection: Connection, place: TopicPartition, end: int, silence_seconds: float
) -> Iterator[pa.RecordBatch]:
    consumer.assign([place])
    pending: list[Message] = []
    size = 0
    received = time.monotonic()
    while True:
        messages = _records(consumer, connection, 1.0)
        for message in messages:
            if message.offset() < end:
                pending.append(message)
                size += len(message.value() or b"")
        # The last offsets may be transaction markers, which a consumer never receives: check the position too.
        position = consumer.position([place])[0].offset
        finished = position >= end or bool(messages and messages[-1].offset() >= end - 1)
        if pending and (finished or len(pending) >= BATCH_ROWS or size >= _BATCH_BYTES):
            yield batch_of(pending)
            pending, size = [], 0
        if finished:
            return
        received = time.monotonic() if messages else received
        if time.monotonic() - received > silence_seconds:
            raise UnreachableError(
                f"no record arrived for {silence_seconds:.0f} s at offset {position} of {end}",
                where=f"{place.topic}-{place.partition}",
                fix=f"check that a broker leads it: kafka-topics.sh --bootstrap-server "
                f"{connection.cluster.bootstrap_servers} --describe --topic {place.topic} --unavailable-partitions",
                exit_code=ExitCode.CONNECTION,
            )


def consume(consumer: Consumer, connection: Connection, seconds: float) -> list[Message]:
    """The records available now, and the ends of partitions as messages with an error; an outage is no error.

    Waits only for the first one, while the consumer's own ``consume`` would wait for all.

    Raises:
        GroupReplayError: the brokers refuse the reader.
    """
    messages: list[Message] = []
    first = consumer.poll(seconds)
    for message in [] if first is None else [first, *consumer.consume(10_000, timeout=0)]:
        error = message.error()
        if error is not None and ends_reading(error):
            raise connection.explain(KafkaException(error), f"{message.topic()}-{message.partition()}")
        if error is None or error.code() == KafkaError._PARTITION_EOF:
            messages.append(message)
    return messages


def _records(consumer: Consumer, connection: Connection, seconds: float) -> list[Message]:
    return [message for message in consume(consumer, connection, seconds) if message.error() is None]


def batch_of(messages: Sequence[Message]) -> pa.RecordBatch:
    """Messages of one partition, at least one, as rows of ``ROW_SCHEMA``."""
    stamps = [message.timestamp() for message in messages]
    columns = [
        [message.offset() for message in messages],
        [at for _, at in stamps],
        # librdkafka numbers timestamp types from 1, Kafka from 0.
        [kind - 1 for kind, _ in stamps],
        [message.key() for message in messages],
        [message.value() for message in messages],
    ]
    topic, partition, *fields = ROW_SCHEMA
    # Calls of the client are what reading costs, and these two are the same for all.
    place = ((messages[0].topic(), topic), (messages[0].partition(), partition))
    arrays = [pa.repeat(pa.scalar(value, field.type), len(messages)) for value, field in place]
    arrays += [pa.array(values, field.type) for values, field in zip(columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ROW_SCHEMA)
