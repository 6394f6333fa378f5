"""Tests that share a broker one after the other find it as if it were new."""

from __future__ import annotations

from contextlib import closing

import pytest
from confluent_kafka.admin import AdminClient

from groupreplay.state import OFFSETS_TOPIC
from support.job.jobs import read_topic
from support.kafka.blank_brokers import blank_broker
from support.kafka.clients import commit_once, make_topics, new_consumer
from support.kafka.waiting import wait_until

pytestmark = pytest.mark.broker


def test_the_next_user_finds_nothing_of_the_one_before() -> None:
    """No topic, group or record is left; a broker that ended, or that somebody still uses, is replaced."""
    pids = []
    for groups in (["a", "b"], ["c"]):
        with blank_broker() as broker:
            server = broker.bootstrap_servers
            admin = AdminClient({"bootstrap.servers": server, "log_level": 0})
            assert set(admin.list_topics(timeout=60).topics) == {OFFSETS_TOPIC}
            assert admin.list_consumer_groups().result(60).valid == []
            assert read_topic(server, OFFSETS_TOPIC) == []
            make_topics(server, {"orders": 1})
            for group in groups:
                commit_once(server, group)
            keys = [message.key or b"" for message in read_topic(server, OFFSETS_TOPIC)]
            assert sorted(key[4:5] for key in keys) == [group.encode() for group in groups]
            pids.append(broker.pid)
    assert pids[0] == pids[1]

    with blank_broker() as broker:
        broker.stop()
    with blank_broker() as broker:
        pids.append(broker.pid)
        make_topics(broker.bootstrap_servers, {"orders": 1})
        member = new_consumer(broker.bootstrap_servers, "g", "orders")
        wait_until(lambda: member.poll(0.1) or member.assignment())
    with closing(member), blank_broker() as broker:
        pids.append(broker.pid)
    with blank_broker(offsets_partitions=1) as broker:
        pids.append(broker.pid)
    assert len(set(pids[1:])) == 4
