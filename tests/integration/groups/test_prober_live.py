"""The prober against a real broker: what it sees, that it misses no end, and what hides a partition."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from groupreplay.state.kafka_terms import partition_for
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.contract.probe_messages import (
    GroupAnswer,
    RoundSummary,
    decode_message,
    encode_message,
)
from groupreplay.streaming.demo.scenario import create_topics
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.group_admin import GroupAdmin
from groupreplay.streaming.kafka.output_topics import ensure_topics
from groupreplay.streaming.kafka.publisher import Publisher
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.prober.prober import Prober
from groupreplay.streaming.prober.service import open_prober
from support.job.captures import invoke
from support.job.jobs import read_topic
from support.kafka.waiting import wait_until

pytestmark = [pytest.mark.broker]


def now_ms() -> int:
    """The clock."""
    return time.time_ns() // 1_000_000


class Member:
    """A consumer that polls only when it is told to."""

    def __init__(self, broker: EmbeddedBroker, group: str, topic: str, name: str) -> None:
        self.consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap_servers,
                "group.id": group,
                "client.id": name,
                "session.timeout.ms": 30_000,
                # It may stop polling for as long as the test likes.
                "max.poll.interval.ms": 600_000,
            }
        )
        self.consumer.subscribe([topic])

    def poll(self) -> bool:
        """Polls once; whether it has partitions."""
        self.consumer.poll(0.05)
        return bool(self.consumer.assignment())


@contextmanager
def joined(broker: EmbeddedBroker, group: str, topic: str, name: str) -> Iterator[Member]:
    """A member that has subscribed, closed in the end."""
    member = Member(broker, group, topic, name)
    try:
        yield member
    finally:
        member.consumer.close()


def test_a_blocked_rebalance_is_seen_until_it_ends(
    broker: EmbeddedBroker, unique: Callable[[str], str]
) -> None:
    """A member that stops polling while another joins: PreparingRebalance with both, then Stable, once.

    In between the prober is started anew: it goes on with what it has written down.
    """
    group, topic, probes = unique("g"), unique("t"), unique("probes")
    cluster = Cluster(bootstrap_servers=broker.bootstrap_servers)
    create_topics(AdminClient({"bootstrap.servers": broker.bootstrap_servers}), {topic: 2})
    cluster_id = Connection(cluster).cluster_id()
    names = TopicNames(probes=probes)
    ensure_topics(Connection(cluster), names, only=("probes",))
    publisher = Publisher(cluster)

    def prober() -> Prober:
        return open_prober(
            cluster,
            cluster,
            probes,
            cluster_id=cluster_id,
            interval_seconds=1.0,
            job_id=None,
            clock=now_ms,
        )

    def mine(asking: Prober) -> list[GroupAnswer]:
        taken = asking.take()
        publisher.publish(probes, map(encode_message, taken.messages))
        asking.remember(taken)
        assert (taken.summary.rights, set(taken.summary.brokers.values())) == ("ok", {None})
        return [one for one in taken.answers if one.group_id == group]

    asking = prober()
    with ExitStack() as stack:
        blocker = stack.enter_context(joined(broker, group, topic, "blocker"))
        wait_until(blocker.poll)
        assert mine(asking) == []
        joiner = stack.enter_context(joined(broker, group, topic, "joiner"))

        def is_blocked() -> bool:
            joiner.poll()
            return bool(mine(asking))

        wait_until(is_blocked, pause=0.2)
        (seen,) = mine(prober())
        assert (seen.state, seen.cluster_id, seen.truncated) == ("PreparingRebalance", cluster_id, False)
        assert {(one.client_id, one.client_host, one.instance_id) for one in seen.members} == {
            ("blocker", "/127.0.0.1", None),
            ("joiner", "/127.0.0.1", None),
        }
        once = invoke("probe", "--bootstrap-server", broker.bootstrap_servers, "--once", "-o", "jsonl")
        printed = [json.loads(line) for line in once.stdout.splitlines()]
        assert [one["state"] for one in printed if one["group_id"] == group] == ["PreparingRebalance"]
        wait_until(lambda: all([blocker.poll(), joiner.poll()]))
        after = prober()
        (ended,) = mine(after)
        assert (ended.state, len(ended.members)) == ("Stable", 2)
        assert ended.taken_ms > seen.taken_ms
        assert mine(after) == mine(prober()) == []
    written = [decode_message(one.key, one.value) for one in read_topic(broker.bootstrap_servers, probes)]
    assert all(isinstance(one, GroupAnswer | RoundSummary) for one in written)
    assert [one.state for one in written if isinstance(one, GroupAnswer) and one.group_id == group][-2:] == [
        "PreparingRebalance",
        "Stable",
    ]


def test_an_open_transaction_holds_its_partition(
    broker: EmbeddedBroker, unique: Callable[[str], str]
) -> None:
    """Offsets committed in a transaction that does not end: the stable offset stays below the high watermark."""
    group, topic = unique("g"), unique("t")
    create_topics(AdminClient({"bootstrap.servers": broker.bootstrap_servers}), {topic: 1})
    questions = GroupAdmin(Connection(Cluster(bootstrap_servers=broker.bootstrap_servers)))
    partitions = questions.layout().partitions
    mine = partition_for(group, partitions)

    def held() -> int:
        high, stable = questions.ends(partitions)[mine]
        return high - stable

    with joined(broker, group, topic, "a") as member:
        wait_until(member.poll)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": unique("x")})
        producer.init_transactions(30)
        producer.begin_transaction()
        place = TopicPartition(topic, 0, 5)
        producer.send_offsets_to_transaction([place], member.consumer.consumer_group_metadata(), 30)
        assert held() > 0
        producer.abort_transaction(30)
        wait_until(lambda: held() == 0)


def test_a_broker_that_is_gone() -> None:
    """Nothing is claimed about it: the round says that it did not answer."""
    with EmbeddedBroker(offsets_partitions=1) as broker:
        connection = Connection(Cluster(bootstrap_servers=broker.bootstrap_servers))
        asking = Prober(GroupAdmin(connection, request_seconds=2.0), cluster_id="c", clock=now_ms)
        assert asking.take().summary.brokers == {1: None}
        broker.kill()
        silent = asking.take().summary
        assert list(silent.brokers) == [1]
        assert silent.brokers[1] is not None
        assert (silent.rights, silent.partitions) == ("unknown", {})


def test_an_empty_round_in_every_format(broker: EmbeddedBroker) -> None:
    """A table has its heading, JSON is a list, and nothing is written anywhere."""
    before = set(AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=30).topics)
    words = ("probe", "--bootstrap-server", broker.bootstrap_servers, "--once", "-o")
    heading = ["GROUP", "BROKER", "STATE", "#MEMBERS", "MEMBERS"]
    assert invoke(*words, "table").stdout.splitlines()[0].split() == heading
    assert next(csv.reader(invoke(*words, "csv").stdout.splitlines())) == heading
    assert isinstance(json.loads(invoke(*words, "json").stdout), list)
    after = set(AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=30).topics)
    assert after == before
