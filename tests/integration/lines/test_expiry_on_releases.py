"""Expiry in a rebalance, by release: old brokers do not wait for its end, and an answer of the prober hides nothing."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.config.settings import Cluster, RetentionFlags, TopicNames
from groupreplay.streaming.contract.probe_messages import encode_message
from groupreplay.streaming.kafka.broker_config import effective_retention
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.group_admin import GroupAdmin
from groupreplay.streaming.kafka.output_topics import ensure_topics
from groupreplay.streaming.kafka.publisher import Publisher
from groupreplay.streaming.prober.prober import Prober
from support.broker_releases.raw_static_members import RawStaticMember, commit_kept, committed_topics
from support.broker_releases.released_broker import released_broker
from support.job.replays import event_name, replayed_topics
from support.kafka.clients import make_topics
from support.kafka.waiting import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.long]

GROUP, CONTROL, PROBES = "rebalances", "control", "expiry-probes"
KEPT_MS = 2_000


@pytest.mark.parametrize(("release", "expires"), [("2.8.1", True), ("2.8.2", False), ("3.9.1", False)])
def test_an_offset_whose_time_is_over_in_a_rebalance(release: str, expires: bool) -> None:
    """Nobody subscribes to u: 2.8.1 removes its offset in the rebalance, and that is an expiry, no deletion."""
    with released_broker(release, 1) as broker, ExitStack() as requests:
        server = broker.bootstrap_servers
        make_topics(server, {"t": 1, "u": 1})
        first = RawStaticMember(server, GROUP, "i").start("t")
        first.sync()
        # The rebalance lasts: the first member does not rejoin, and the answer to this one is not read.
        requests.callback(RawStaticMember(server, GROUP, "j").joining("t").close)
        probe_rebalance(server)
        first.commit("t", "u", kept_ms=KEPT_MS)
        # A group without members, whose offset expires in the same clean-up or in a later one.
        commit_kept(server, CONTROL, "t", kept_ms=KEPT_MS)
        wait_until(lambda: not committed_topics(server, CONTROL), pause=0.2)
        assert committed_topics(server, GROUP) == ({"t"} if expires else {"t", "u"})
        known = effective_retention(RetentionFlags(), Connection(Cluster(bootstrap_servers=server)))
        assert known.broker_release == tuple(map(int, release.split(".")[:2]))
        told = [one for one in replayed_topics(server, PROBES) if one["data"].get("group_id") == GROUP]
        assert "rebalance.started" in map(event_name, told), "the prober has not seen the rebalance"
        lost = [
            (event_name(one), one["data"]["evidence"], [at["topic"] for at in one["data"]["partitions"]])
            for one in told
            if event_name(one) in ("offsets.expired", "offsets.deleted")
        ]
        assert lost == ([("offsets.expired", "inferred", ["u"])] if expires else [])


def probe_rebalance(server: str) -> None:
    """Asks the brokers until they say that the group rebalances, and writes the answers."""
    cluster = Cluster(bootstrap_servers=server)
    connection = Connection(cluster)
    ensure_topics(connection, TopicNames(probes=PROBES), only=("probes",))
    asking = Prober(GroupAdmin(connection), cluster_id=connection.cluster_id(), clock=now_ms)
    publisher = Publisher(cluster)

    def answered() -> bool:
        taken = asking.take()
        publisher.publish(PROBES, map(encode_message, taken.messages))
        return any((one.group_id, one.state) == (GROUP, "PreparingRebalance") for one in taken.answers)

    wait_until(answered, pause=0.2)
