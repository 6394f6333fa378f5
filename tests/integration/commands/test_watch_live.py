"""``watch`` beside a real broker and real clients: it finds a stuck rebalance while it is stuck, and writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.replays import named
from support.job.watch_process import watching_process
from support.job.watched import producing
from support.kafka.clients import make_topics
from support.kafka.polled_members import PolledMembers

pytestmark = pytest.mark.broker

FLAGS = ("--probe-interval", "1", "--rule", "rebalance.stuck.threshold_ms=6000", "--member-events")


def names_of(servers: str) -> tuple[set[str], set[str]]:
    """The topics and the groups of a cluster."""
    admin = AdminClient({"bootstrap.servers": servers})
    groups = admin.list_consumer_groups().result(20).valid
    return set(admin.list_topics(timeout=20).topics), {group.group_id for group in groups}


def test_a_stuck_rebalance_and_a_kill(
    broker: EmbeddedBroker, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """The blocker is the first suspect while the group is stuck; a killed process goes on with the same ids.

    No topic and no group is new in the cluster, and no JVM is in the process.
    """
    group, topic, servers = unique("stuck"), unique("orders"), broker.bootstrap_servers
    make_topics(servers, {topic: 6})
    members = PolledMembers(servers, 60_000)
    with closing(members), producing(servers, {topic: 6}, 0.05):
        for name in ("a", "b", "c"):
            members.join(name, group, topic)
        members.wait_until(lambda: members.owned("a", "b", "c") == [2, 2, 2], 60)
        before = names_of(servers)
        with watching_process(servers, tmp_path, "--state", str(tmp_path / "state.db"), *FLAGS) as watch:
            members.stuck.add("a")
            members.join("d", group, topic)
            members.wait_until(lambda: named(watch.events(), "rebalance.stuck", group), 60)
            (fired,) = named(watch.events(), "rebalance.stuck", group)
            assert (fired["data"]["status"], fired["data"]["suspects"][0]["client_id"]) == ("firing", "a")
            assert watch.page(f"/api/groups/{group}")["document"]["state"] == "PreparingRebalance"
            assert f'group="{group}"' in watch.metrics()
            assert watch.process is not None
            assert "libjvm" not in Path(f"/proc/{watch.process.pid}/maps").read_text()
            watch.kill()
            watch.start()
            members.stuck.clear()
            members.wait_until(lambda: len(named(watch.events(), "rebalance.stuck", group)) > 1, 60)
            fired, resolved = named(watch.events(), "rebalance.stuck", group)
            assert (resolved["data"]["status"], resolved["data"]["condition_id"]) == (
                "resolved",
                fired["data"]["condition_id"],
            )
            members.wait_until(lambda: named(watch.events(), "rebalance.completed", group), 60)
            assert names_of(servers) == before
