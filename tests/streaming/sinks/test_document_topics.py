"""What has to be read to compare the topics of documents with the state, on a real broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
import pytest

from groupreplay.codecs import decode_key
from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.contract.probe_messages import DocumentRequest, encode_message
from groupreplay.streaming.kafka.publisher import MessageTooLargeError, Publisher
from groupreplay.streaming.sinks.document_topics import (
    UNKNOWN_TOPICS,
    DocumentTopics,
    KafkaDocuments,
    SyncRecord,
)
from support.histories.raw_records import commit, generation
from support.job.jobs import read_topic, topic_names, write_log
from support.kafka.clients import make_topics, produce
from support.kafka.waiting import wait_until

if TYPE_CHECKING:
    from groupreplay.streaming.local.broker import EmbeddedBroker


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
    write_log(
        broker.bootstrap_servers,
        [
            (0, *generation(classic, 0), 1_000),
            (1, *commit(plain), 1_000),
            (0, *commit(plain, partition=3), 1_000),
        ],
        8,
    )
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
    record = SyncRecord(
        topics=DocumentTopics(states="s", states_id="1", job="j", job_id="2"),
        unchecked={0: 5},
        unchecked_job=True,
    )
    text = (
        b'{"topics":{"states":"s","states_id":"1","job":"j","job_id":"2"},'
        b'"unchecked":{"0":5},"unchecked_job":true}'
    )
    assert msgspec.json.encode(record) == text
    assert msgspec.json.decode(text, type=SyncRecord) == record
    assert UNKNOWN_TOPICS not in (record.topics, DocumentTopics(states="", states_id="1", job="", job_id="1"))


def test_a_request_that_is_too_large_is_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The id of the group makes it so: sent again every few seconds, it would be refused for ever."""

    def refuse(*_: object) -> None:
        raise MessageTooLargeError("1 messages of up to 60000 bytes are refused as too large")

    monkeypatch.setattr(Publisher, "publish", refuse)
    cluster = Cluster(bootstrap_servers="h:1")
    KafkaDocuments(cluster, cluster, TopicNames()).send([])
    assert "very long ids are not compared: 1 messages" in caplog.text
