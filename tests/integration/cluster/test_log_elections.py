"""The marks of a busy offsets topic, followed as the job does it: no change of a healthy cluster looks like a loss."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import ConfigResource

from groupreplay.codecs.kafka_terms import partition_for
from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.contract.log import LogMarks
from groupreplay.streaming.kafka import log_watch as module
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.log_check import cut_partitions, last_records
from groupreplay.streaming.kafka.log_watch import LogLostError, LogWatch, is_same_topic, lost_log
from groupreplay.streaming.run.identity import Identity
from support.job.jobs import read_topic
from support.kafka.clients import commit_surely, make_topics, new_consumer, open_transaction, set_configs
from support.kafka.lost_records import TWO_REPLICAS, elect_uncleanly, restart_in_turn
from support.kafka.three_brokers import ThreeBrokers, three_brokers
from support.kafka.waiting import in_background, wait_until

pytestmark = [pytest.mark.broker, pytest.mark.long]

PARTITIONS = 3
LOG = TopicPartition(OFFSETS_TOPIC, 0)
#: One of the groups of that partition.
GROUP = next(group for group in map("g{}".format, itertools.count()) if partition_for(group, PARTITIONS) == 0)


class Follower:
    """The marks of a running job, with real answers of the brokers, and without its query."""

    def __init__(self, server: str) -> None:
        self.checks = 0
        self.stored: list[LogMarks] = []
        self._source = Connection(Cluster(bootstrap_servers=server))
        topic = self._source.identify(OFFSETS_TOPIC)
        self._identity = Identity(
            cluster_id=topic.cluster_id,
            era=topic.era,
            partitions=topic.partitions,
            probes="p",
            first_start_ms=0,
        )
        self.watch = LogWatch(
            era=topic.era,
            is_same=lambda: is_same_topic(self._identity, self._source),
            lost=self._lost,
            last_records=lambda ends: last_records(self._source, OFFSETS_TOPIC, ends),
            load=lambda: None,
            store=self.stored.append,
        )

    def follow(self, done: threading.Event) -> None:
        """As the job's two threads, ten times a second; brokers may be away."""
        while not done.wait(0.1):
            with suppress(GroupReplayError):
                self.watch.note(self._source.log_ends(OFFSETS_TOPIC, PARTITIONS))
                self.watch.tick()

    def _lost(self) -> LogLostError | None:
        self.checks += 1
        return lost_log({}, self._identity, self._source, marks=self.watch.marks())


def commits(server: str, done: threading.Event) -> None:
    """Few groups commit the same partitions over and over, outside and inside transactions, of which half abort."""
    for number in itertools.count():
        if done.is_set():
            return
        group, place = f"g{number % 7}", TopicPartition("orders", 0, number)
        with suppress(KafkaException), closing(new_consumer(server, group)) as consumer:
            consumer.commit(offsets=[place], asynchronous=False)
            if number % 5 == 0:
                # A transaction that nobody ends holds back the end of committed records.
                producer = open_transaction(
                    server, f"t{number % 3}", consumer, place, **{"transaction.timeout.ms": 5_000}
                )
                end = producer.abort_transaction if number % 10 else producer.commit_transaction
                end(30)


@contextmanager
def busy_cluster() -> Iterator[ThreeBrokers]:
    """Groups that commit all the time, and a cleaner that never rests."""
    with three_brokers(PARTITIONS, log_cleaner_backoff_ms=100, **TWO_REPLICAS) as cluster:
        server = cluster.bootstrap_servers
        make_topics(server, {"orders": 1})
        values = {"min.cleanable.dirty.ratio": 0.01, "segment.ms": 500, "delete.retention.ms": 0}
        set_configs(server, ConfigResource.Type.TOPIC, [OFFSETS_TOPIC], values)
        with in_background(lambda done: commits(server, done)):
            yield cluster


def test_healthy_elections_and_an_unclean_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaders change, are killed and come back while the cleaner takes what was seen; then one lacks records."""
    monkeypatch.setattr(module, "_RECORD_SECONDS", 0.5)
    with busy_cluster() as cluster:
        server = cluster.bootstrap_servers
        follower = Follower(server)
        with in_background(follower.follow):
            wait_until(lambda: len(follower.watch.marks().partitions) == PARTITIONS)
            wait_until(lambda: all(one.record for one in follower.watch.marks().partitions.values()))
            first = follower.watch.marks()
            restart_in_turn(cluster, LOG, lambda: None)
            killed = cluster.leader(LOG.topic, LOG.partition)
            assert killed is not None
            replicas = cluster.in_sync(LOG)
            cluster.nodes[killed].kill()
            cluster.await_leader(LOG.topic, LOG.partition, lambda node: node not in (None, killed))
            cluster.start(killed)
            wait_until(lambda: cluster.in_sync(LOG) == replicas)
            checks = follower.checks
            assert checks >= 3
            assert follower.watch.found() is None
            now = Connection(Cluster(bootstrap_servers=server)).log_ends(OFFSETS_TOPIC, PARTITIONS)
            # The first marks hold as well, although what they have seen was compacted away.
            assert (
                cut_partitions(
                    Connection(Cluster(bootstrap_servers=server)), OFFSETS_TOPIC, first.partitions, now
                )
                == set()
            )
            assert len(read_topic(server, OFFSETS_TOPIC)) < sum(one.offset for one in now.values()) / 2

            def write_and_see() -> None:
                end = follower.watch.marks().partitions[0].end.offset
                for number in range(5):
                    commit_surely(server, GROUP, TopicPartition("orders", 0, number))
                wait_until(lambda: follower.watch.marks().partitions[0].end.offset >= end + 5)

            elect_uncleanly(cluster, LOG, write_lost=write_and_see, write_more=lambda: None)
            wait_until(lambda: follower.watch.found() is not None)
            found = follower.watch.found()
            assert isinstance(found, LogLostError)
            assert found.gap.reason == "truncated"
            assert 0 in {one.partition for one in found.gap.partitions}
