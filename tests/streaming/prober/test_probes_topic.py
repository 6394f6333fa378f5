"""What is read of the rounds that stand in the topic of probes already."""

from __future__ import annotations

import pytest

from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.prober import probes_topic
from groupreplay.streaming.prober.probes_topic import LastRounds, last_rounds
from support.job.captures import CLUSTER_ID
from support.job.probes import PROBES, asked, beat, summed_up
from support.kafka.probes_topic import ProbesTopic

CLUSTER = Cluster(bootstrap_servers="h:1")
MESSAGES = [
    asked("ended", "PreparingRebalance", at=1),
    asked("waiting", "Stable", at=2),
    asked("waiting", "CompletingRebalance", at=3),
    asked("ended", "Stable", at=4),
    summed_up(at=4),
    summed_up(at=5, brokers={1: None, 2: "timed out"}),
    (b"junk", b"junk"),
    beat(at=5, caught_up=4),
]


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> ProbesTopic:
    """The topic that the connection finds."""
    return ProbesTopic(monkeypatch, MESSAGES, probes_topic)


def test_the_last_rounds(topic: ProbesTopic) -> None:
    """The last answer of each group counts, and the last round of all brokers; older messages are not read."""
    found = last_rounds(Connection(CLUSTER), PROBES, CLUSTER_ID, 2)
    assert found == LastRounds(frozenset({"waiting"}), 4)
    assert topic.read == [({0: 2}, {0: 8})]
    assert last_rounds(Connection(CLUSTER), PROBES, "another", 2) == LastRounds()
    topic.partitions = 0
    assert last_rounds(Connection(CLUSTER), PROBES, CLUSTER_ID, 2) == LastRounds()
