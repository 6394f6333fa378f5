"""Messages of the driver have arrived, or it is known that they have not."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    KafkaError,
    KafkaException,
)

from groupreplay.streaming.base.broker_clock import AppendedMessage
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.publisher import MessageTooLargeError, Publisher, publish_smaller

CLUSTER = Cluster(bootstrap_servers="h:1")


class Producer:
    """Delivers when it is flushed, unless the cluster is away: that is its only fault a test needs."""

    def __init__(self) -> None:
        self.waiting: list[tuple[bytes, Callable[..., None]]] = []
        self.delivered: list[bytes] = []
        self.refuses: bytes | None = None
        #: The largest batch that is taken, and the largest message that is sent at all.
        self.most_bytes, self.most_sent = 1_000, 2_000
        self.is_away = False
        self.stamped = (TIMESTAMP_CREATE_TIME, 7)

    def produce(self, topic: str, *, value: bytes, on_delivery: Callable[..., None], **rest: Any) -> None:
        assert (topic, rest) == ("t", {"key": b"k", "headers": [("h", b"1")]})
        if len(value) > self.most_sent:
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        self.waiting.append((value, on_delivery))

    def flush(self, seconds: float) -> None:
        assert seconds > 0
        size = sum(len(value) for value, _ in self.waiting)
        while self.waiting and not self.is_away:
            value, on_delivery = self.waiting.pop(0)
            error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED) if value == self.refuses else None
            if size > self.most_bytes:
                error = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
            else:
                self.delivered.append(value)
            on_delivery(error, SimpleNamespace(timestamp=lambda: self.stamped))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Producer]:
    """The producers that were opened."""
    producers: list[Producer] = []
    monkeypatch.setattr(Connection, "producer", lambda _: producers.append(Producer()) or producers[-1])
    return producers


def publish(publisher: Publisher, *values: bytes) -> list[AppendedMessage]:
    """Writes these values."""
    return publisher.publish("t", [(b"k", value) for value in values], [("h", b"1")])


def test_in_their_order_by_one_producer(made: list[Producer]) -> None:
    """Many messages, one connection."""
    publisher = Publisher(CLUSTER)
    assert made == []
    publish(publisher, b"1", b"2")
    publish(publisher, b"3")
    publish(publisher)
    assert [one.delivered for one in made] == [[b"1", b"2", b"3"]]


def test_what_came_too_late_is_not_sent_later(made: list[Producer]) -> None:
    """It would arrive behind newer messages: the producer is given up, and the next one begins anew."""
    publisher = Publisher(CLUSTER)
    publish(publisher, b"1")
    made[0].is_away = True
    with pytest.raises(GroupReplayError, match=r"not delivered in time \(t\)") as caught:
        publish(publisher, b"2")
    assert caught.value.exit_code is ExitCode.CONNECTION
    publish(publisher, b"3")
    assert [one.delivered for one in made] == [[b"1"], [b"3"]]


def test_the_time_of_the_broker_comes_back(made: list[Producer]) -> None:
    """With the moments between which it stamped the message; the time of a client says nothing about the broker."""
    publisher = Publisher(CLUSTER)
    assert publish(publisher, b"1") == []
    made[0].stamped = (TIMESTAMP_LOG_APPEND_TIME, 9)
    before = time.monotonic()
    one, other = publish(publisher, b"2", b"3")
    assert (one.append_ms, other.append_ms) == (9, 9)
    assert before <= one.sent <= one.acknowledged <= other.acknowledged <= time.monotonic()


def test_a_refusal_is_an_error(made: list[Producer]) -> None:
    """Also when other messages were taken."""
    publisher = Publisher(CLUSTER)
    publish(publisher, b"1")
    made[0].refuses = b"2"
    with pytest.raises(KafkaException):
        publish(publisher, b"2", b"3")


def test_a_batch_that_is_too_large_is_sent_in_parts(made: list[Producer]) -> None:
    """A broker counts the whole batch: alone each message fits."""
    publish(Publisher(CLUSTER), b"1" * 600, b"2" * 600)
    assert made[0].delivered == [b"1" * 600, b"2" * 600]


@pytest.mark.parametrize("size", [1_001, 2_001])
def test_one_that_is_too_large_does_not_hold_back_the_others(made: list[Producer], size: int) -> None:
    """Whether the broker refuses it, or librdkafka before; the error names topic, size and setting."""
    with pytest.raises(
        MessageTooLargeError, match=rf"1 messages of up to {size + 1} bytes .*\(t\).*max.message"
    ):
        publish(Publisher(CLUSTER), b"1", b"x" * size, b"2")
    assert made[0].delivered == [b"1", b"2"]


def test_a_smaller_one_in_its_place() -> None:
    """The limit is halved until the broker takes the message."""
    taken: list[bytes] = []

    def take(_: bytes, value: bytes) -> None:
        if len(value) > 100:
            raise MessageTooLargeError("too large")
        taken.append(value)

    publish_smaller(take, lambda limit: (b"k", b"x" * min(900, limit or 900)))
    assert taken == [b"x" * 56]
    with pytest.raises(MessageTooLargeError):
        publish_smaller(take, lambda limit: (b"k", b"x" * max(150, limit or 900)))
