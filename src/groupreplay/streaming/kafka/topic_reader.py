"""Reads records of the offsets topic and of the job's topics from a live cluster, as Arrow batches.

Nothing here joins a consumer group.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from groupreplay.codecs.kafka_terms import partition_for
from groupreplay.state import OFFSETS_TOPIC
from groupreplay.state.plausible_times import LATEST_MS
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError, UnreachableError
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.retention import Retention

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, TopicPartition

    from groupreplay.streaming.kafka.clients import Connection, TopicIdentity

#: The columns of Spark's Kafka source; ``timestamp`` in milliseconds since 1970, ``timestampType`` as Kafka
#: numbers it (0 set by the client, 1 set by the broker).
ROW_SCHEMA: Final = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("timestampType", pa.int32(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
    ]
)

BATCH_ROWS: Final = 50_000
_BATCH_BYTES: Final = 32 * 1024 * 1024
_SILENCE_SECONDS: Final = 60.0


class ProgressCallback(Protocol):
    """Receives the progress of a long read."""

    def __call__(self, done: int, total: int | None) -> None:
        """``done`` of ``total`` rows, both absolute; ``total`` None: unknown."""


def no_progress(done: int, total: int | None) -> None:
    """For callers that show nothing."""


class LogExtent:
    """Counts the records that pass by; ``first_ms`` and ``last_ms`` are None without a record whose time can be."""

    def __init__(self) -> None:
        self.records = 0
        self.first_ms: int | None = None
        self.last_ms: int | None = None

    def reading(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches."""
        for batch in batches:
            self._add(batch)
            yield batch

    def _add(self, batch: pa.RecordBatch) -> None:
        self.records += batch.num_rows
        bounds = plausible_bounds(batch.column("timestamp"))
        if bounds is not None:
            self.first_ms = bounds[0] if self.first_ms is None else min(self.first_ms, bounds[0])
            self.last_ms = bounds[1] if self.last_ms is None else max(self.last_ms, bounds[1])


def plausible_bounds(times_ms: pa.Array | pa.ChunkedArray) -> tuple[int, int] | None:
    """The earliest and the latest of the times that can be (``plausible_times``); None without any."""
    bounds = pc.min_max(times_ms).as_py()
    if bounds["max"] is not None and (bounds["min"] < 0 or bounds["max"] > LATEST_MS):
        can_be = pc.and_(pc.greater_equal(times_ms, 0), pc.less_equal(times_ms, LATEST_MS))
        bounds = pc.min_max(times_ms.filter(can_be)).as_py()
    return None if bounds["max"] is None else (bounds["min"], bounds["max"])


@dataclass(frozen=True, slots=True)
class Rows:
    """Records of one incarnation of a cluster's offsets topic.

    ``batches`` have the columns of ``ROW_SCHEMA`` and can be read once: one partition each, partitions ascending,
    offsets ascending inside a partition. ``probes`` are batches of the same columns from the probes topic, if any;
    read them first. For a live cluster ``connection``, ``identity`` and ``ends`` (the first offset of each partition
    that was not read) are set, and ``starts``, the log start offsets. A capture has ``topic_names`` (id to name) as
    they were when it was written, and, if its file says so, the brokers' ``retention`` and the ``partitions`` of the
    topic; ``complete_ms`` is the time up to which the log is complete, by the clock of the machine that read it.
    ``extent`` counts the records as the batches are read, once ``counted``.
    """

    cluster_id: str
    era: str
    batches: Iterator[pa.RecordBatch]
    connection: Connection | None = None
    identity: TopicIdentity | None = None
    ends: Mapping[int, int] = field(default_factory=dict)
    starts: Mapping[int, int] = field(default_factory=dict)
    probes: Iterable[pa.RecordBatch] = ()
    probes_topic: str = "group-probes"
    topic_names: Mapping[str, str] = field(default_factory=dict)
    retention: Retention | None = None
    partitions: int | None = None
    complete_ms: int | None = None
    extent: LogExtent = field(default_factory=LogExtent)


def counted(rows: Rows) -> Rows:
    """The same rows, which count themselves in their ``extent`` while they are read."""
    return replace(rows, batches=rows.extent.reading(rows.batches))


def read_topic(
    cluster: Cluster,
    partitions: Sequence[int] | None = None,
    *,
    groups: Collection[str] | None = None,
    progress: ProgressCallback = no_progress,
) -> Rows:
    """The offsets topic up to its current end, partition by partition; of ``groups`` only their partitions.

    Raises:
        GroupReplayError: the cluster cannot be reached or the topic cannot be read; also while iterating.
    """
    from groupreplay.streaming.kafka.clients import Connection

    opened_ms = now_ms()
    connection = Connection(cluster)
    identity = connection.identify(OFFSETS_TOPIC)
    wanted = chosen_partitions(partitions, identity.partitions)
    if groups is not None:
        held = {partition_for(group, identity.partitions) for group in groups}
        wanted = [number for number in wanted if number in held]
    ends = connection.end_offsets(OFFSETS_TOPIC, identity.partitions)
    starts = connection.first_offsets(OFFSETS_TOPIC, identity.partitions)
    spans = [(number, starts[number], ends[number]) for number in wanted]
    batches = _read_spans(connection, OFFSETS_TOPIC, spans, progress)
    return Rows(
        identity.cluster_id,
        identity.era,
        batches,
        connection,
        identity,
        ends,
        starts,
        partitions=identity.partitions,
        complete_ms=opened_ms,
    )


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
    return _read_spans(connection, topic, spans, no_progress, silence_seconds)


def keys_and_values(batch: pa.RecordBatch) -> Iterator[tuple[bytes | None, bytes | None]]:
    """The messages of a batch."""
    return zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True)


def chosen_partitions(asked: Sequence[int] | None, count: int) -> list[int]:
    """The partitions to read, in order.

    Raises:
        GroupReplayError: one of them does not exist.
    """
    wanted = sorted(set(asked)) if asked else list(range(count))
    if wanted and wanted[-1] >= count:
        raise GroupReplayError(
            f"there is no partition {wanted[-1]}",
            where=OFFSETS_TOPIC,
            fix=f"partitions are numbered 0 to {count - 1}",
            exit_code=ExitCode.USAGE,
        )
    return wanted


def follow_topic(
    connection: Connection, topic: str, starts: Mapping[int, int], until: Callable[[], bool]
) -> Iterator[pa.RecordBatch]:
    """Records from the given offsets on, one partition per batch, until ``until()`` is true."""
    from confluent_kafka import TopicPartition

    with closing(connection.consumer()) as consumer:
        consumer.assign([TopicPartition(topic, number, at) for number, at in starts.items()])
        while not until():
            by_partition: dict[int, list[Message]] = {}
            for message in _records(consumer, connection, 0.2):
                by_partition.setdefault(message.partition(), []).append(message)
            for number in sorted(by_partition):
                yield _batch(by_partition[number])


def _read_spans(
    connection: Connection,
    topic: str,
    spans: Sequence[tuple[int, int, int]],
    progress: ProgressCallback,
    silence_seconds: float = _SILENCE_SECONDS,
) -> Iterator[pa.RecordBatch]:
    from confluent_kafka import TopicPartition

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
            yield _batch(pending)
            pending, size = [], 0
        if finished:
            return
        received = time.monotonic() if messages else received
        if time.monotonic() - received > silence_seconds:
            raise UnreachableError(
                f"no record arrived for {silence_seconds:.0f} s at offset {position} of {end}",
                where=f"{place.topic}-{place.partition}",
                fix="check that the partition has a leader (groupreplay coordinator GROUP)",
                exit_code=ExitCode.CONNECTION,
            )


def consume(consumer: Consumer, connection: Connection, seconds: float) -> list[Message]:
    """The records available now, and the ends of partitions as messages with an error; an outage is no error.

    Waits only for the first one, while the consumer's own ``consume`` would wait for all.

    Raises:
        GroupReplayError: the brokers refuse the reader.
    """
    from confluent_kafka import KafkaError, KafkaException

    from groupreplay.streaming.kafka.client_errors import ends_reading

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
    return [one for one in consume(consumer, connection, seconds) if one.error() is None]


def _batch(messages: Sequence[Message]) -> pa.RecordBatch:
    stamps = [message.timestamp() for message in messages]
    columns = [
        [message.topic() for message in messages],
        [message.partition() for message in messages],
        [message.offset() for message in messages],
        [at for _, at in stamps],
        # librdkafka numbers timestamp types from 1, Kafka from 0.
        [kind - 1 for kind, _ in stamps],
        [message.key() for message in messages],
        [message.value() for message in messages],
    ]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, ROW_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ROW_SCHEMA)
