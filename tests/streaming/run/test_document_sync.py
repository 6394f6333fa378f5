"""When the driver asks groups for their documents, and for which."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
import pytest

from groupreplay.codecs import decode_key
from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.contract.probe_messages import (
    DocumentRequest,
    JobDocumentsRequest,
    ProbeMessage,
    encode_message,
)
from groupreplay.streaming.kafka.publisher import MessageTooLargeError, Publisher
from groupreplay.streaming.run import document_sync
from groupreplay.streaming.run.document_sync import (
    UNKNOWN_TOPICS,
    DocumentSync,
    DocumentTopics,
    KafkaDocuments,
    SyncedRun,
    SyncRecord,
)
from support.histories.raw_records import commit, generation
from support.job.jobs import read_topic, topic_names, write_log
from support.kafka.clients import make_topics, produce
from support.kafka.waiting import wait_until

if TYPE_CHECKING:
    from groupreplay.streaming.local.broker import EmbeddedBroker

TOPICS = DocumentTopics(states="group-states", states_id="s1", job="group-job", job_id="j1")
RECREATED = msgspec.structs.replace(TOPICS, states_id="s2")
RUN = SyncedRun(cluster_id="c", run_id="r", partitions=50, probes="group-probes")
JOB = JobDocumentsRequest(cluster_id="c", run_id="r", partitions=50)


def held(group_id: str) -> DocumentRequest:
    """A request for a group whose document is in the topic."""
    return DocumentRequest(cluster_id="c", run_id="r", group_id=group_id, in_topic=True)


def missing(group_id: str) -> DocumentRequest:
    """A request for a group without one."""
    return msgspec.structs.replace(held(group_id), in_topic=False)


@dataclass
class Topics:
    """The topics, the checkpoint and the query, by hand; every request is served in the next batch."""

    now: DocumentTopics = TOPICS
    messages: list[tuple[str, str | None]] = field(default_factory=list)
    job_end: int = 1
    in_log: list[set[str]] = field(default_factory=list)
    stored: list[SyncRecord] = field(default_factory=list)
    empty: bool = True
    announced_ms: int | None = 1
    sent: list[ProbeMessage] = field(default_factory=list)
    read: int = 0
    waits: list[float] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    ended: bool = False

    def topics(self) -> DocumentTopics:
        """The topics as they are now."""
        return self.now

    def ends(self, topic: str) -> dict[int, int]:
        """The topic of documents has two partitions, the first of them is empty."""
        ends = {"group-states": {0: 0, 1: len(self.messages)}, "group-job": {0: self.job_end}}
        return ends.get(topic, {0: len(self.sent)})

    def documents(self) -> Iterator[tuple[int, int, bytes, bytes | None]]:
        """All of them, by cluster."""
        for offset, (group, cluster) in enumerate(self.messages):
            value = None if cluster is None else msgspec.json.encode({"cluster_id": cluster, "x": [1]})
            yield 1, offset, group.encode(), value

    def groups_in_log(self) -> Iterator[set[str]]:
        """Partition by partition."""
        yield from self.in_log

    def send(self, messages: Sequence[ProbeMessage]) -> None:
        """Written, and not read yet."""
        self.sent += messages

    def read_of(self, topic: str) -> dict[int, int]:
        """How far the query is."""
        assert topic == "group-probes"
        return {0: self.read}

    def wait(self, seconds: float) -> bool:
        """A batch ends."""
        self.waits.append(seconds)
        self.read = len(self.sent) if seconds else self.read
        return self.ended

    def sync(self, run: SyncedRun = RUN) -> DocumentSync:
        """A start of the job."""
        return DocumentSync(
            run=run,
            source=self,
            progress=self,
            load=lambda: self.stored[-1] if self.stored else None,
            store=self.stored.append,
            is_empty=lambda: self.empty,
            wait=self.wait,
            show=self.lines.append,
        )

    def started(self, run: SyncedRun = RUN) -> DocumentSync:
        """A start, and what follows in the topic before the first check."""
        sync = self.sync(run)
        sync.prepare()
        return sync


def test_a_first_start_on_new_topics() -> None:
    """There is nothing to correct, and nothing is asked."""
    topics = Topics()
    topics.started().check()
    assert topics.sent == []
    assert topics.stored == [SyncRecord(topics=TOPICS, unchecked={0: 0, 1: 0}), SyncRecord(topics=TOPICS)]


def test_a_single_run_can_ask_whether_all_is_done() -> None:
    """Not before the first check: with requests not before they were served, without any at once."""
    topics = Topics(messages=[("gone", "c")])
    sync = topics.started()
    assert not sync.is_done
    topics.ended = True
    sync.check()
    assert not sync.is_done
    topics.ended = False
    sync.check()
    assert sync.is_done
    again = topics.started()
    assert not again.is_done
    again.check()
    assert again.is_done


def test_a_new_checkpoint_on_old_topics() -> None:
    """Only groups whose documents this job has not written again: all others are known to it."""
    topics = Topics(messages=[("gone", "c"), ("known", "c"), ("deleted", "c"), ("deleted", None)], job_end=9)
    sync = topics.started()
    topics.messages += [("known", "c"), ("new", "c")]
    sync.check()
    assert topics.sent == [JOB, held("gone")]
    assert topics.stored == [
        SyncRecord(topics=TOPICS, unchecked={0: 0, 1: 4}, unchecked_job=True),
        SyncRecord(topics=TOPICS),
    ]
    sync.check()
    assert len(topics.sent) == 2


def test_a_killed_job_asks_again() -> None:
    """With the ends from before its state began, although its checkpoint is not empty any more."""
    topics = Topics(messages=[("gone", "c")])
    topics.started()
    topics.messages += [("known", "c")]
    topics.empty = False
    topics.started().check()
    assert topics.sent == [held("gone")]


def test_documents_of_another_cluster_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    """They are counted in a log line; what is no document is not asked about either."""
    topics = Topics(messages=[("theirs", "other"), ("ours", "c"), ("both", "c"), ("both", "other")])
    topics.started().check()
    assert topics.sent == [held("ours")]
    assert [record.getMessage() for record in caplog.records] == [
        "the topic of documents holds 2 messages of cluster other, left as they are"
    ]


def test_nothing_is_asked_before_the_log_was_read() -> None:
    """A group that seems to be unknown may merely be unread."""
    topics = Topics(messages=[("gone", "c")], announced_ms=None, ended=True)
    topics.started().check()
    assert (topics.sent, topics.waits, len(topics.stored)) == ([], [0.5], 1)


def test_the_record_is_written_when_the_requests_were_served() -> None:
    """A job that ends before asks again at its next start."""
    topics = Topics(messages=[("gone", "c")])
    sync = topics.started()
    topics.ended = True
    sync.check()
    assert (topics.sent, len(topics.stored)) == ([held("gone")], 1)


def test_a_full_disk_does_not_repeat_the_requests() -> None:
    """The record is written later; a hundred thousand groups are not asked again every five seconds."""
    topics = Topics(messages=[("gone", "c")], in_log=[])
    sync, failures = topics.started(), [OSError("no space left"), OSError("no space left")]

    def store(record: SyncRecord) -> None:
        if failures:
            raise failures.pop()
        topics.stored.append(record)

    sync.store = store
    for _ in range(2):
        with pytest.raises(OSError, match="no space"):
            sync.check()
    sync.check()
    assert topics.sent == [held("gone")]
    assert topics.stored[-1] == SyncRecord(topics=TOPICS)


@pytest.mark.parametrize(
    "now", [RECREATED, msgspec.structs.replace(TOPICS, states="other-states")], ids=["recreated", "renamed"]
)
def test_another_topic_gets_every_document(now: DocumentTopics) -> None:
    """All groups of the log, and those that only the topic knows; documents that it holds may be old."""
    known = SyncRecord(topics=TOPICS)
    topics = Topics(
        now=now,
        messages=[("gone", "c"), ("a", "c")],
        in_log=[{"a", "b"}, {"b", "d"}],
        stored=[known],
        empty=False,
    )
    topics.started().check()
    assert topics.sent == [held("a"), held("gone"), missing("b"), missing("d")]
    assert topics.stored == [known, SyncRecord(topics=now)]
    assert topics.lines == [f"asking all groups for their documents, because {now.states} may hold others"]


def test_a_topic_that_is_created_again_while_the_job_runs() -> None:
    """The next check notices."""
    topics = Topics(in_log=[{"a"}])
    sync = topics.started()
    sync.check()
    topics.now = RECREATED
    sync.check()
    sync.check()
    assert topics.sent == [missing("a")]


def test_another_topic_of_the_job() -> None:
    """Only conditions and counts are missing there."""
    topics = Topics(
        now=msgspec.structs.replace(TOPICS, job_id="j2"), stored=[SyncRecord(topics=TOPICS)], empty=False
    )
    topics.started().check()
    assert topics.sent == [JOB]


def test_a_checkpoint_of_an_earlier_release() -> None:
    """Nobody knows what its topics hold: everything is written once."""
    topics = Topics(messages=[("gone", "c")], in_log=[{"a"}], empty=False)
    topics.started().check()
    assert topics.sent == [JOB, held("gone"), missing("a")]


def test_after_another_job_has_written() -> None:
    """Its documents may lie over those of this job, also if this one is killed before it has asked."""
    topics = Topics(messages=[("a", "c")], stored=[SyncRecord(topics=TOPICS)], empty=False)
    topics.sync(SyncedRun(**{**_fields(RUN), "is_only_writer": False})).prepare()
    assert topics.stored[-1] == SyncRecord(topics=UNKNOWN_TOPICS)
    topics.started().check()
    assert topics.sent == [JOB, held("a")]
    assert topics.stored[-1] == SyncRecord(topics=TOPICS)


def _fields(run: SyncedRun) -> dict[str, object]:
    return {name: getattr(run, name) for name in SyncedRun.__dataclass_fields__}


def test_very_many_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are sent in parts, and a stop is served in between."""
    monkeypatch.setattr(document_sync, "_CHUNK", 10)
    topics = Topics(now=RECREATED, in_log=[{f"g{number:03d}"} for number in range(100)], empty=False)
    topics.started().check()
    assert len(topics.sent) == 101
    topics.ended, topics.now = True, TOPICS
    topics.messages = [(f"g{number}", "c") for number in range(25)]
    topics.started().check()
    assert len(topics.sent) == 101 + 10


def test_the_thread_survives_whatever_happens(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning for each outage; the check is done when the topics can be asked again, and when it is asked for."""
    monkeypatch.setattr(document_sync, "_RETRY_SECONDS", 0.01)
    topics = Topics(messages=[("gone", "c")])
    failures = [GroupReplayError("away"), OSError("away")]
    plain = topics.topics

    def failing() -> DocumentTopics:
        if failures:
            raise failures.pop()
        return plain()

    sync = topics.started()
    served = sync.wait
    thread = sync.background()
    # Each wait serves what was asked for.
    sync.wait = served
    topics.topics = failing  # type: ignore[method-assign]
    thread.start(at_once=True)
    wait_until(lambda: topics.stored[-1] == SyncRecord(topics=TOPICS))
    topics.now = msgspec.structs.replace(TOPICS, job_id="j2")
    thread.wake()
    wait_until(lambda: topics.sent == [held("gone"), JOB])
    thread.close()
    assert caplog.messages == ["the topic of documents cannot be checked for now: away"]


def opened(broker: EmbeddedBroker, names: TopicNames) -> KafkaDocuments:
    """The topics of a job."""
    cluster = Cluster(bootstrap_servers=broker.bootstrap_servers)
    return KafkaDocuments(cluster, cluster, names)


@pytest.mark.broker
def test_a_topic_that_is_created_again_is_another_one(
    broker: EmbeddedBroker, unique: Callable[[str], str]
) -> None:
    """Its id differs, that of the other topic does not; a missing topic is an error and is not created."""
    names = topic_names(unique("sync"))
    admin = make_topics(broker.bootstrap_servers, {names.states: 2, names.job: 1})
    before = opened(broker, names).topics()
    assert before == opened(broker, names).topics()
    admin.delete_topics([names.states])[names.states].result(30)
    wait_until(lambda: names.states not in admin.list_topics(timeout=10).topics)
    with pytest.raises(GroupReplayError) as caught:
        opened(broker, names).topics()
    assert caught.value.exit_code is ExitCode.DATA
    make_topics(broker.bootstrap_servers, {names.states: 2})
    after = opened(broker, names).topics()
    assert (after.states, after.job, after.job_id) == (names.states, names.job, before.job_id)
    assert after.states_id != before.states_id


@pytest.mark.broker
def test_documents_requests_and_groups(broker: EmbeddedBroker, unique: Callable[[str], str]) -> None:
    """Every message of the topic with its place; requests go to the topic of probes; all groups of the log."""
    names = topic_names(unique("sync"))
    make_topics(broker.bootstrap_servers, {names.states: 2, names.probes: 1})
    produce(broker.bootstrap_servers, names.states, [(b"a", b"1"), (b"b", b"2")], 1)
    documents = opened(broker, names)
    assert documents.ends(names.states) == {0: 0, 1: 2}
    assert list(documents.documents()) == [(1, 0, b"a", b"1"), (1, 1, b"b", b"2")]
    request = DocumentRequest(cluster_id="c", run_id="r", group_id="größe", in_topic=True)
    documents.send([request])
    assert [one[:2] for one in read_topic(broker.bootstrap_servers, names.probes)] == [
        encode_message(request)
    ]
    classic, plain = unique("größe"), unique("plain")
    committed = [(partition, *commit(plain, partition=partition), 1_000) for partition in (0, 1)]
    write_log(broker.bootstrap_servers, [(0, *generation(classic, 0), 1_000), *committed], 8)
    found = set[str]().union(*documents.groups_in_log())
    in_log = {
        getattr(decode_key(one.key), "group", None)
        for one in read_topic(broker.bootstrap_servers, OFFSETS_TOPIC)
        if one.key is not None
    }
    assert {classic, plain} <= found
    assert found == in_log - {None}


def test_the_record_as_json() -> None:
    """It outlives the release that wrote it."""
    topics = DocumentTopics(states="s", states_id="1", job="j", job_id="2")
    record = SyncRecord(topics=topics, unchecked={0: 5}, unchecked_job=True)
    named = b'{"states":"s","states_id":"1","job":"j","job_id":"2"}'
    text = b'{"topics":' + named + b',"unchecked":{"0":5},"unchecked_job":true}'
    assert msgspec.json.encode(record) == text
    assert msgspec.json.decode(text, type=SyncRecord) == record
    assert UNKNOWN_TOPICS not in (record.topics, DocumentTopics(states="", states_id="1", job="", job_id="1"))


def test_a_request_that_is_too_large_is_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The id of the group makes it so: sent again every few seconds, it would be refused for ever."""

    def refuse(*_: object) -> None:
        raise MessageTooLargeError("1 message of up to 60000 bytes refused as too large")

    monkeypatch.setattr(Publisher, "publish", refuse)
    cluster = Cluster(bootstrap_servers="h:1")
    KafkaDocuments(cluster, cluster, TopicNames()).send([])
    assert "very long ids are not compared: 1 message" in caplog.text
