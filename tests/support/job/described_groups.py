"""Groups as ``list`` and ``describe`` receive them, from short histories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from groupreplay.app.inspection.groups import live_groups
from groupreplay.codecs import OffsetCommitKey, encode_key
from groupreplay.state import Context
from groupreplay.streaming.engine.replay import Replay
from groupreplay.streaming.kafka.topic_identity import TopicIdentity
from groupreplay.streaming.sources.capture import read_captures
from support.histories.builders import commit, generation, member
from support.histories.modern_builders import TOPIC
from support.job.captures import CLUSTER_ID, ERA, raw, write_capture

AT = 1_767_225_600_000
BROKER = TopicIdentity(CLUSTER_ID, "__consumer_offsets", ERA, 50, {47: "h:9092 (1)"})


def found(tmp_path: Path, *history: Any) -> list[dict[str, Any]]:
    """The groups after a history of group ``g`` and one commit of ``simple`` in another partition."""
    (one,) = raw([commit("t", 0, 1, at=AT)], partition=0)
    simple = one._replace(key=encode_key(OffsetCommitKey(group="simple", topic="t", partition=0)))
    path = write_capture(tmp_path / "a.parquet", [*raw(history), simple])
    return live_groups(Replay(Context(cluster_id=CLUSTER_ID, era=ERA)), read_captures([path]))


def stable(tmp_path: Path) -> list[dict[str, Any]]:
    """Group ``g`` with two members, one of them static and without partitions, and two commits."""
    history = [
        generation(4, member("a", [0, 1], client_id="app"), member("b", instance_id="i-b"), at=AT),
        commit("t", 0, 10, at=AT, leader_epoch=3, metadata="note"),
        commit("t", 9, 11, at=AT),
    ]
    return found(tmp_path, *history)


def of_kind(tmp_path: Path, history: list[Any]) -> list[dict[str, Any]]:
    """The group of one of the newer kinds, its topic named as a cluster would."""
    path = write_capture(tmp_path / "a.parquet", raw(history))
    context = Context(cluster_id=CLUSTER_ID, era=ERA, topic_names={TOPIC: "orders"})
    return live_groups(Replay(context), read_captures([path]))
