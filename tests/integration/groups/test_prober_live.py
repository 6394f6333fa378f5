"""The prober on a real broker: rebalances from start to end, open transactions, brokers that do not respond."""

from __future__ import annotations

import csv
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from groupreplay.codecs.kafka_terms import partition_for
from groupreplay.streaming.base.clock import BrokerClock, now_ms
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.contract.probe_messages import (
    GroupAnswer,
    GroupSettingsAnswer,
    RoundSummary,
    decode_message,
    encode_message,
)
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.group_admin import GroupAdmin
from groupreplay.streaming.kafka.output_topics import ensure_topics
from groupreplay.streaming.kafka.publisher import Publisher
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.prober.prober import Prober, ProbeRound
from groupreplay.streaming.prober.service import ProbeTarget, open_prober
from support.job.captures import invoke
from support.job.jobs import read_topic
from support.job.watched import Watch
from support.kafka.clients import make_topics, new_consumer, open_transaction
from support.kafka.live_groups import CLASSIC, World
from support.kafka.waiting import wait_until

pytestmark = pytest.mark.broker


@contextmanager
def joined(broker: EmbeddedBroker, group: str, topic: str, name: str) -> Iterator[Consumer]:
    """A subscribed consumer, which is closed at the end."""
    # Not polling must not end its membership during the test.
    patient = {"session_timeout_ms": 30_000, "max_poll_interval_ms": 600_000}
    with closing(new_consumer(broker.bootstrap_servers, group, topic, client_id=name, **patient)) as member:
        yield member


def is_assigned(member: Consumer) -> bool:
    """Polls once; returns whether partitions are assigned."""
    member.poll(0.05)
    return bool(member.assignment())


def test_a_blocked_rebalance_is_reported_until_it_ends(
    broker: EmbeddedBroker, unique: Callable[[str], str]
) -> None:
    """A member that stops polling while another joins: PreparingRebalance with both, then Stable, once.

    Meanwhile the prober is restarted and continues with the answers that it has written.
    """
    group, topic, probes = unique("g"), unique("t"), unique("probes")
    cluster = Cluster(bootstrap_servers=broker.bootstrap_servers)
    make_topics(broker.bootstrap_servers, {topic: 2})
    cluster_id = Connection(cluster).cluster_id()
    target = ProbeTarget(
        source=cluster, sink=cluster, topic=probes, cluster_id=cluster_id, interval_seconds=1.0
    )
    names = TopicNames(probes=probes)
    ensure_topics(Connection(cluster), names, only=("probes",))
    publisher = Publisher(cluster)

    def prober() -> Prober:
        return open_prober(target, BrokerClock())

    def mine(asking: Prober) -> list[GroupAnswer]:
        taken = asking.take()
        publisher.publish(probes, map(encode_message, taken.messages))
        asking.remember(taken)
        assert (taken.summary.rights, set(taken.summary.brokers.values())) == ("ok", {None})
        return [one for one in taken.answers if one.group_id == group]

    asking = prober()
    with ExitStack() as stack:
        blocker = stack.enter_context(joined(broker, group, topic, "blocker"))
        wait_until(lambda: is_assigned(blocker))
        assert mine(asking) == []
        joiner = stack.enter_context(joined(broker, group, topic, "joiner"))

        def is_blocked() -> bool:
            joiner.poll(0.05)
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
        wait_until(lambda: all([is_assigned(blocker), is_assigned(joiner)]))
        after = prober()
        (ended,) = mine(after)
        assert (ended.state, len(ended.members)) == ("Stable", 2)
        assert ended.taken_ms > seen.taken_ms
        assert mine(after) == mine(prober()) == []
    written = [decode_message(one.key, one.value) for one in read_topic(broker.bootstrap_servers, probes)]
    assert all(isinstance(one, GroupAnswer | GroupSettingsAnswer | RoundSummary) for one in written)
    assert [one.state for one in written if isinstance(one, GroupAnswer) and one.group_id == group][-2:] == [
        "PreparingRebalance",
        "Stable",
    ]


def test_an_open_transaction_holds_its_partition(
    broker: EmbeddedBroker, unique: Callable[[str], str]
) -> None:
    """While a transaction with committed offsets is open, the last stable offset stays below the high watermark."""
    group, topic = unique("g"), unique("t")
    make_topics(broker.bootstrap_servers, {topic: 1})
    live_groups = GroupAdmin(Connection(Cluster(bootstrap_servers=broker.bootstrap_servers)))
    partitions = live_groups.layout().partitions
    mine = partition_for(group, partitions)

    def held() -> int:
        high, stable = live_groups.ends(partitions)[mine]
        return high - stable

    with joined(broker, group, topic, "a") as member:
        wait_until(lambda: is_assigned(member))
        place = TopicPartition(topic, 0, 5)
        producer = open_transaction(broker.bootstrap_servers, unique("x"), member, place)
        assert held() > 0
        producer.abort_transaction(30)
        wait_until(lambda: held() == 0)


def test_a_broker_that_does_not_respond() -> None:
    """The round reports that the broker did not respond, and nothing about its partitions."""
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
    """A table has its heading, JSON is a list, and no topic is created."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    before = set(admin.list_topics(timeout=30).topics)
    words = ("probe", "--bootstrap-server", broker.bootstrap_servers, "--once", "-o")
    heading = ["GROUP", "BROKER", "STATE", "#MEMBERS", "MEMBERS"]
    assert invoke(*words, "table").stdout.splitlines()[0].split() == heading
    assert next(csv.reader(invoke(*words, "csv").stdout.splitlines())) == heading
    assert isinstance(json.loads(invoke(*words, "json").stdout), list)
    assert set(admin.list_topics(timeout=30).topics) == before


@pytest.mark.long
def test_lost_and_failed_rounds_do_not_split_a_rebalance(
    broker: EmbeddedBroker, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    """One round is not written, then the broker does not respond for three rounds: the events show one rebalance.

    The prober writes to another broker, and reports there that the watched broker is silent.
    """
    probes, group, topic = unique("probes"), "blocked", "orders"
    sink = Cluster(bootstrap_servers=broker.bootstrap_servers)
    ensure_topics(Connection(sink), TopicNames(probes=probes), only=("probes",))
    publisher = Publisher(sink)
    with EmbeddedBroker(offsets_partitions=2) as watched, World(watched.bootstrap_servers, tmp_path) as world:
        source = Connection(Cluster(bootstrap_servers=watched.bootstrap_servers))
        live_groups = GroupAdmin(source, request_seconds=3.0)
        prober = Prober(live_groups, cluster_id=source.cluster_id(), clock=now_ms)

        def take_round(*, lost: bool = False) -> ProbeRound:
            """A round; unless it is lost, it is written, and the prober remembers its answers."""
            taken = prober.take()
            if not lost:
                publisher.publish(probes, map(encode_message, taken.messages))
                prober.remember(taken)
            return taken

        def seen(state: str, blocker: Consumer | None = None) -> Callable[[], bool]:
            def turn() -> bool:
                joiner.poll(0)
                if blocker is not None:
                    blocker.poll(0)
                return [one.state for one in take_round().answers] == [state]

            return turn

        world.create(topic, 2)
        blocker = world.join(group, "blocker", topic, **CLASSIC)
        wait_until(lambda: blocker.poll(0.1) or blocker.assignment())
        assert take_round().answers == ()
        joiner = world.join(group, "joiner", topic, **CLASSIC)
        wait_until(seen("PreparingRebalance"))
        assert [one.state for one in take_round(lost=True).answers] == ["PreparingRebalance"]
        assert watched.pid is not None
        os.kill(watched.pid, signal.SIGSTOP)
        try:
            silent = [take_round() for _ in range(3)]
        finally:
            os.kill(watched.pid, signal.SIGCONT)
        assert [one.answers for one in silent] == [()] * 3
        assert all(one.summary.brokers[1] is not None for one in silent)
        wait_until(seen("PreparingRebalance"))
        wait_until(seen("Stable", blocker))
        rules = ("--rule", "rebalance.slow.threshold_ms=1500", "--rule", "rebalance.stuck.threshold_ms=2000")
        events = Watch(watched.bootstrap_servers, broker.bootstrap_servers, probes).replay(*rules)
    assert events.alarms(group) == [
        ("rebalance.slow", "WARN", "firing"),
        ("rebalance.stuck", "ERROR", "firing"),
        ("rebalance.slow", "WARN", "resolved"),
        ("rebalance.stuck", "ERROR", "resolved"),
    ]
    (started,) = events.of(group, "rebalance.started")
    completed = events.of(group, "rebalance.completed")[-1]
    fired = events.of(group, "rebalance.stuck")[0]
    assert started["rebalance_id"] == completed["rebalance_id"] == fired["rebalance_id"]
    assert fired["since_ms"] < silent[0].summary.taken_ms
    assert [(one["what"], one["brokers"], one["status"]) for one in events.of(None, "job.blind")] == [
        ("brokers_silent", [1], "firing"),
        ("brokers_silent", [1], "resolved"),
    ]
