"""Reading a partition to a fixed end: every record once, whatever the client hands over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.contract.log import ROW_SCHEMA
from groupreplay.streaming.kafka import topic_reader as rows_module
from groupreplay.streaming.kafka.topic_reader import follow_topic


def message(place: int, at: int, fault: KafkaError | None = None) -> Message:
    """A message as librdkafka gives it; every other one is a tombstone."""
    value = b"value" if at % 2 else None
    head = {"topic": OFFSETS_TOPIC, "partition": place, "offset": at, "timestamp": (1, 1_000 + at)}
    return Message(**head, key=b"key", value=value, error=fault)


class FakeConsumer:
    """Hands out deliveries one after the other; ``position`` is where the client stands when all are delivered."""

    def __init__(self, deliveries: Sequence[Sequence[Message]], position: int) -> None:
        self.deliveries = list(deliveries)
        self.waiting: list[Message] = []
        self.final_position = position
        self.assigned: list[tuple[int, int]] = []
        self.closed = False

    def assign(self, places: Sequence[TopicPartition]) -> None:
        self.assigned += [(place.partition, place.offset) for place in places]

    def poll(self, seconds: float) -> Message | None:
        self.waiting = list(self.deliveries.pop(0)) if self.deliveries else []
        return self.waiting.pop(0) if self.waiting else None

    def consume(self, count: int, timeout: float) -> list[Message]:
        assert timeout == 0
        waiting, self.waiting = self.waiting, []
        return waiting

    def position(self, places: Sequence[TopicPartition]) -> list[TopicPartition]:
        offset = self.final_position if not self.deliveries else 0
        return [TopicPartition(OFFSETS_TOPIC, places[0].partition, offset)]

    def close(self) -> None:
        self.closed = True


class FakeConnection:
    """A cluster with one consumer."""

    cluster = Cluster(bootstrap_servers="h:1")

    def __init__(self, deliveries: Sequence[Sequence[Message]], position: int = 0) -> None:
        self.reader = FakeConsumer(deliveries, position)

    def consumer(self) -> FakeConsumer:
        return self.reader

    def explain(self, error: KafkaException, where: str) -> GroupReplayError:
        return GroupReplayError(error.args[0].str(), where=where)


def offsets(connection: Any, start: int, end: int, **settings: float) -> list[int]:
    """The offsets that are read of partition 4."""
    spans = [(4, start, end)]
    batches = list(
        rows_module.read_spans(connection, OFFSETS_TOPIC, spans, rows_module.no_progress, **settings)
    )
    assert all(batch.schema == ROW_SCHEMA for batch in batches)
    return [offset for batch in batches for offset in batch["offset"].to_pylist()]


def messages(*at: int) -> list[Message]:
    """Messages of partition 4."""
    return [message(4, offset) for offset in at]


def test_up_to_the_end_and_no_further() -> None:
    """What is written after the end was asked for is left out; the consumer is closed."""
    connection = FakeConnection([messages(2, 3), messages(5, 6, 7, 8)])
    assert offsets(connection, 2, 7) == [2, 3, 5, 6]
    assert connection.reader.assigned == [(4, 2)]
    assert connection.reader.closed


def test_transaction_markers_at_the_end() -> None:
    """The last offsets may be markers, which no consumer is given: the position tells that all was read."""
    assert offsets(FakeConnection([messages(2, 3), []], position=7), 2, 7) == [2, 3]
    assert offsets(FakeConnection([[]], position=7), 2, 7) == []


def test_end_of_partition_is_no_error() -> None:
    """The client says when it has come to an end; that is no failure and no record."""
    end = message(4, 4, KafkaError(KafkaError._PARTITION_EOF))
    assert offsets(FakeConnection([[*messages(2), end], messages(4)]), 2, 5) == [2, 4]


def test_failures_are_raised() -> None:
    """An error that will not pass by itself ends the reading."""
    fault = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "no")
    with pytest.raises(GroupReplayError, match=r"no \(__consumer_offsets-4\)"):
        offsets(FakeConnection([[message(4, 0, fault)]]), 0, 5)


def test_silence_ends() -> None:
    """A partition that gives nothing any more is reported, not waited for for ever."""
    with pytest.raises(GroupReplayError, match="no record arrived for") as caught:
        offsets(FakeConnection([[], []], position=3), 0, 5, silence_seconds=-1.0)
    assert caught.value.exit_code is ExitCode.CONNECTION


def test_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row has the columns of Spark's Kafka source, with Kafka's number for who set the time."""
    (batch,) = rows_module.read_spans(
        FakeConnection([messages(2, 3)]),  # type: ignore[arg-type]
        OFFSETS_TOPIC,
        [(4, 2, 4)],
        rows_module.no_progress,
    )
    common = {"topic": OFFSETS_TOPIC, "partition": 4, "timestampType": 0, "key": b"key"}
    assert batch.to_pylist() == [
        {**common, "offset": 2, "timestamp": 1_002, "value": None},
        {**common, "offset": 3, "timestamp": 1_003, "value": b"value"},
    ]


def test_batches_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long partition comes in several batches, by rows or by bytes, and progress counts offsets."""
    for limit, value in (("BATCH_ROWS", 2), ("_BATCH_BYTES", 5)):
        with monkeypatch.context() as patch:
            patch.setattr(rows_module, limit, value)
            seen: list[tuple[int, int | None]] = []
            connection = FakeConnection([messages(0, 1), messages(2, 3), messages(4)])
            spans = [(4, 0, 5)]
            batches = rows_module.read_spans(
                connection,  # type: ignore[arg-type]
                OFFSETS_TOPIC,
                spans,
                lambda done, total, seen=seen: seen.append((done, total)),  # type: ignore[misc]
            )
            assert [batch["offset"].to_pylist() for batch in batches] == [[0, 1], [2, 3], [4]]
            assert seen == [(2, 5), (4, 5), (5, 5), (5, 5)]


def test_following() -> None:
    """What arrives is given partition by partition, each in its order, until it is told to stop."""
    mixed = [message(1, 7), message(0, 3), message(1, 8)]
    connection = FakeConnection([mixed, [], messages(9)])
    batches = follow_topic(
        connection,  # type: ignore[arg-type]
        OFFSETS_TOPIC,
        {0: 3, 1: 7, 4: 9},
        lambda: not connection.reader.deliveries,
    )
    found = [(batch["partition"].to_pylist(), batch["offset"].to_pylist()) for batch in batches]
    assert found == [([0], [3]), ([1, 1], [7, 8]), ([4], [9])]
    assert (connection.reader.assigned, connection.reader.closed) == ([(0, 3), (1, 7), (4, 9)], True)
