"""Which topics a real coordinator protects from expiry while a static member comes back with another subscription.

Offsets have a retention of their own, so that a run takes seconds; the long test has the minute that is the shortest
``offsets.retention.minutes``, and Kafka's own clients.
"""

from __future__ import annotations

from contextlib import closing

import pytest
from confluent_kafka import Consumer, TopicPartition

from groupreplay.streaming.local.broker import EmbeddedBroker
from support.broker_releases.raw_static_members import RawStaticMember, committed_topics
from support.job.replays import Json, event_name, replayed_log
from support.kafka.clients import make_topics, new_consumer
from support.kafka.waiting import wait_until

pytestmark = pytest.mark.broker

GROUP = "protected"
#: The coordinator's clean-up, and how long each offset is kept.
CHECK_MS, KEPT_MS = 1_000, 2_000
RELEASES = ("4.4.0", "3.9.1")


def said(server: str) -> list[tuple[str, str, bool, list[str]]]:
    """Each event about a lost offset: name, evidence, whether it is unclear if the offset is protected, topics."""

    def told(data: Json) -> tuple[str, bool, list[str]]:
        return data["evidence"], data.get("unclear", False), [at["topic"] for at in data["partitions"]]

    return [
        (event_name(event), *told(event["data"]))
        for event in replayed_log(server, complete_since_ms=0)[0]
        if event_name(event) in ("offsets.expired", "offsets.deleted")
    ]


def deadlines(server: str) -> dict[str, tuple[bool, bool]]:
    """By topic, whether the replay says that its offset expires, and that it may expire."""
    _, replay = replayed_log(server, complete_since_ms=0)
    return {
        offset["topic"]: (offset["expires_at_ms"] is not None, offset["may_expire_at_ms"] is not None)
        for group in replay.groups()
        for offset in group.describe()["offsets"]
    }


@pytest.mark.parametrize("release", RELEASES)
def test_the_subscription_of_the_generation_is_protected_until_a_load(release: str) -> None:
    """A static member comes back under its generation with u for t: t stays and u expires, after a load the reverse."""
    checks = {"offsets.retention.check.interval.ms": CHECK_MS}
    with EmbeddedBroker(release, offsets_partitions=1, overrides=checks) as broker:
        server = broker.bootstrap_servers
        make_topics(server, {"t": 1, "u": 1, "v": 1})
        first = RawStaticMember(server, GROUP, "i").start("t", "v")
        first.sync()
        again = RawStaticMember(server, GROUP, "i").start("u", "v")
        assert (again.place[1], again.place[0] != first.place[0]) == (first.place[1], True)
        again.commit("t", "u", "v", kept_ms=KEPT_MS)
        # Both are possible from the log alone; v is protected in any case.
        assert deadlines(server) == {"t": (False, True), "u": (False, True), "v": (False, False)}
        wait_until(lambda: len(committed_topics(server, GROUP)) < 3)
        assert committed_topics(server, GROUP) == {"t", "v"}
        expired_u = ("offsets.expired", "inferred", True, ["u"])
        assert said(server) == [expired_u]

        broker.restart()
        wait_until(lambda: committed_topics(server, GROUP) == {"v"})
        again.commit("t", "u", kept_ms=KEPT_MS)
        wait_until(lambda: len(committed_topics(server, GROUP)) < 3)
        assert committed_topics(server, GROUP) == {"u", "v"}
        expired_t = ("offsets.expired", "inferred", True, ["t"])
        # What is repeated within a minute is told once.
        assert said(server) == [expired_u, expired_t]


def started(server: str, topic: str) -> Consumer:
    """A static member; only the first one of a generation is assigned something."""
    return new_consumer(
        server, GROUP, topic, group_instance_id="i", session_timeout_ms=60_000, max_poll_interval_ms=300_000
    )


def commit(member: Consumer, *topics: str) -> None:
    """Commits an offset of each topic."""
    places = [TopicPartition(topic, 0, 5) for topic in topics]
    assert [place.error for place in member.commit(offsets=places, asynchronous=False)] == [None] * len(
        topics
    )


def generations(server: str) -> list[tuple[int, list[str]]]:
    """Generation and topics of the group as it is now."""
    _, replay = replayed_log(server, complete_since_ms=0)
    found = [group.describe() for group in replay.groups()]
    return [(one["generation"], one["subscribed_topics"]) for one in found]


@pytest.mark.long
@pytest.mark.parametrize("release", RELEASES)
def test_the_same_with_clients_and_a_minute_of_retention(release: str) -> None:
    """A consumer that is started again with another subscription loses its new topic's offset after a minute."""
    settings = {"offsets.retention.minutes": 1, "offsets.retention.check.interval.ms": CHECK_MS}
    with EmbeddedBroker(release, offsets_partitions=1, overrides=settings) as broker:
        server = broker.bootstrap_servers
        make_topics(server, {"t": 1, "u": 1})
        with closing(started(server, "t")) as member:
            wait_until(lambda: (member.poll(0.1), member.assignment())[1])
        with closing(started(server, "u")) as member:
            wait_until(lambda: (member.poll(0.1), generations(server) == [(1, ["u"])])[1], pause=0.5)
            commit(member, "t", "u")
            wait_until(lambda: (member.poll(0.1), len(committed_topics(server, GROUP)) < 2)[1], pause=0.5)
            assert committed_topics(server, GROUP) == {"t"}
            assert said(server) == [("offsets.expired", "inferred", True, ["u"])]
            broker.restart()
            wait_until(lambda: (member.poll(0.1), not committed_topics(server, GROUP))[1])
            assert said(server)[1:] == [("offsets.expired", "inferred", True, ["t"])]
