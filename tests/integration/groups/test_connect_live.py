"""A rolling restart of a Connect cluster and one killed worker cause no event of WARN or above.

There are two groups: that of the workers, with Connect's own metadata format, and that of the tasks of a sink.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from groupreplay.streaming.local.broker import EmbeddedBroker
from support.job.watched import producing, watching
from support.kafka.clients import make_topics
from support.kafka.connect_workers import Workers
from support.kafka.waiting import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.long]

TOPIC, PARTITIONS, TASKS = "orders", 4, 3
GROUP, SINK = "connect-cluster", "files"
NAMES = ("worker-a", "worker-b", "worker-c")


def test_a_rolling_deployment_of_connect(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Three clean restarts and one SIGKILL: both groups rebalance each time without a warning."""
    with EmbeddedBroker() as watched:
        servers, sink = watched.bootstrap_servers, broker.bootstrap_servers
        make_topics(servers, {TOPIC: PARTITIONS})
        with (
            watching(servers, tmp_path, sink=sink, topic="connect-probes") as watch,
            producing(servers, {TOPIC: PARTITIONS}),
            Workers(servers, GROUP, tmp_path) as workers,
        ):
            workers.start(*NAMES)
            wait_until(workers.are_assigned, pause=0.5)
            wait_until(lambda: workers.create_connector(SINK, file_sink(tmp_path)), pause=1.0)
            wait_until(lambda: workers.are_assigned(SINK, TASKS), pause=0.5)
            for name, end in [*((one, workers.stop) for one in NAMES), (NAMES[0], workers.kill)]:
                end(name)
                wait_until(workers.are_assigned, pause=0.5)
                workers.start(name)
                wait_until(lambda: workers.are_assigned(SINK, TASKS), pause=0.5)
            events = watch.replay("--member-events")
    assert events.severe() == []
    for group in (GROUP, f"connect-{SINK}"):
        assert events.counts(group)["rebalance.completed"] >= 5
        assert {name for name, _, _ in events.alarms(group)} <= {"owner.silent"}


def file_sink(folder: Path) -> dict[str, str]:
    """The settings of a connector that writes a topic to a file."""
    return {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "tasks.max": str(TASKS),
        "topics": TOPIC,
        "file": str(folder / "sink"),
    }
