"""The runbook's commands for offsets that expire or have expired, on a broker with a retention of a minute."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from groupreplay.coordinator.requests import Commit, Error, OffsetCommit
from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.replays import named, replayed_log
from support.kafka.clients import commit_once, make_topics, new_consumer, produce
from support.kafka.kafka_admin import kafka_admin
from support.kafka.kafka_classes import broker_jars
from support.kafka.runbook_commands import remedies, run_remedy
from support.kafka.waiting import wait_until
from support.model.raw_members import RawRequest

pytestmark = pytest.mark.broker

CHECK_MS = 2_000
TOPICS = ("remedy-a", "remedy-b")
#: Group -> its type for the Admin API; each has offset 3 of both partitions of both topics.
GROUPS = dict.fromkeys(("left-alone", "recommitted", "joined", "modern", "simple"), "consumer")
#: Those to which the runbook gives time; a commit gives none to ``recommitted``.
HELPED = {"joined", "modern", "simple"}
PLACES = [TopicPartition(topic, number, 3) for topic in TOPICS for number in (0, 1)]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A broker with two topics of ten records in each of two partitions."""
    overrides = {"offsets.retention.minutes": 1, "offsets.retention.check.interval.ms": CHECK_MS}
    with EmbeddedBroker(offsets_partitions=4, overrides=overrides) as broker:
        make_topics(broker.bootstrap_servers, dict.fromkeys(TOPICS, 2))
        for topic in TOPICS:
            for number in (0, 1):
                produce(broker.bootstrap_servers, topic, [(None, b"x")] * 10, number)
        yield broker.bootstrap_servers


def left(server: str, group: str, protocol: str) -> None:
    """A group whose only member has committed, and has left."""
    with closing(new_consumer(server, group, *TOPICS, group_protocol=protocol)) as member:
        wait_until(lambda: (member.poll(0.1), len(member.assignment()) == len(PLACES))[1])
        member.commit(offsets=PLACES, asynchronous=False)


def deadlines(server: str) -> dict[str, set[int]]:
    """When the offsets of each group expire, as replayed from the log."""
    _, replay = replayed_log(server)
    return {
        group.group_id: {offset["expires_at_ms"] for offset in group.describe()["offsets"]}
        for group in replay.groups()
    }


def committed(server: str) -> dict[str, dict[str, int]]:
    """The offsets of each group, from Kafka's own Admin API."""
    with kafka_admin(broker_jars(), server) as admin:
        try:
            found = admin.describe(GROUPS, offsets=True)
        finally:
            admin.close()
    return {group: one["offsets"] for group, one in found.items()}


def give_time(server: str) -> tuple[dict[str, set[int]], dict[str, set[int]]]:
    """Leaves groups of each kind, and runs the runbook's commands on all but one; the deadlines before and after."""
    for group in ("left-alone", "recommitted", "joined"):
        left(server, group, "classic")
    left(server, "modern", "consumer")
    commit_once(server, "simple", *PLACES)
    before = deadlines(server)
    # Later commits have later times.
    time.sleep(1)
    joining, committing = remedies("Offsets expiring")
    run_remedy(joining, {"G": "joined", "T1|T2": "'remedy-a|remedy-b'"}, server)
    for group in ("recommitted", "modern", "simple"):
        assert "remedy-b" in run_remedy(committing, {"G": group}, server)
    return before, deadlines(server)


def test_what_gives_offsets_time(server: str) -> None:
    """The command for each kind of group moves the deadline; a commit does not in an Empty classic group."""
    before, after = give_time(server)
    assert {group for group in GROUPS if min(after[group]) > max(before[group])} == HELPED
    assert after["recommitted"] == before["recommitted"]
    assert committed(server) == {key: {f"{one.topic}-{one.partition}": 3 for one in PLACES} for key in GROUPS}


@pytest.mark.long
def test_the_broker_removes_only_the_others(server: str) -> None:
    """After the first deadline, the groups that were not helped have lost their offsets, and no other one has."""
    before, after = give_time(server)
    last_ms = max(max(before[group]) for group in {*GROUPS} - HELPED)
    wait_until(lambda: time.time() * 1_000 > last_ms + CHECK_MS + 1_000, pause=0.5)
    events, _ = replayed_log(server)
    expired = {one["data"]["group_id"] for one in named(events, "offsets.expired")}
    assert {*GROUPS} - HELPED <= expired
    # Those whose new deadline has come meanwhile, on a slow machine, prove nothing.
    assert not expired & {group for group in HELPED if min(after[group]) > time.time() * 1_000}


def test_expired_offsets_are_set_again(server: str, tmp_path: Path) -> None:
    """The removed offsets, from the event in the job's topic to the file and to the broker; also from the log.

    ``--all-topics`` has no effect there, and ends with 0: it is not what the runbook says.
    """
    commits = tuple(
        Commit(topic=one.topic, partition=one.partition, offset=4 + one.partition) for one in PLACES
    )
    own = OffsetCommit(commits=commits, retention_ms=1_000)
    assert RawRequest(server, "lost", "raw", own).answer().error is Error.NONE
    (event,) = wait_until(lambda: named(replayed_log(server)[0], "offsets.expired", "lost"), pause=0.5)
    make_topics(server, {"group-events": 1})
    produce(server, "group-events", [(b"lost", json.dumps(event).encode())])

    wrong = "kafka-consumer-groups.sh B --group G --all-topics --reset-offsets --to-earliest"
    run_remedy([*wrong.split(), "--execute"], {"G": "lost"}, server)
    (making, setting) = remedies("Offsets expired")
    names = {"EVENT_ID": event["id"], "G": "lost", "FILE": str(tmp_path / "lost.csv")}
    with closing(new_consumer(server, "lost")) as client:
        asked = [TopicPartition(one.topic, one.partition) for one in PLACES]
        assert {one.offset for one in client.committed(asked, timeout=30)} == {-1001}
        run_remedy(making, names, server)
        run_remedy(setting, names, server)
        found = {(one.topic, one.partition): one.offset for one in client.committed(asked, timeout=30)}
    assert found == {(one.topic, one.partition): 4 + one.partition for one in PLACES}
