"""What the driver reads back of its topics, on a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import pytest

from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.contract.job_document import JOB_KEY, STATE_KEY, JobStateMessage
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.sinks import own_topics
from groupreplay.streaming.sinks.own_topics import OwnTopics
from support.job.jobs import topic_names
from support.kafka.clients import make_topics, produce
from support.kafka.waiting import wait_until

pytestmark = [pytest.mark.broker]


@contextmanager
def reader(server: str, topics: TopicNames) -> Iterator[OwnTopics]:
    """A reader of both topics, closed afterwards."""
    made = OwnTopics(Connection(Cluster(bootstrap_servers=server)), topics)
    try:
        yield made
    finally:
        made.close()


def next_values(topics: OwnTopics, count: int) -> list[tuple[str, int, bytes | None]]:
    """The topic, offset and value of so many new messages."""
    found: list[tuple[str, int, bytes | None]] = []

    def read() -> bool:
        found.extend((one.topic, one.offset, one.value) for one in topics.new_messages())
        return len(found) >= count

    wait_until(read)
    return found


def state(job_id: str) -> bytes:
    """A message with the state of a job."""
    return msgspec.json.encode(JobStateMessage(job_id=job_id, state=b"\x03"))


@pytest.fixture
def topics(broker: EmbeddedBroker, unique: Callable[[str], str]) -> TopicNames:
    """Two new topics, each with one partition."""
    names = topic_names(unique("own"))
    make_topics(broker.bootstrap_servers, {names.probes: 1, names.job: 1})
    return names


def test_the_last_state_and_what_follows(
    broker: EmbeddedBroker, topics: TopicNames, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However far back it is; then the messages behind the place, and new ones of both topics."""
    monkeypatch.setattr(own_topics, "_TAIL_MESSAGES", 2)
    server = broker.bootstrap_servers
    produce(server, topics.probes, [(b"\0", b"p0"), (b"\0", b"p1"), (b"\0", b"p2")])
    with reader(server, topics) as own:
        assert own.last_state() is None
        produce(server, topics.job, [(STATE_KEY, state("first")), (STATE_KEY, state("last"))])
        produce(server, topics.job, [(JOB_KEY, b"{}")] * 30)
        assert own.last_state() == JobStateMessage(job_id="last", state=b"\x03")
        own.begin({0: 1}, 0)
        assert next_values(own, 1) == [(topics.probes, 2, b"p2")]
        produce(server, topics.job, [(STATE_KEY, b"s")])
        assert next_values(own, 1) == [(topics.job, 32, b"s")]
        # Begun anew: that of the other topic goes on.
        own.begin({0: 0}, 0)
        produce(server, topics.job, [(STATE_KEY, b"t")])
        assert sorted(next_values(own, 3)) == sorted(
            [(topics.probes, 1, b"p1"), (topics.probes, 2, b"p2"), (topics.job, 33, b"t")]
        )


def test_where_it_begins_without_a_place(broker: EmbeddedBroker, topics: TopicNames) -> None:
    """With what is newer than the time; at the end if nothing is, else at the beginning of the topic."""
    server = broker.bootstrap_servers
    produce(server, topics.probes, [(b"\0", b"p0"), (b"\0", b"p1")])
    with reader(server, topics) as own:
        own.last_state()
        own.begin({}, 0)
        assert next_values(own, 2) == [(topics.probes, 0, b"p0"), (topics.probes, 1, b"p1")]
        own.begin({}, now_ms() + 3_600_000)
        produce(server, topics.probes, [(b"\0", b"p2")])
        assert next_values(own, 1) == [(topics.probes, 2, b"p2")]
        own.begin({0: 7}, 0)
        assert [offset for _, offset, _ in next_values(own, 3)] == [0, 1, 2]
