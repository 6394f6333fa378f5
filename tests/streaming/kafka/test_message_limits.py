"""The limits of messages, by what the brokers show and by what they refuse."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.kafka import message_limits
from groupreplay.streaming.kafka.message_limits import MessageLimits
from groupreplay.streaming.kafka.output_topics import OutputTopic

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

    monkeypatch.setattr(message_limits, "describe_topics", described)
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
