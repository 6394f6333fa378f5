"""``check`` on old brokers: what it says is true there, what it prints works there, and topics can be created."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewTopic

from groupreplay.streaming.base.errors import ExitCode
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.output_topics import describe_topics, ensure_topics
from groupreplay.streaming.local.platforms import find_java
from support.broker_releases.release_jars import release_jars
from support.broker_releases.released_broker import released_broker
from support.job.captures import invoke
from support.job.jobs import Json
from support.kafka.clients import commit_once, make_topics

pytestmark = [pytest.mark.broker, pytest.mark.long]

TOPICS = TopicNames()
#: What the broker of a release does not tell: its logins' rights to a topic (KIP-430), and an id (KIP-516).
NOT_TOLD = {
    "2.1.1": {
        *(f"Write on topic {name}" for name in ("group-events", "group-states", "group-dead-letters")),
        *(
            f"{right} on topic {name}"
            for name in ("group-job", "group-probes")
            for right in ("Read", "Write")
        ),
        "Read on topic __consumer_offsets",
        "Read on topic group-states",
    },
    "2.8.2": set(),
}
HAS_IDS = {"2.1.1": False, "2.8.2": True}


@pytest.mark.parametrize("release", NOT_TOLD)
def test_check_on_a_release(tmp_path: Path, release: str) -> None:
    """Nothing fails; topics get the broker's numbers; the printed command mends a topic with the release's own tool."""
    with released_broker(release, 2) as broker:
        server = broker.bootstrap_servers
        admin = make_topics(server, {"orders": 1})
        commit_once(server, "simple", TopicPartition("orders", 0, 1))
        code, found = checked(server, tmp_path)
        assert (code, not_ok(found) - {"clock"}) == (ExitCode.OK, unknown_topics(release))
        assert found["topic group-events"]["found"] == "is missing and will be created"
        # Two settings of it are wrong then.
        admin.create_topics([NewTopic(TOPICS.job, 1, 1)])[TOPICS.job].result(30)
        connection = Connection(Cluster(bootstrap_servers=server))
        ensure_topics(connection, TOPICS)
        numbers = {one.kind: (one.partitions, one.replicas) for one in describe_topics(connection, TOPICS)}
        assert numbers == dict.fromkeys(("events", "states", "dead_letters"), (3, 1)) | dict.fromkeys(
            ("job", "probes"), (1, 1)
        )
        with committing(server):
            code, found = checked(server, tmp_path)
        assert (code, not_ok(found)) == (ExitCode.OK, NOT_TOLD[release] | {"topic group-job"})
        assert "of this machine's" in found["clock"]["found"]
        assert ("no id" in found["offsets topic"]["found"]) is not HAS_IDS[release]
        assert found["cluster"]["found"].endswith(f"Kafka {release[:3]}")
        commands = found["topic group-job"]["fix"].splitlines()
        assert [line.rpartition(" ")[2] for line in commands] == [
            "cleanup.policy=compact",
            "message.timestamp.type=LogAppendTime",
        ]
        for line in commands:
            changed(release, line)
        assert checked(server, tmp_path)[1]["topic group-job"]["status"] == "ok"


def checked(server: str, tmp_path: Path) -> tuple[int, dict[str, Json]]:
    """The exit code, and the results by check."""
    words = ("check", "--bootstrap-server", server, "--checkpoint", tmp_path / "new", "-o", "json")
    result = invoke(*words)
    return result.exit_code, {one["check"]: one for one in json.loads(result.stdout)}


def not_ok(found: dict[str, Json]) -> set[str]:
    """The checks without an answer, or with a warning."""
    return {name for name, one in found.items() if one["status"] != "ok"}


def unknown_topics(release: str) -> set[str]:
    """Without an answer as long as the topics are missing."""
    missing = {f"{right} on topic {name}" for name in vars_of(TOPICS) for right in ("Write", "Describe")}
    return (
        missing
        | {f"Read on topic {TOPICS.states}", f"Read on topic {TOPICS.job}"}
        | {
            f"Read on topic {TOPICS.probes}",
            *(one for one in NOT_TOLD[release] if one.endswith("__consumer_offsets")),
        }
    )


def vars_of(topics: TopicNames) -> list[str]:
    """The names of the five topics."""
    return [topics.events, topics.states, topics.dead_letters, topics.job, topics.probes]


@contextmanager
def committing(server: str) -> Iterator[None]:
    """Commits again and again meanwhile, so that the clock of the broker shows."""
    over = threading.Event()

    def commit() -> None:
        number = 1
        while not over.wait(0.2):
            commit_once(server, "simple", TopicPartition("orders", 0, number := number + 1))

    thread = threading.Thread(target=commit, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(60)


def changed(release: str, line: str) -> None:
    """Runs the printed command with the tool of the release."""
    tool, *words = shlex.split(line)
    assert tool == "kafka-configs.sh"
    options = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-Dzookeeper.jmx.log4j.disable=true")
    classes = os.pathsep.join(map(str, release_jars(release)))
    command = [str(find_java().executable), *options, "-cp", classes, "kafka.admin.ConfigCommand", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "Completed updating config" in done.stdout.replace("Updating", "updating"), done
