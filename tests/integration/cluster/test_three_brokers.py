"""The cluster of three brokers that tests of outages use: it loses a node as a real one does, and heals."""

from __future__ import annotations

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from groupreplay.codecs import decode_key
from groupreplay.codecs.kafka_terms import partition_for
from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.clients import Connection
from support.job.jobs import read_topic
from support.kafka.clients import commit_surely
from support.kafka.three_brokers import three_brokers
from support.kafka.waiting import wait_until

pytestmark = pytest.mark.broker


def test_a_broker_is_lost_and_comes_back() -> None:
    """Another leads its partitions and coordinates its groups; afterwards all replicas are in sync again.

    Connections that have known the former leader are refused by it, and find the new one in the same call.
    """
    with three_brokers() as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic("t", 1)])["t"].result(20)
        of_group = TopicPartition(OFFSETS_TOPIC, partition_for("g", 3))
        commit_surely(cluster.bootstrap_servers, "g", TopicPartition("t", 0, 1))
        lost = cluster.leader(of_group.topic, of_group.partition)
        assert lost is not None
        places = [(OFFSETS_TOPIC, number) for number in range(3)]
        servers = Cluster(bootstrap_servers=cluster.bootstrap_servers)
        connection, watching = Connection(servers), Connection(servers)
        assert sum(connection.end_offsets(OFFSETS_TOPIC, 3).values()) == 1
        assert watching.unanswered(places, 10) is None
        cluster.nodes[lost].kill()
        cluster.await_leader(of_group.topic, of_group.partition, lambda node: node not in (None, lost))
        commit_surely(cluster.bootstrap_servers, "g", TopicPartition("t", 0, 2))
        cluster.start(lost)
        wait_until(lambda: cluster.in_sync(of_group) == [1, 2, 3])
        assert sum(connection.end_offsets(OFFSETS_TOPIC, 3).values()) == 2
        assert watching.unanswered(places, 10) is None
        written = [decode_key(one.key) for one in read_topic(cluster.bootstrap_servers, OFFSETS_TOPIC)]
        assert [getattr(key, "group", None) for key in written] == ["g", "g"]
