"""What is read of the probes that stand there already, and what happens when they cannot be read."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.prober import probes_topic
from groupreplay.streaming.prober.probes_topic import (
    LastRounds,
    ProbesPlace,
    last_rounds,
    open_probes,
    shows_rounds,
)
from support.job.captures import CLUSTER_ID
from support.job.probes import PROBES, asked, beat, probes_batch, summed_up

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


class Topic:
    """A topic of probes, or none; notes which part was read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.partitions = 1
        self.refusal: GroupReplayError | None = None
        self.read: list[tuple[Mapping[int, int], Mapping[int, int]]] = []
        monkeypatch.setattr(probes_topic, "read_messages", self._messages)
        monkeypatch.setattr(Connection, "admin", lambda _: SimpleNamespace(list_topics=self._topics))
        monkeypatch.setattr(Connection, "end_offsets", lambda *_: {0: 8})
        monkeypatch.setattr(Connection, "first_offsets", lambda *_: {0: 0})
        monkeypatch.setattr(Connection, "offsets_since", lambda *_: {0: 2})

    def _topics(self, **_: object) -> Any:
        found = SimpleNamespace(error=None, partitions=dict.fromkeys(range(self.partitions)))
        return SimpleNamespace(topics={PROBES: found} if self.partitions else {})

    def _messages(
        self, _: Connection, topic: str, starts: Mapping[int, int], ends: Mapping[int, int]
    ) -> Iterator[pa.RecordBatch]:
        assert topic == PROBES
        if self.refusal:
            raise self.refusal
        self.read.append((starts, ends))
        if starts[0] < ends[0]:
            yield probes_batch(MESSAGES)


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    """The topic that the connection finds."""
    return Topic(monkeypatch)


def test_the_last_rounds(topic: Topic) -> None:
    """The last answer of each group counts, and the last round of all brokers; older messages are not read."""
    found = last_rounds(Connection(CLUSTER), PROBES, CLUSTER_ID, 2)
    assert found == LastRounds(frozenset({"waiting"}), 4)
    assert topic.read == [({0: 2}, {0: 8})]
    assert last_rounds(Connection(CLUSTER), PROBES, "another", 2) == LastRounds()
    topic.partitions = 0
    assert last_rounds(Connection(CLUSTER), PROBES, CLUSTER_ID, 2) == LastRounds()


def test_everything_and_what_comes_later(topic: Topic) -> None:
    """All of it up to the end, and then what follows that end."""
    probes = open_probes(ProbesPlace(CLUSTER, PROBES))
    assert probes is not None
    assert list(probes.batches) == [probes_batch(MESSAGES)]
    assert list(probes.since()) == []
    assert topic.read == [({0: 0}, {0: 8}), ({0: 8}, {0: 8})]


def test_no_topic_of_probes(topic: Topic) -> None:
    """Nothing to read, unless somebody said that there is."""
    topic.partitions = 0
    assert open_probes(ProbesPlace(CLUSTER, PROBES, asked_for=False)) is None
    with pytest.raises(GroupReplayError, match=r"the topic does not exist \(group-probes, h:1\)"):
        open_probes(ProbesPlace(CLUSTER, PROBES))


def test_probes_that_may_not_be_read(topic: Topic, caplog: pytest.LogCaptureFixture) -> None:
    """They are left out with a warning, unless somebody asked for them."""
    topic.refusal = GroupReplayError("not authorised")
    with pytest.raises(GroupReplayError, match="not authorised"):
        open_probes(ProbesPlace(CLUSTER, PROBES))
    with caplog.at_level(logging.WARNING):
        assert open_probes(ProbesPlace(CLUSTER, PROBES, asked_for=False)) is None
    assert [one.getMessage() for one in caplog.records] == [
        "the prober's answers in topic group-probes are not used: not authorised"
    ]


def test_whether_a_prober_was_at_work() -> None:
    """A round tells; a heartbeat is there without a prober, too. The batches can still be read."""
    beats, rounds = probes_batch([beat(at=1, caught_up=1)]), probes_batch([summed_up(at=1)])
    for batches, expected in (([], False), ([beats], False), ([rounds, beats], True)):
        is_probed, again = shows_rounds(iter(batches))
        assert (is_probed, list(again)) == (expected, batches)
