"""Chosen groups on a live topic: only their partition is read, and what is missing is named."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
from confluent_kafka import TopicPartition

from groupreplay.codecs.kafka_terms import partition_for
from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.sources.topic import read_topic
from support.job.captures import invoke
from support.kafka.clients import commit_once, make_topics

pytestmark = pytest.mark.broker
GROUPS = ("answers-payments", "answers-payments-eu", "answers-search")


@dataclass(frozen=True)
class Groups:
    """A broker with groups that have one committed offset each, and its number of partitions."""

    server: str
    partitions: int


@pytest.fixture(scope="module")
def live(broker: EmbeddedBroker) -> Groups:
    """Three simple groups, which no test changes."""
    server, topic = broker.bootstrap_servers, "answers-orders"
    make_topics(server, {topic: 1})
    for group in GROUPS:
        commit_once(server, group, TopicPartition(topic, 0, 9))
    identity = Connection(Cluster(bootstrap_servers=server)).identify(OFFSETS_TOPIC)
    return Groups(server, identity.partitions)


def test_only_the_partition_of_a_group_is_read(live: Groups) -> None:
    """The records that are printed are those of the whole topic with the group's id."""
    wanted = GROUPS[0]
    rows = read_topic(Cluster(bootstrap_servers=live.server), groups={wanted})
    held = {number for batch in rows.batches for number in batch["partition"].to_pylist()}
    assert held == {partition_for(wanted, live.partitions)}
    whole = invoke("decode", "--bootstrap-server", live.server).stdout.splitlines()
    mine = [line for line in whole if f'"group":"{wanted}"' in line]
    words = ("decode", "--bootstrap-server", live.server, "--group", wanted)
    assert invoke(*words).stdout.splitlines() == mine
    assert invoke(*words, "--kind", "commits").stdout.splitlines() == [
        line for line in mine if json.loads(line)["key"]["type"] == 1
    ]
    globbed = invoke(
        "decode", "--bootstrap-server", live.server, "--group", "answers-pay*", "--kind", "commits"
    )
    # A client on a busy machine may send a commit twice.
    keys = [json.loads(line)["key"]["data"] for line in globbed.stdout.splitlines()]
    assert {key["group"] for key in keys} == set(GROUPS[:2])


def test_no_such_group(live: Groups) -> None:
    """Only one partition was read, but the brokers know the names of the others."""
    wrong = "answers-paymnts"
    result = invoke("decode", "--bootstrap-server", live.server, "--group", wrong)
    assert (result.exit_code, result.stdout) == (5, "")
    (line,) = result.stderr.splitlines()
    place = f"partition {partition_for(wrong, live.partitions)} of the live topic of cluster "
    assert line.startswith(f"nothing found: there is no group {wrong!r} in {place}")
    assert "did you mean answers-payments, answers-payments-eu" in line


@pytest.mark.parametrize("command", ["replay", "list", "describe", "report -o none.json"])
def test_no_such_group_in_the_whole_topic(live: Groups, command: str) -> None:
    """The nearest names are those of the log."""
    result = invoke(*command.split(), "--bootstrap-server", live.server, "--group", "answers-paymnts")
    assert (result.exit_code, result.stdout) == (5, "")
    assert "did you mean answers-payments, answers-payments-eu" in result.stderr


def test_the_groups_of_a_partition(live: Groups) -> None:
    """List --partition prints the groups whose coordinator is the leader of that partition."""
    number = partition_for(GROUPS[2], live.partitions)
    listed = invoke("list", "--bootstrap-server", live.server, "--partition", number, "-o", "jsonl")
    groups = {json.loads(line)["group_id"] for line in listed.stdout.splitlines()}
    # Other tests write records into partitions of their choice.
    of_partition = {group for group in GROUPS if partition_for(group, live.partitions) == number}
    assert groups & set(GROUPS) == of_partition
    wrong = invoke("list", "--bootstrap-server", live.server, "--partition", live.partitions)
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert f"partitions are numbered 0 to {live.partitions - 1}" in wrong.stderr
