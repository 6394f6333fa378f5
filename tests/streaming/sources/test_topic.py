"""A live topic as a source: which partitions and probes are read, and what happens when they cannot be read."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.topic_identity import TopicIdentity
from groupreplay.streaming.sources import topic as module
from groupreplay.streaming.sources.topic import ProbesPlace, TopicSource, chosen_partitions, open_probes
from support.histories.raw_records import Raw
from support.job.captures import rows_batch
from support.job.probes import PROBES, beat, probes_batch, summed_up
from support.kafka.probes_topic import ProbesTopic

CLUSTER = Cluster(bootstrap_servers="h:1")
MESSAGES = [summed_up(at=4), (b"junk", b"junk"), beat(at=5, caught_up=4)]


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> ProbesTopic:
    """The topic of probes that the connection finds."""
    return ProbesTopic(monkeypatch, MESSAGES, module)


def test_everything_and_what_comes_later(topic: ProbesTopic) -> None:
    """All of it up to the end, and then what follows that end."""
    probes = open_probes(ProbesPlace(CLUSTER, PROBES))
    assert probes is not None
    assert list(probes.batches) == [probes_batch(MESSAGES)]
    assert list(probes.since()) == []
    assert topic.read == [({0: 0}, {0: 8}), ({0: 8}, {0: 8})]


def test_no_topic_of_probes(topic: ProbesTopic) -> None:
    """Nothing to read, unless somebody said that there is."""
    topic.partitions = 0
    assert open_probes(ProbesPlace(CLUSTER, PROBES, asked_for=False)) is None
    with pytest.raises(GroupReplayError, match=r"the topic does not exist \(group-probes, h:1\)"):
        open_probes(ProbesPlace(CLUSTER, PROBES))


def test_probes_that_may_not_be_read(topic: ProbesTopic, caplog: pytest.LogCaptureFixture) -> None:
    """They are left out with a warning, unless somebody asked for them."""
    topic.refusal = GroupReplayError("not authorised")
    with pytest.raises(GroupReplayError, match="not authorised"):
        open_probes(ProbesPlace(CLUSTER, PROBES))
    with caplog.at_level(logging.WARNING):
        assert open_probes(ProbesPlace(CLUSTER, PROBES, asked_for=False)) is None
    assert [one.getMessage() for one in caplog.records] == [
        "the prober's answers in topic group-probes are not used: not authorised"
    ]


def test_chosen_partitions() -> None:
    """All of them, or those that were asked for, in order; a wrong number is a usage error."""
    assert chosen_partitions(None, 3) == [0, 1, 2]
    assert chosen_partitions([2, 0, 2], 3) == [0, 2]
    with pytest.raises(GroupReplayError, match="there is no partition 3") as caught:
        chosen_partitions([3], 3)
    assert caught.value.exit_code is ExitCode.USAGE


def test_a_topic_is_opened_with_its_probes(topic: ProbesTopic, monkeypatch: pytest.MonkeyPatch) -> None:
    """The spans of the chosen partitions and groups up to the end of now, counted; a round says that a prober asked."""
    spans: list[Sequence[tuple[int, int, int]]] = []

    def read(_: Connection, name: str, wanted: Any, progress: object) -> Iterator[pa.RecordBatch]:
        assert name == OFFSETS_TOPIC
        spans.append(wanted)
        yield rows_batch([Raw(0, 3, 1_000, b"k", None)])

    monkeypatch.setattr(module, "read_spans", read)
    monkeypatch.setattr(Connection, "identify", lambda *_: TopicIdentity("c", OFFSETS_TOPIC, "e", 3, {}))
    monkeypatch.setattr(Connection, "end_offsets", lambda *_: {0: 8, 1: 8, 2: 9})
    monkeypatch.setattr(Connection, "first_offsets", lambda *_: {0: 0, 1: 0, 2: 5})
    before_ms = now_ms()
    source = TopicSource(CLUSTER, ProbesPlace(CLUSTER, PROBES))
    rows = source.open()
    assert (rows.cluster_id, rows.era, rows.where) == ("c", "e", "the live topic of cluster c")
    assert (rows.is_probed, rows.partitions, rows.probes_topic) == (True, 3, PROBES)
    assert rows.complete_ms is not None
    assert before_ms <= rows.complete_ms <= source.end().at_ms
    assert list(rows.probes) == [probes_batch(MESSAGES)]
    assert (len(list(rows.batches)), rows.extent.records, rows.extent.last_ms) == (1, 1, 1_000)
    bare = TopicSource(CLUSTER)
    # The group "g" is in the partition 1 of three.
    for chosen in (bare.open([2, 0]), bare.open(groups=["g"]), bare.open([2], ["g"])):
        assert (list(chosen.probes), chosen.is_probed, len(list(chosen.batches))) == ([], False, 1)
    assert spans == [[(0, 0, 8), (1, 0, 8), (2, 5, 9)], [(0, 0, 8), (2, 5, 9)], [(1, 0, 8)], []]
    assert (bare.origin, bare.digest()) == ("live cluster", None)
