"""A group's tombstone behind an offset: what real coordinators make of it, and that describe says both."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from groupreplay.codecs import GroupMetadataKey, encode_key
from groupreplay.streaming.local.broker import EmbeddedBroker
from support.broker_releases.raw_static_members import committed_topics
from support.job.captures import invoke
from support.kafka.clients import commit_once, make_topics
from support.kafka.waiting import wait_until

pytestmark = pytest.mark.broker

GROUP = "deleted"


def listed(server: str) -> list[str]:
    """The groups of the broker, by a client that has not met it before."""
    admin = AdminClient({"bootstrap.servers": server, "log_level": 0})
    return [one.group_id for one in admin.list_consumer_groups().result(30).valid]


@pytest.mark.parametrize(
    ("release", "groups", "offsets", "later"),
    [("4.4.0", [], set(), {"t", "u"}), ("3.9.1", [GROUP], {"t"}, {"t", "u"})],
)
def test_what_a_coordinator_makes_of_the_offset(
    tmp_path: Path, release: str, groups: list[str], offsets: set[str], later: set[str]
) -> None:
    """The one in Java knows neither until the next commit, which brings the offset back; in Scala it loads both."""
    with EmbeddedBroker(release, offsets_partitions=1) as broker:
        server = broker.bootstrap_servers
        make_topics(server, {"t": 1, "u": 1})
        commit_once(server, GROUP, TopicPartition("t", 0, 5))
        # A broker lets only this client write to the topic.
        producer = Producer({"bootstrap.servers": server, "client.id": "__admin_client", "log_level": 0})
        producer.produce("__consumer_offsets", None, encode_key(GroupMetadataKey(group=GROUP)), 0)
        assert producer.flush(60) == 0
        broker.restart()
        wait_until(lambda: committed_topics(server, GROUP) == offsets)
        assert listed(server) == groups

        capture = tmp_path / "a.parquet"
        assert invoke("capture", "--bootstrap-server", server, "-o", capture).exit_code == 0
        shown = invoke("describe", "--from-file", capture, "--group", GROUP)
        assert (shown.exit_code, "t" in shown.stdout.split()) == (0, True), shown.output
        assert "was deleted with 1 offset left" in shown.stderr
        commit_once(server, GROUP, TopicPartition("u", 0, 6))
        assert committed_topics(server, GROUP) == later
