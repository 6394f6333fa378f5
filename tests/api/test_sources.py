"""Sources of the Python face."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import groupreplay
from groupreplay.api.sources import record_source
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.sources.topic import TopicSource


def test_several_captures_and_renamed_columns(mixed: Path, tmp_path: Path) -> None:
    """A list of paths is one log; columns of another writer are named as with ``--column``."""
    table = pq.read_table(mixed)
    half = table.num_rows // 2
    parts = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for path, rows in zip(parts, (table.slice(0, half), table.slice(half)), strict=True):
        pq.write_table(rows.rename_columns({"offset": "kafka_offset"}), path)
    expected = list(groupreplay.decode(mixed))
    assert (
        list(groupreplay.decode(groupreplay.capture(*parts, columns={"offset": "kafka_offset"}))) == expected
    )
    assert list(groupreplay.decode([mixed])) == expected


def test_a_topic_is_named_as_by_the_flags(tmp_path: Path) -> None:
    """The probes topic must exist only if it is named."""
    properties = tmp_path / "client.properties"
    properties.write_text("client.id=python\n")
    named = record_source(groupreplay.topic("host:9092", properties=properties, probes_topic="answers"))
    assert isinstance(named, TopicSource)
    assert (named.cluster.bootstrap_servers, named.cluster.properties["client.id"]) == ("host:9092", "python")
    assert named.probes is not None
    assert (named.probes.topic, named.probes.asked_for) == ("answers", True)
    default = record_source(groupreplay.topic("host:9092"))
    assert isinstance(default, TopicSource)
    assert default.probes is not None
    assert (default.probes.topic, default.probes.asked_for) == ("group-probes", False)


def test_no_source_is_an_error() -> None:
    """An empty list of captures names nothing."""
    with pytest.raises(GroupReplayError, match=r"no capture is named: give a path, or groupreplay\.topic"):
        groupreplay.list_groups([])
