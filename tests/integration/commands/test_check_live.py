"""``check`` against a real broker: what is well, and what a test can break on it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, TopicPartition

from groupreplay.app.check import CheckSettings, Status, Subject, cluster_checks
from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.captures import printed_by
from support.job.jobs import topic_flags, topic_names
from support.kafka.clients import commit_once, make_topics, open_transaction
from support.kafka.runbook_commands import run_printed
from support.kafka.waiting import wait_until
from support.remedies import read_remedy
from support.tools.job_observations import MINUTE, fed, fix_of, taken

pytestmark = pytest.mark.broker


def test_a_cluster_without_logins(
    broker: EmbeddedBroker, unique: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All is well and the exit code is 0; a topic with a wrong setting is a warning; nothing is created."""
    monkeypatch.setattr(cluster_checks, "_CLOCK_SECONDS", 0.1)
    topics = topic_names(unique("t"))
    admin = make_topics(broker.bootstrap_servers, {topics.states: 1, topics.probes: 1})
    words = ["check", "--bootstrap-server", broker.bootstrap_servers, "--checkpoint", tmp_path / "new"]
    answers = json.loads(printed_by(*words, *topic_flags(topics), "-o", "json"))
    found = {one["check"]: one for one in answers}
    # Whether a record comes by while the clock is looked at is up to other tests.
    assert found.pop("clock")["status"] in ("ok", "skipped")
    statuses = {name: one["status"] for name, one in found.items() if one["status"] != "ok"}
    hidden = [getattr(topics, kind) for kind in ("events", "dead_letters", "job")]
    assert statuses == {
        f"topic {topics.states}": "warning",
        f"topic {topics.probes}": "warning",
        **{f"Read on topic {name}": "skipped" for name in (topics.events, topics.job)},
        **{
            f"{operation} on topic {name}": "skipped"
            for name in hidden
            for operation in ("Write", "Describe")
        },
    }
    settings = {
        topics.states: "cleanup.policy=compact",
        topics.probes: "message.timestamp.type=LogAppendTime",
    }
    for name, setting in settings.items():
        assert found[f"topic {name}"]["fix"] == (
            f"kafka-configs.sh --bootstrap-server {broker.bootstrap_servers} --alter --entity-type topics "
            f"--entity-name {name} --add-config {setting}"
        )
    assert f"topic {topics.events}" in found
    assert set(admin.list_topics(timeout=10).topics) & set(hidden) == set()
    assert not (tmp_path / "new").exists()


def test_an_open_transaction(
    broker: EmbeddedBroker, unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commits whose transaction does not end hold back all that follows: told with age and remedy, which works."""
    topic = unique("orders")
    make_topics(broker.bootstrap_servers, {topic: 1})
    subject = Subject(CheckSettings(source=Cluster(bootstrap_servers=broker.bootstrap_servers)))

    def seen(later_ms: int) -> tuple[Status, str | None]:
        monkeypatch.setattr(cluster_checks, "now_ms", lambda: time.time_ns() // 1_000_000 + later_ms)
        (found,) = cluster_checks.transactions(subject)
        return found.status, found.fix

    consumer = Connection(subject.settings.source).consumer()
    place = TopicPartition(topic, 0, 5)
    producer = open_transaction(broker.bootstrap_servers, unique("tx"), consumer, place)
    try:
        outcomes = [seen(0), seen(61_000), seen(901_000)]
        fix = outcomes[1][1] or ""
        read_remedy("app.check.cluster_checks: … describe-producers", fix)
        describing, _, ending = fix.partition("\n")
        ending = ending.partition(": ")[2]
        # What the event says is the same, with words in place of this partition and its offset.
        (event, *_) = fed([taken(MINUTE, {0: (7, 5)}), taken(3 * MINUTE, {0: (7, 5)})])
        event_fix = fix_of(event)
        read_remedy("state.conditions.job_blind: kafka-transactions.sh", event_fix)
        words = describing.split()
        names = {"HOST:PORT": broker.bootstrap_servers, "N": words[words.index("--partition") + 1]}
        line = " ".join(names.get(word, word) for word in event_fix.partition(" shows")[0].split())
        assert line == describing
        (flags,) = re.findall("abort with the same flags and (.*) ends it", event_fix)
        offset = ending.split()[-1]
        assert line.replace("describe-producers", "abort") + f" {flags.replace('OFFSET', offset)}" == ending
        assert "CurrentTransactionStartOffset" in run_printed(line)
        run_printed(ending)
        wait_until(lambda: seen(901_000) == (Status.OK, None))
    finally:
        with suppress(KafkaException):
            producer.abort_transaction(30)
        consumer.close()
    assert outcomes == [(Status.OK, None), (Status.WARNING, fix), (Status.FAILED, fix)]


def test_the_clock_of_the_broker(broker: EmbeddedBroker, unique: Callable[[str], str]) -> None:
    """A commit that comes while the check looks dates the broker's clock, which is ours here."""
    topic = unique("orders")
    make_topics(broker.bootstrap_servers, {topic: 1})
    subject = Subject(CheckSettings(source=Cluster(bootstrap_servers=broker.bootstrap_servers)))
    ends = subject.source.high_watermarks

    def after_a_commit(name: str, partitions: int) -> dict[int, int]:
        commit_once(broker.bootstrap_servers, unique("g"), TopicPartition(topic, 0, 1))
        return ends(name, partitions)

    subject.source.high_watermarks = after_a_commit  # type: ignore[method-assign]
    (found,) = cluster_checks.clock(subject)
    assert (found.status, "of this machine's" in found.found) == (Status.OK, True)
    assert subject.offsets_topic.topic == OFFSETS_TOPIC
