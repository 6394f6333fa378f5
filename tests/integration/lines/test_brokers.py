"""The job on each release of Kafka: what it says of living groups is what a replay says, and what the broker has."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from support.broker_releases.released_broker import released_broker
from support.job.jobs import Json, running_job, topic_names
from support.job.replays import event_name
from support.kafka.clients import commit_once, make_topics, new_consumer
from support.kafka.live_groups import ReplayedGroups
from support.kafka.polled_members import PolledMembers
from support.ordeals.comparison import differences, settled

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.long]

RELEASES = ("2.1.1", "2.8.2", "3.3.2", "3.7.2", "3.9.1", "4.0.1", "4.1.1", "4.2.0", "4.3.1", "4.4.0")
TOPIC, PARTITIONS = "orders", 4
#: The members' max.poll.interval.ms: so long a member without polls holds up a rebalance.
TIMEOUT_MS = 20_000
#: The classic groups at the end: (state, partitions of each member).
ENDINGS = {"lives": ("Stable", [PARTITIONS]), "left": ("Empty", []), "simple": ("Empty", [])}
MODERN = "modern"


@pytest.mark.parametrize("release", RELEASES)
def test_the_job_on_a_release(tmp_path: Path, release: str) -> None:
    """Events, documents and offsets are right, no run ended, and the prober sees a rebalance of a classic group."""
    modern = {MODERN} if int(release[0]) >= 4 else set()
    groups = {*ENDINGS, *modern}
    with released_broker(release, 2) as broker:
        server = broker.bootstrap_servers
        admin = make_topics(server, {TOPIC: PARTITIONS})
        flags = ("--member-events", "--probe-interval", "1")
        with running_job(server, tmp_path / "checkpoint", topic_names("brokers"), *flags) as job:
            job.wait_caught_up()
            members = PolledMembers(server, TIMEOUT_MS)
            with closing(members):
                live(members, admin)
                if modern:
                    live_modern(members, server)
                members.wait_until(
                    lambda: (
                        [states(job.documents()), listed(admin)] == [states_by_broker(admin, groups), groups]
                    )
                )
                found = described(admin)
                assert {
                    group: (one["state"], [len(held) for held in one["members"].values()])
                    for group, one in found.items()
                } == ENDINGS
                by_log = ReplayedGroups(server, [*groups]).groups
                assert {group: from_log(by_log[group]) for group in ENDINGS} == found
                assert {group: offsets_in(by_log[group]) for group in groups} == {
                    group: committed_offsets(admin, group) for group in groups
                }
                assert {name: ids(one) for name, one in job.documents().items()} == {
                    name: ids(one) for name, one in by_log.items()
                }
            said, expected = settled(job)
            assert differences(said, expected) == []
            assert "rebalance.started" in types_of(said, "lives"), "the prober has not seen the rebalance"
            assert "group.created" in types_of(said, "simple")
            assert "group.deleted" in types_of(said, "deleted") & types_of(said, "unpeopled")
            status = job.status()
            assert (status["restarts"], status["prober_restarts"]) == (0, 0)
            assert (status["prober"]["rights"], set(status["prober"]["brokers"].values())) == ("ok", {None})


def live(members: PolledMembers, admin: AdminClient) -> None:
    """Classic groups: one rebalances for seconds, one loses its member, one has none, and two are deleted."""
    members.join("a", "lives", TOPIC, commits=False)
    members.join("c", "left", TOPIC, commits=False)
    members.wait_until(lambda: members.owned("a", "c") == [PARTITIONS] * 2)
    # The rebalance that the newcomer begins lasts until the member's time is over.
    members.stuck.add("a")
    members.join("b", "lives", TOPIC, commits=False)
    members.wait_until(lambda: members.owned("b") == [PARTITIONS])
    members.consumers.pop("a").close()
    committed(members.consumers["b"])
    committed(members.consumers["c"])
    members.consumers.pop("c").close()
    commit_once(members.servers, "simple", TopicPartition(TOPIC, 1, 7))
    members.join("d", "deleted", TOPIC, commits=False)
    members.wait_until(lambda: members.owned("d") == [PARTITIONS])
    committed(members.consumers["d"])
    members.consumers.pop("d").close()
    # The coordinator in Scala writes no tombstone of a group that never had a member.
    commit_once(members.servers, "unpeopled", TopicPartition(TOPIC, 2, 8))
    for deleted in admin.delete_consumer_groups(["deleted", "unpeopled"]).values():
        deleted.result(60)


def live_modern(members: PolledMembers, server: str) -> None:
    """A group of KIP-848, which brokers have without a setting since 4.0: two members, then one."""
    for name in ("m", "n"):
        member = new_consumer(server, MODERN, TOPIC, client_id=name, group_protocol="consumer")
        members.consumers[name] = member
    members.wait_until(lambda: members.owned("m", "n") == [PARTITIONS // 2] * 2)
    members.consumers.pop("n").close()
    members.wait_until(lambda: members.owned("m") == [PARTITIONS])
    committed(members.consumers["m"])


def committed(member: Consumer) -> None:
    """Commits an offset of each partition."""
    places = [TopicPartition(TOPIC, number, 10 + number) for number in range(PARTITIONS)]
    member.commit(offsets=places, asynchronous=False)


def described(admin: AdminClient) -> dict[str, Json]:
    """State and members of the classic groups, by DescribeGroups."""
    return {
        group: {
            "state": (one := answer.result(60)).state.name.capitalize(),
            "members": {
                member.member_id: sorted(place.partition for place in member.assignment.topic_partitions)
                for member in one.members
            },
        }
        for group, answer in admin.describe_consumer_groups([*ENDINGS]).items()
    }


def from_log(group: Json) -> Json:
    """The same of a replayed group."""
    return {
        "state": group["state"],
        "members": {one["member_id"]: one["partitions"].get(TOPIC, []) for one in group["members"]},
    }


def states(documents: dict[str, Json]) -> dict[str, str]:
    """The states of groups by their documents."""
    return {group: one["state"] for group, one in documents.items()}


def states_by_broker(admin: AdminClient, groups: set[str]) -> dict[str, str]:
    """The states by the broker: librdkafka describes classic groups only, and lists states since 2.6 only."""
    found = {group: one["state"] for group, one in described(admin).items()}
    if MODERN in groups:
        answer = admin.list_consumer_groups().result(60)
        found |= {one.group_id: one.state.name.capitalize() for one in answer.valid if one.group_id == MODERN}
    return found


def committed_offsets(admin: AdminClient, group: str) -> dict[tuple[str, int], int]:
    """The committed offsets by the broker."""
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(60)
    return {(at.topic, at.partition): at.offset for at in asked.topic_partitions}


def offsets_in(group: Json) -> dict[tuple[str, int], int]:
    """The committed offsets of a replayed group."""
    return {(one["topic"], one["partition"]): one["offset"] for one in group["offsets"]}


def ids(group: Json) -> list[str]:
    """The members of a document or a replayed group."""
    return sorted(one["member_id"] for one in group["members"])


def listed(admin: AdminClient) -> set[str]:
    """The groups of the broker."""
    answer = admin.list_consumer_groups().result(60)
    assert answer.errors == []
    return {one.group_id for one in answer.valid}


def types_of(events: dict[str, Json], group: str) -> set[str]:
    """What was said of a group."""
    return {event_name(event) for event in events.values() if event["data"]["group_id"] == group}
