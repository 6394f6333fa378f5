"""A transactional client is killed between its commit of offsets and the end of its transaction, on both coordinators.

The same is said of the live topic, of a copy of the broker's folder, and by the prober.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition

from groupreplay.state import Group, Observations
from groupreplay.state.conditions.transaction_hanging import TransactionHanging
from groupreplay.state.job.observations import ObservationPlace, OpenTransaction
from groupreplay.state.policy.rules import Policy
from groupreplay.state.snapshot.observations import PendingTransaction
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.group_admin import GroupAdmin
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.prober.prober import Prober
from support.histories.builders import CONTEXT
from support.job.captures import GROUPREPLAY, printed_by
from support.kafka.clients import commit_surely, make_topics
from support.kafka.runbook_commands import run_printed
from support.kafka.waiting import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.timeout(600)]

NAME = TransactionHanging.NAME
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
        # A commit of the same partition that readers do not get: it shows that the transaction was still open.
        time.sleep(1.5)
        commit_surely(broker.bootstrap_servers, "others", TopicPartition("orders", 1, 3))
        yield broker


def described(*words: str) -> tuple[dict[str, Any], str]:
    """The group as ``describe`` prints it, and what stands on stderr."""
    command = [*GROUPREPLAY, "describe", "--group", "payments", "--output", "json", *words]
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


def test_explain_says_so(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Among what is not in the log, and as a cause, whose command shows whether the producer lives."""
    rules = tmp_path / "rules.toml"
    rules.write_text("[transaction.hanging]\nthreshold_ms = 1000\n")
    words = ("explain", "payments", "--rules", rules, "--bootstrap-server", broker.bootstrap_servers)
    assert "offset 42 is pending in a transaction of producer" in " ".join(printed_by(*words).split())
    told = json.loads(printed_by(*words, "-o", "json"))
    (explanation,) = told if isinstance(told, list) else [told]
    (statement,) = [each for each in explanation["diagnosis"] if each["cause"] is not None]
    (pending,) = described("--bootstrap-server", broker.bootstrap_servers)[0]["pending_offsets"]
    assert statement["cause"] == "hanging_transaction"
    assert f"Producer {pending['producer_id']} (epoch 0)" in statement["links"][0]["text"]
    (header, producer) = run_printed(statement["first"]["command"], broker.bootstrap_servers).splitlines()
    shown = dict(zip(header.split(), producer.split(), strict=True))
    assert (shown["ProducerId"], shown["ProducerEpoch"]) == (str(pending["producer_id"]), "0")
    assert int(shown["CurrentTransactionStartOffset"]) == pending["first_offset"]


def test_the_prober_names_the_transaction(broker: EmbeddedBroker) -> None:
    """The second round that finds the same last stable offset has the producer and the group that waits."""
    connection = Connection(Cluster(bootstrap_servers=broker.bootstrap_servers))
    prober = Prober(GroupAdmin(connection), cluster_id=connection.cluster_id(), clock=lambda: 1)
    live, _ = described("--bootstrap-server", broker.bootstrap_servers)
    (pending,) = live["pending_offsets"]
    rounds = [prober.take() for _ in range(3)]
    assert [taken.summary.transactions for taken in rounds] == [
        (),
        *[(OpenTransaction(0, pending["producer_id"], 0, pending["held_from"], ("payments",)),)] * 2,
    ]
    assert rounds[0].transactions == ()
    assert [(each.group_id, each.transactions) for each in rounds[1].transactions] == [
        ("payments", (transaction_of(pending),))
    ]


def transaction_of(pending: dict[str, Any]) -> PendingTransaction:
    """The transaction of the one pending commit."""
    same = ("log_partition", "first_offset", "held_from", "producer_id", "producer_epoch", "since_ms")
    return PendingTransaction(
        **{name: pending[name] for name in same}, partitions=(("orders", "0"),), count=1
    )


def hanging(*words: str) -> list[dict[str, Any]]:
    """What stands of ``transaction.hanging`` among the conditions of the group."""
    group, _ = described(*words)
    return [each for each in group["conditions"] if each["condition"] == "transaction.hanging"]


def test_the_condition_begins_and_ends(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """The topic, the folder and the prober's answers have one id; it ends when another client takes over."""
    rules = tmp_path / "rules.toml"
    rules.write_text("[transaction.hanging]\nthreshold_ms = 1000\n")
    shutil.copytree(broker.folder / "data", tmp_path / "data")
    source = ("--bootstrap-server", broker.bootstrap_servers, "--rules", str(rules))
    (live,) = hanging(*source)
    (copied,) = hanging("--from-log-dir", str(tmp_path / "data"), "--rules", str(rules))
    connection = Connection(Cluster(bootstrap_servers=broker.bootstrap_servers))
    prober = Prober(GroupAdmin(connection), cluster_id=connection.cluster_id(), clock=now_ms)
    prober.take()
    taken = prober.take()
    prober.remember(taken)
    (answer,) = taken.transactions
    group = Group("payments", replace(CONTEXT, policy=Policy(thresholds={NAME: {"threshold_ms": 1_000}})))
    probes = [answer.observation(ObservationPlace("group-probes", 0, 1), None)]
    (probed,) = group.apply(Observations(probes=probes), answer.taken_ms)
    assert isinstance(probed.fact, TransactionHanging)
    assert live["condition_id"] == copied["condition_id"] == probed.fact.condition_id
    held = ("producer_id", "producer_epoch", "log_partition", "first_offset", "partitions", "since_ms", "fix")
    assert {name: live[name] for name in held} == {name: copied[name] for name in held}
    assert {name: live[name] for name in held} == {name: getattr(probed.fact, name) for name in held}
    release = tuple(map(int, broker.version.split(".")[:2]))
    assert (live["holds_expiry"], copied["holds_expiry"]) == (release >= (4, 0), None)
    Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "tx"}).init_transactions(120)
    wait_until(lambda: not hanging(*source), 120)
    (ended,) = prober.take().transactions
    assert (ended.group_id, ended.transactions) == ("payments", ())
    (resolved,) = group.apply(
        Observations(probes=[ended.observation(ObservationPlace("group-probes", 0, 2), None)]), ended.taken_ms
    )
    assert isinstance(resolved.fact, TransactionHanging)
    assert (resolved.fact.status, resolved.fact.condition_id) == ("resolved", live["condition_id"])
