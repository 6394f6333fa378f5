"""Sources of the Python face: captures, topics, and captures of simulated groups."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import groupreplay
from groupreplay.api.sources import record_source
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.sources.topic import TopicSource
from support.job.captures import invoke
from support.remedies import read_remedy


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


def test_the_files_are_those_of_the_command(tmp_path: Path) -> None:
    """The same arguments give the same bytes, of the capture and of the true states."""
    brokers = {"group.initial.rebalance.delay.ms": "0"}
    path = tmp_path / "a.parquet"
    done = groupreplay.simulate(
        "storm", path, groups=2, seconds=90, seed=4, probe_interval=0, brokers=brokers
    )
    words = (
        "--scenario",
        "storm",
        "--groups",
        "2",
        "--seconds",
        "90",
        "--seed",
        "4",
        "--probe-interval",
        "0",
    )
    invoke(
        "simulate",
        *words,
        "--broker-property",
        "group.initial.rebalance.delay.ms=0",
        "-o",
        tmp_path / "b.parquet",
    )
    assert done.truth == tmp_path / "a.truth.jsonl"
    assert path.read_bytes() == (tmp_path / "b.parquet").read_bytes()
    assert done.truth.read_bytes() == (tmp_path / "b.truth.jsonl").read_bytes()
    assert done.records == len(list(groupreplay.decode(path)))


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    """A scenario that there is not, a setting that Kafka has not, and a file that exists."""
    path = tmp_path / "a.parquet"
    with pytest.raises(GroupReplayError, match="there is no scenario 'strom'"):
        groupreplay.simulate("strom", path)
    with pytest.raises(GroupReplayError, match=r"group\.size"):
        groupreplay.simulate("storm", path, brokers={"group.size": "2"})
    path.write_text("mine")
    with pytest.raises(GroupReplayError):
        groupreplay.simulate("storm", path, groups=1, seconds=60)
    assert path.read_text() == "mine"


@pytest.mark.parametrize(
    ("wrong", "least"), [({"groups": 0}, 1), ({"seconds": 0}, 1), ({"probe_interval": -5}, 0)]
)
def test_numbers_are_those_of_the_command(tmp_path: Path, wrong: dict[str, int], least: int) -> None:
    """A prober that asks backwards in time would never end; with the number that is named the capture is written."""
    path, usual = tmp_path / "a.parquet", {"groups": 1, "seconds": 1}
    with pytest.raises(GroupReplayError) as error:
        groupreplay.simulate("steady", path, **{**usual, **wrong})
    read_remedy("api.sources: give … or more", str(error.value))
    assert f"give {least} or more" in str(error.value)
    assert not path.exists()
    groupreplay.simulate("steady", path, **{**usual, **dict.fromkeys(wrong, least)})
    assert path.exists()
