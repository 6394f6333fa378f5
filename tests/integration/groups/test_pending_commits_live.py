"""A transactional client is killed between its commit of offsets and the end of its transaction, on both coordinators.

The same is said of the live topic and of a copy of the broker's folder.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from groupreplay.state.job.observations import OpenTransaction
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.group_admin import GroupAdmin
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.prober.prober import Prober
from support.kafka.clients import commit_surely, make_topics

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]

#: Commits offset 42 of orders-0 in a transaction, says so, and waits to be killed.
CLIENT = """
import sys, time
from confluent_kafka import Consumer, Producer, TopicPartition
servers = sys.argv[1]
consumer = Consumer({"bootstrap.servers": servers, "group.id": "payments"})
producer = Producer({"bootstrap.servers": servers, "transactional.id": "tx", "transaction.timeout.ms": 900000})
producer.init_transactions(120)
producer.begin_transaction()
producer.send_offsets_to_transaction([TopicPartition("orders", 0, 42)], consumer.consumer_group_metadata(), 120)
print("open", flush=True)
time.sleep(600)
"""


#: A release of each of Kafka's two coordinators; the one between them repeats what 4.4.0 does.
RELEASES = ("3.9.1", pytest.param("4.3.1", marks=pytest.mark.long), "4.4.0")


@pytest.fixture(scope="module", params=RELEASES)
def broker(request: pytest.FixtureRequest) -> Iterator[EmbeddedBroker]:
    """A broker on which the client was killed: 41 is committed, 42 is pending, and so is what came behind it."""
    with EmbeddedBroker(request.param, offsets_partitions=1) as broker:
        make_topics(broker.bootstrap_servers, {"orders": 2})
        places = [TopicPartition("orders", 0, 41), TopicPartition("orders", 1, 7)]
        commit_surely(broker.bootstrap_servers, "payments", *places)
        with subprocess.Popen(
            [sys.executable, "-c", CLIENT, broker.bootstrap_servers], stdout=subprocess.PIPE, text=True
        ) as client:
            assert client.stdout is not None
            assert client.stdout.readline() == "open\n"
            client.send_signal(signal.SIGKILL)
        yield broker


def described(*words: str) -> tuple[dict[str, Any], str]:
    """The group as ``describe`` prints it, and what stands on stderr."""
    command = [
        sys.executable,
        "-m",
        "groupreplay",
        "describe",
        "--group",
        "payments",
        "--output",
        "json",
        *words,
    ]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    (group,) = json.loads(run.stdout)
    return group, run.stderr


def test_a_killed_transactional_client(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """The live topic and a copy of the folder have the commit, its producer and what it holds back."""
    live, lines = described("--bootstrap-server", broker.bootstrap_servers)
    shutil.copytree(broker.folder / "data", tmp_path / "data")
    copied, copied_lines = described("--from-log-dir", str(tmp_path / "data"))
    (pending,) = live["pending_offsets"]
    assert copied["pending_offsets"] == [pending]
    place = (pending["topic"], pending["partition"], pending["offset"], pending["newer_offset"])
    assert place == ("orders", 0, 42, None)
    assert (pending["log_partition"], pending["held_from"]) == (0, pending["log_offset"])
    assert (pending["producer_id"] >= 0, pending["producer_epoch"]) == (True, 0)
    assert {(one["partition"], one["offset"]) for one in live["offsets"]} == {(0, 41), (1, 7)}
    for text in (lines, copied_lines):
        assert "payments: orders-0: offset 42 is pending in a transaction of producer" in text
        assert "it becomes the committed offset if the transaction is committed" in text


def test_explain_says_so(broker: EmbeddedBroker) -> None:
    """Among what is not in the log."""
    command = [sys.executable, "-m", "groupreplay", "explain", "payments", "--bootstrap-server"]
    run = subprocess.run([*command, broker.bootstrap_servers], check=True, capture_output=True, text=True)
    assert "offset 42 is pending in a transaction of producer" in " ".join(run.stdout.split())


def test_the_prober_names_the_transaction(broker: EmbeddedBroker) -> None:
    """The second round that finds the same last stable offset has the producer and the group that waits."""
    connection = Connection(Cluster(bootstrap_servers=broker.bootstrap_servers))
    prober = Prober(GroupAdmin(connection), cluster_id=connection.cluster_id(), clock=lambda: 1)
    live, _ = described("--bootstrap-server", broker.bootstrap_servers)
    (pending,) = live["pending_offsets"]
    assert [prober.take().summary.transactions for _ in range(3)] == [
        (),
        *[(OpenTransaction(0, pending["producer_id"], 0, pending["held_from"], ("payments",)),)] * 2,
    ]
