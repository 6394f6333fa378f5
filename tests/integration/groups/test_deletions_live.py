"""Topics that are deleted on a real broker with access control, and what the groups that consumed them are told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition

from groupreplay.coordinator.requests import Error, OffsetDelete
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.config.properties import load_properties
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.contract.probe_messages import DeletedTopicsAnswer, encode_message
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.group_admin import GroupAdmin
from groupreplay.streaming.kafka.output_topics import ensure_topics
from groupreplay.streaming.kafka.publisher import Publisher
from groupreplay.streaming.kafka.rights import Right
from groupreplay.streaming.prober.prober import Prober
from support.job.replays import named, replayed_topics
from support.kafka.clients import commit_once, make_topics
from support.kafka.secured import SecuredBroker, secured_broker
from support.kafka.waiting import wait_until
from support.model.raw_members import RawRequest

pytestmark = pytest.mark.broker

PROBES = "deletions-probes"
LOG = [
    Right("Read", "topic", "__consumer_offsets", ""),
    Right("Describe", "group", "*", ""),
    Right("Describe", "cluster", "", ""),
]


def describe(topic: str) -> Right:
    """The right to see a topic."""
    return Right("Describe", "topic", topic, "")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """One broker for the module."""
    with secured_broker(tmp_path_factory.mktemp("secured")) as broker:
        yield broker


@pytest.fixture
def watched(guarded: SecuredBroker, tmp_path_factory: pytest.TempPathFactory) -> Connection:
    """The broker with the user's login."""
    login = load_properties(guarded.properties(tmp_path_factory.mktemp("login")))
    return Connection(Cluster(bootstrap_servers=guarded.checked, properties=login.settings))


def places(topic: str) -> list[TopicPartition]:
    """Offset 5 of both partitions."""
    return [TopicPartition(topic, number, 5) for number in (0, 1)]


def delete(guarded: SecuredBroker, topic: str) -> None:
    """Deletes a topic, and waits until the broker does not know it."""
    guarded.admin.delete_topics([topic])[topic].result(30)
    wait_until(lambda: topic not in guarded.admin.list_topics(timeout=10).topics)


def test_a_deleted_topic_and_deleted_offsets(guarded: SecuredBroker, watched: Connection) -> None:
    """Both remove all offsets of a topic: the prober's answer tells one from the other, to the groups concerned."""
    server = guarded.broker.bootstrap_servers
    make_topics(server, {"del-gone": 2, "del-kept": 2})
    guarded.allow_only([*LOG, describe("del-gone"), describe("del-kept")])
    for group in ("del-a", "del-b"):
        commit_once(server, group, *places("del-gone"), *places("del-kept"))
    commit_once(server, "del-c", *places("del-kept"))
    cluster = Cluster(bootstrap_servers=server)
    ensure_topics(Connection(cluster), TopicNames(probes=PROBES), only=("probes",))
    publisher = Publisher(cluster)
    asking = Prober(GroupAdmin(watched), cluster_id=watched.cluster_id(), clock=now_ms, interval_ms=1_000)

    def round_taken() -> tuple[DeletedTopicsAnswer, ...]:
        taken = asking.take()
        publisher.publish(PROBES, map(encode_message, taken.messages))
        return taken.deletions

    assert [round_taken(), round_taken()] == [(), ()]
    request = OffsetDelete((("del-kept", 0), ("del-kept", 1)))
    assert RawRequest(server, "del-c", "raw", request).answer().error is Error.NONE
    delete(guarded, "del-gone")
    answers: list[DeletedTopicsAnswer] = []
    wait_until(lambda: (answers.extend(round_taken()), len(answers) >= 2)[1])
    assert sorted((one.group_id, one.topics) for one in answers) == [
        ("del-a", ("del-gone",)),
        ("del-b", ("del-gone",)),
    ]
    # The log goes on, past the time for which a deletion waits for an answer.
    deadline_ms = now_ms() + 4_000
    wait_until(lambda: now_ms() > deadline_ms)
    commit_once(server, "del-clock", *places("del-kept"))
    round_taken()

    events = replayed_topics(server, PROBES)
    found = {
        group: [
            (one["data"]["reason"], one["data"]["evidence"])
            for one in named(events, "offsets.deleted", group)
        ]
        for group in ("del-a", "del-b", "del-c")
    }
    assert found["del-a"] == found["del-b"] == [("topic_deleted", "probe")]
    assert found["del-c"] in ([("unknown", "inferred")], [])


def test_a_missing_right_is_no_deletion(guarded: SecuredBroker, watched: Connection) -> None:
    """A broker does not say of a topic that the login may not describe whether it exists."""
    server = guarded.broker.bootstrap_servers
    make_topics(server, {"del-hidden": 1})
    guarded.allow_only([*LOG, describe("del-hidden")])
    queries = GroupAdmin(watched)
    wait_until(lambda: "del-hidden" in (queries.topics() or ()))
    assert queries.unknown_topics(["del-hidden", "del-never"]) == frozenset()
    guarded.allow_only([*LOG, describe("del-never")])
    wait_until(lambda: "del-hidden" not in (queries.topics() or ("del-hidden",)))
    assert queries.unknown_topics(["del-hidden", "del-never"]) == {"del-never"}
    delete(guarded, "del-hidden")
    assert queries.unknown_topics(["del-hidden"]) == frozenset()
    guarded.allow_only([*LOG, describe("del-hidden")])
    wait_until(lambda: queries.unknown_topics(["del-hidden"]) == {"del-hidden"})
    assert "del-hidden" not in guarded.admin.list_topics(timeout=10).topics
