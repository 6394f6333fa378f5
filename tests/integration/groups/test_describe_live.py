"""``describe`` prints a share group of a real broker as Kafka's own tool prints it, and histories of every kind.

Classic and consumer groups beside Kafka's tool: ``test_describe_beside_kafka.py``.
"""

from __future__ import annotations

import csv
import io
import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka import TopicPartition

from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.local.process_guard import GuardedProcess
from support.job.captures import invoke
from support.kafka.clients import make_topics, new_consumer
from support.kafka.kafka_classes import java_command
from support.kafka.waiting import wait_until

pytestmark = pytest.mark.broker

TOPIC = "describe-live"
CLASSIC, NEW, SHARE = "describe-classic", "describe-consumer", "describe-share"
TOOLS = "org.apache.kafka.tools.consumer"
SHARE_TOOL = f"{TOOLS}.group.ShareGroupCommand"


@pytest.fixture(scope="module")
def server(broker: EmbeddedBroker) -> Iterator[str]:
    """A broker with a classic group, a consumer group (KIP-848) with a commit, and a share group, all stable."""
    address = broker.bootstrap_servers
    make_topics(address, {TOPIC: 3})
    with ExitStack() as stack:
        consumers = [
            new_consumer(address, group, TOPIC, group_protocol=protocol, client_id=f"{group}-client")
            for group, protocol in ((CLASSIC, "classic"), (NEW, "consumer"))
        ]
        for member in consumers:
            stack.callback(member.close)
        command = java_command(
            *(f"{TOOLS}.ConsoleShareConsumer", "--bootstrap-server", address),
            *("--topic", TOPIC, "--group", SHARE),
        )
        share_member = GuardedProcess(command, subprocess.DEVNULL)
        stack.callback(share_member.end, 10)
        wait_until(
            lambda: [one.poll(0.1) for one in consumers] and all(one.assignment() for one in consumers)
        )
        consumers[1].commit(offsets=[TopicPartition(TOPIC, 1, 5)], asynchronous=False)
        wait_until(lambda: [one.poll(0.1) for one in consumers] and shared(address))
        yield address


def shared(address: str) -> bool:
    """Whether partitions are assigned to the member of the share group."""
    return [row["#PARTITIONS"] for row in ours(address, SHARE, "--members")] == ["3"]


def ours(address: str, group: str, *more: str) -> list[dict[str, str]]:
    """The rows that groupreplay prints, with ``-`` for empty cells and without the quote before a ``+``."""
    words = ("describe", "--bootstrap-server", address, "--group", group, "-o", "csv", *more)
    rows = csv.DictReader(io.StringIO(invoke(*words).stdout))
    return [{name: cell.removeprefix("'") or "-" for name, cell in row.items()} for row in rows]


def kafkas(tool: str, address: str, *more: str) -> list[dict[str, str]]:
    """The rows that Kafka's tool prints; the heading with a blank is split into two columns."""
    command = java_command(tool, "--bootstrap-server", address, "--describe", *more)
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
    lines = [line.replace("COORDINATOR (ID)", "COORDINATOR ID").split() for line in done.stdout.splitlines()]
    names, *rows = [line for line in lines if line]
    return [dict(zip(names, row, strict=True)) for row in rows]


def test_members_as_kafka_prints_them(server: str) -> None:
    """All columns of Kafka's tool exist in the same order, and every cell is equal."""
    (expected,) = kafkas(SHARE_TOOL, server, "--group", SHARE, "--members", "--verbose")
    (found,) = ours(server, SHARE, "--members", "--verbose")
    columns = [name for name in found if name in expected]
    assert columns == list(expected)
    assert [found[name] for name in columns] == list(expected.values())


def test_topic_ids_are_resolved_to_names(server: str) -> None:
    """Records of share groups have only topic ids; the names come from the cluster's metadata."""
    names = Connection(Cluster(bootstrap_servers=server)).topic_names()
    assert list(names.values()).count(TOPIC) == 1
    assert {row["TOPIC"] for row in ours(server, SHARE)} == {TOPIC}


def test_history_of_every_kind(server: str) -> None:
    """The history of each group begins with its creation, and nothing was compacted away."""
    for group in (CLASSIC, NEW, SHARE):
        words = ("describe", "--bootstrap-server", server, "--group", group, "--history", "-o", "jsonl")
        events = [json.loads(line)["event"] for line in invoke(*words).stdout.splitlines()]
        assert events[0] == "group.created"
        assert "rebalance.completed" in events
        assert "compacted away" not in events
