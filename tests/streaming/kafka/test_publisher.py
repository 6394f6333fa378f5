"""Messages of the driver have arrived, or it is known that they have not.

The limits of messages, by what the brokers show and by what they refuse.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    KafkaError,
    KafkaException,
)

from groupreplay.streaming.base.clock import AppendedMessage
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.kafka import publisher
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.output_topics import OutputTopic
from groupreplay.streaming.kafka.publisher import (
    MessageLimits,
    MessageTooLargeError,
    Publisher,
    publish_smaller,
)

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
    return publisher.publish_all("t", [(b"k", value, [("h", b"1")]) for value in values])


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
        MessageTooLargeError, match=rf"1 messages of up to {size + 3} bytes .*\(t\).*max.message"
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


NAMES = TopicNames()


def topic(kind: str, size: int | None) -> OutputTopic:
    """A topic whose settings this login may see, or may not."""
    settings = None if size is None else {"max.message.bytes": str(size)}
    return OutputTopic(kind=kind, name=getattr(NAMES, kind), partitions=1, replicas=1, settings=settings)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[OutputTopic]:
    """The topics as the cluster shows them; empty: it does not answer."""
    topics: list[OutputTopic] = []

    def described(*_: object) -> Sequence[OutputTopic]:
        if not topics:
            raise GroupReplayError("cannot reach the cluster")
        return topics

    monkeypatch.setattr(publisher, "describe_topics", described)
    return topics


def limits() -> MessageLimits:
    """Those of one run."""
    return MessageLimits(Cluster(bootstrap_servers="b:1"), NAMES)


def test_what_the_brokers_show_counts(shown: list[OutputTopic]) -> None:
    """Topics whose settings the login may not see have no limit; an outage changes nothing."""
    made = limits()
    assert made.read() == {}
    shown[:] = [topic("events", 20_000), topic("states", None)]
    assert made.read() == {"events": 20_000}
    shown.clear()
    assert made.read() == {"events": 20_000}


def test_a_limit_that_was_lowered(shown: list[OutputTopic]) -> None:
    """After a refusal the limits are read again."""
    shown[:] = [topic("events", 20_000)]
    made = limits()
    made.read()
    shown[:] = [topic("events", 10_000)]
    assert made.tighten(is_refused=True) == "the limits of messages have changed (events: 10000 bytes)"
    assert made.read() == {"events": 10_000}


@pytest.mark.parametrize(("size", "first"), [(None, 1 << 19), (20_000, 10_000)])
def test_an_unknown_limit_is_halved(shown: list[OutputTopic], size: int | None, first: int) -> None:
    """With each refusal, until nothing would fit any more: then there is nothing left to try."""
    shown[:] = [topic("events", size), topic("job", None)]
    made = limits()
    made.read()
    assert (
        made.tighten(is_refused=True)
        == f"a broker refuses a message as too large: all are limited to {first} bytes from now on"
    )
    assert made.read() == {"events": first, "job": first}
    tries = 0
    while made.tighten(is_refused=True) is not None:
        tries += 1
    assert (made.read(), tries < 15) == ({"events": 256, "job": 256}, True)


def test_batches_are_not_larger_than_the_smallest_limit(shown: list[OutputTopic]) -> None:
    """A broker counts the batch, and Kafka's producer splits a refused one by its own size for ever."""
    made = limits()
    assert made.batch_bytes == 16_384
    shown[:] = [topic("events", 1 << 20), topic("states", 2_500)]
    made.read()
    assert made.batch_bytes == 2_500
    assert made.tighten(is_refused=False) is None
    assert made.batch_bytes == 2_500
    shown[:] = [topic("events", 1 << 20), topic("states", 1 << 20)]
    assert (made.tighten(is_refused=False) or "").startswith("the limits of messages have changed")
    assert made.batch_bytes == 16_384


def test_messages_that_expired_are_sent_alone_if_a_limit_is_unknown(shown: list[OutputTopic]) -> None:
    """Otherwise the refusal of a batch would never be seen."""
    shown[:] = [topic("events", None)]
    made = limits()
    made.read()
    assert (made.tighten(is_refused=False), made.batch_bytes) == (None, 0)


def test_limits_that_fall_while_a_query_runs(shown: list[OutputTopic]) -> None:
    """Below the size of its batches it may split one for ever; higher and unknown ones, and an outage, say nothing."""
    made = limits()
    shown[:] = [topic("events", 1 << 20), topic("states", None)]
    made.read()
    shown[:] = [topic("events", 16_384), topic("states", None)]
    assert made.fallen() is None
    shown[:] = [topic("events", 16_383), topic("states", 9_000), topic("job", None)]
    assert made.fallen() == "the limits of messages have fallen (events: 16383 bytes, states: 9000 bytes)"
    assert made.batch_bytes == 16_384  # of the query that runs
    made.read()
    assert (made.batch_bytes, made.fallen()) == (9_000, None)
    shown.clear()
    assert made.fallen() is None


def test_messages_that_are_sent_alone_are_never_split(shown: list[OutputTopic]) -> None:
    """A limit that falls then is a refusal."""
    shown[:] = [topic("events", 1 << 20), topic("states", None)]
    made = limits()
    made.read()
    made.tighten(is_refused=False)
    shown[:] = [topic("events", 300), topic("states", None)]
    assert (made.batch_bytes, made.fallen()) == (0, None)
