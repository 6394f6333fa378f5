"""``groupreplay.simulate``: the files of the command."""

from __future__ import annotations

from pathlib import Path

import pytest

import groupreplay
from groupreplay.streaming.base.errors import GroupReplayError
from support.job.captures import invoke


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
