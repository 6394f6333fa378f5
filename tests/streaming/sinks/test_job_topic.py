"""The topic of the job as another run reads it, on a real broker.

What the driver reads back of its topics, on a broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import msgspec
import pytest

from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.contract.messages import (
    CONDITIONS_KEY,
    JOB_KEY,
    OWNER_KEY,
    STATE_KEY,
    JobDocument,
    JobStateMessage,
    OwnerClaim,
)
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.sinks import job_topic
from groupreplay.streaming.sinks.job_topic import JobTopic, OwnTopics, RunMessage, ends_of
from support.job.jobs import topic_names
from support.kafka.clients import make_topics, produce
from support.kafka.waiting import wait_until

pytestmark = pytest.mark.broker


def document(run_id: str, at_ms: int = 0) -> tuple[bytes, bytes]:
    """A document of a run as a message."""
    return JOB_KEY, msgspec.json.encode(JobDocument(run_id=run_id, heartbeat_ms=at_ms, trigger_seconds=10))


CLAIM = OWNER_KEY, msgspec.json.encode(OwnerClaim(run_id="b"))


@pytest.fixture
def topic(broker: EmbeddedBroker, unique: Callable[[str], str]) -> str:
    """A topic of one test."""
    name = unique("job")
    make_topics(broker.bootstrap_servers, {name: 1})
    return name


@pytest.fixture
def connection(broker: EmbeddedBroker) -> Connection:
    """The broker."""
    return Connection(Cluster(bootstrap_servers=broker.bootstrap_servers))


@pytest.fixture
def write(broker: EmbeddedBroker, topic: str) -> Callable[..., None]:
    """Writes messages into the topic."""
    return lambda *messages: produce(broker.bootstrap_servers, topic, messages)


def documents(reader: JobTopic) -> list[JobDocument]:
    """The last messages, all of which are documents."""
    return [message for message in reader.last_messages().values() if isinstance(message, JobDocument)]


def awaited(reader: JobTopic, count: int) -> Iterator[RunMessage]:
    """As many new messages."""
    found: list[RunMessage] = []
    wait_until(lambda: found.extend(reader.new_messages(0.1)) or len(found) >= count)
    return iter(found)


def test_documents_before_and_messages_after(
    connection: Connection, topic: str, write: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last document of each run, the last writer last, however far back; then only what is new."""
    monkeypatch.setattr(job_topic, "_TAIL_MESSAGES", 2)
    write(
        document("a", 1), document("b", 2), document("a", 3), *[(CONDITIONS_KEY, b"{}")] * 30, (JOB_KEY, b"{")
    )
    with closing(JobTopic(connection, topic, 1)) as reader:
        assert [(one.run_id, one.heartbeat_ms) for one in documents(reader)] == [("b", 2), ("a", 3)]
        write(CLAIM, (CONDITIONS_KEY, b"{}"), (None, b"x"), document("b", 5))
        assert [(type(one), one.run_id) for one in awaited(reader, 2)] == [
            (OwnerClaim, "b"),
            (JobDocument, "b"),
        ]
        assert reader.new_messages(0) == []


def test_runs_before_a_claim_do_not_matter(
    connection: Connection, topic: str, write: Callable[..., None]
) -> None:
    """They end when they read it. A run that wrote after it may not have read it yet."""
    write(document("a", 1), document("c", 1), document("a", 2), CLAIM)
    with closing(JobTopic(connection, topic, 1)) as reader:
        assert reader.last_messages() == {"b": OwnerClaim(run_id="b")}
    write(document("b", 5), document("a", 6))
    with closing(JobTopic(connection, topic, 1)) as reader:
        assert [(one.run_id, one.heartbeat_ms) for one in documents(reader)] == [("b", 5), ("a", 6)]


def test_ever_more_of_the_last_messages(
    connection: Connection, topic: str, write: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it was the whole topic; not what is written meanwhile."""
    monkeypatch.setattr(job_topic, "_TAIL_MESSAGES", 2)
    write(document("a", 1), CLAIM, *[document("b", number) for number in range(20)])
    with closing(JobTopic(connection, topic, 1)) as reader:
        write(document("c", 9))
        tails = [[message.run_id for message in messages] for messages in reader.tails()]
    assert tails == [["b"] * 2, ["b"] * 20, ["a", "b", *["b"] * 20]]


def test_an_empty_topic(connection: Connection, topic: str) -> None:
    """Nobody has written."""
    with closing(JobTopic(connection, topic, 1)) as reader:
        assert (reader.last_messages(), reader.new_messages(0)) == ({}, [])


def test_a_reader_that_fails_goes_on_where_it_was(
    connection: Connection, topic: str, write: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal is no error for the run; nothing is read twice or left out."""
    monkeypatch.setattr(job_topic, "_REOPEN_SECONDS", 0.0)
    with closing(JobTopic(connection, topic, 1)) as reader:
        write(document("a", 1))
        assert len(list(awaited(reader, 1))) == 1
        plain = job_topic.consume

        def failing(*_: object) -> None:
            raise GroupReplayError("refused")

        monkeypatch.setattr(job_topic, "consume", failing)
        with pytest.raises(GroupReplayError, match="refused"):
            reader.new_messages(0.1)
        write(document("a", 2))
        assert not reader.is_read_to_end()
        monkeypatch.setattr(job_topic, "consume", plain)
        assert [one.heartbeat_ms for one in awaited(reader, 1) if isinstance(one, JobDocument)] == [2]
        assert reader.is_read_to_end()


def test_a_topic_that_is_created_again(
    broker: EmbeddedBroker, connection: Connection, topic: str, write: Callable[..., None]
) -> None:
    """The reader begins at its start: everything in it is new."""
    write(*[document("a")] * 3)
    with closing(JobTopic(connection, topic, 1)) as reader:
        admin = make_topics(broker.bootstrap_servers, {topic: 1})
        admin.delete_topics([topic])[topic].result(30)
        wait_until(lambda: topic not in admin.list_topics(timeout=10).topics)
        make_topics(broker.bootstrap_servers, {topic: 1})
        assert ends_of(connection, topic, 1) == {0: 0}
        write(CLAIM)
        assert [one.run_id for one in awaited(reader, 1)] == ["b"]


def test_a_topic_that_does_not_exist(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its leaders are waited for a while, then it is an error."""
    monkeypatch.setattr(job_topic, "_LEADER_SECONDS", 0.0)
    with pytest.raises(GroupReplayError):
        ends_of(connection, "nowhere", 1)


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
        found.extend((message.topic, message.offset, message.value) for message in topics.new_messages())
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
    monkeypatch.setattr(job_topic, "_TAIL_MESSAGES", 2)
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
