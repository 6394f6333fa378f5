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
#: Of one call of the client: so many fit into the processor's cache until they are columns. With 10 000, a record took
#: 1.7 times as long.
_MOST_MESSAGES: Final = 500


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


def starts_within(
    places: Mapping[int, int], firsts: Mapping[int, int], ends: Mapping[int, int]
) -> dict[int, int]:
    """Where to go on: a topic that was created again, or whose begin was deleted, goes on at its first offset."""
    return {
        number: at if firsts[number] <= (at := places.get(number, -1)) <= end else firsts[number]
        for number, end in ends.items()
    }


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
    pieces: list[pa.RecordBatch] = []
    rows = size = 0
    received = time.monotonic()
    while True:
        messages = _records(consumer, connection, 1.0)
        last = messages[-1].offset() if messages else -1
        if last >= end:
            messages = [message for message in messages if message.offset() < end]
        if messages:
            # At once, while the processor has them in its cache: later it takes twice as long.
            pieces.append(batch_of(messages))
            rows, size = rows + len(messages), size + pieces[-1].nbytes
        # The last offsets may be transaction markers, which a consumer never receives: check the position too.
        position = consumer.position([place])[0].offset
        finished = position >= end or last >= end - 1
        if pieces and (finished or rows >= BATCH_ROWS or size >= _BATCH_BYTES):
            yield _joined(pieces)
            pieces, rows, size = [], 0, 0
        if finished:
            return
        received = time.monotonic() if last >= 0 else received
        if time.monotonic() - received > silence_seconds:
            raise UnreachableError(
                f"no record arrived for {silence_seconds:.0f} s at offset {position} of {end}",
                where=f"{place.topic}-{place.partition}",
                fix=f"check that a broker leads it: kafka-topics.sh --bootstrap-server "
                f"{connection.cluster.bootstrap_servers} --describe --topic {place.topic} --unavailable-partitions",
                exit_code=ExitCode.CONNECTION,
            )


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    (joined,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined


def consume(consumer: Consumer, connection: Connection, seconds: float) -> list[Message]:
    """The records available now, and the ends of partitions as messages with an error; an outage is no error.

    Waits only for the first one, while the consumer's own ``consume`` would wait for all.

    Raises:
        GroupReplayError: the brokers refuse the reader.
    """
    first = consumer.poll(seconds)
    arrived = [] if first is None else [first, *consumer.consume(_MOST_MESSAGES, timeout=0)]
    if not any(message.error() for message in arrived):
        return arrived
    messages: list[Message] = []
    for message in arrived:
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
    # The client's calls, and lists of objects, are what reading costs: none where all rows have the same.
    kinds, times_ms = zip(*map(Message.timestamp, messages), strict=True)
    columns = [
        messages[0].topic(),
        messages[0].partition(),
        list(map(Message.offset, messages)),
        times_ms,
        # librdkafka numbers timestamp types from 1, Kafka from 0.
        kinds[0] - 1 if len(set(kinds)) == 1 else [kind - 1 for kind in kinds],
        list(map(Message.key, messages)),
        list(map(Message.value, messages)),
    ]
    arrays = [
        pa.array(values, field.type)
        if isinstance(values, list | tuple)
        else pa.repeat(pa.scalar(values, field.type), len(messages))
        for values, field in zip(columns, ROW_SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=ROW_SCHEMA)
