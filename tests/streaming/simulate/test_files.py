"""Simulations as files: the same bytes for the same seed, a replay that finds the truth."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from groupreplay.state import Context
from groupreplay.state.simulation.simulation import SimulationPlan
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.engine.replay import Filter, Replay, events_in_order
from groupreplay.streaming.inspection.capture_file import read_captures
from groupreplay.streaming.simulate.files import CLUSTER_ID, ERA, truth_path, write_simulation
from groupreplay.streaming.simulate.scenario_files import load_scenario

HOUR_MS = 3_600_000


def written(folder: Path, scenario: str, groups: int, duration_ms: int, seed: int = 1) -> Path:
    """A simulation in few partitions."""
    path = folder / f"{scenario}.parquet"
    plan = SimulationPlan(
        scenario=load_scenario(scenario), groups=groups, duration_ms=duration_ms, seed=seed, partitions=3
    )
    write_simulation(plan, path)
    return path


def events(path: Path) -> list[dict[str, Any]]:
    """What the job would say."""
    driver = Replay(Context(cluster_id=CLUSTER_ID, era=ERA, probing=True, complete_since_ms=0), None)
    said = [json.loads(event) for event in events_in_order(driver.feed(read_captures([path])), Filter())]
    assert driver.dead_letters == 0
    return said


def truth(path: Path) -> list[dict[str, Any]]:
    """What really happened."""
    return [json.loads(line) for line in truth_path(path).read_text().splitlines()]


def test_a_replay_finds_the_truth(tmp_path: Path) -> None:
    """Each generation, each group's beginning and end; of rebalances it says those that a prober has met."""
    path = written(tmp_path, "mixed", 12, HOUR_MS // 2)
    told, happened = defaultdict(list), defaultdict(list)
    for event in events(path):
        data = event["data"]
        told[event["type"].split(".", 1)[1]].append((data["group_id"], data.get("generation") or 0))
    for change in truth(path):
        step = change.get("before"), change.get("after")
        happened[step].append((change["group_id"], change.get("generation")))
    for name, step in {
        "rebalance.completed.v1": ("CompletingRebalance", "Stable"),
        "group.created.v1": ("Dead", "Empty"),
        "group.emptied.v1": ("PreparingRebalance", "Empty"),
    }.items():
        assert sorted(told[name]) == sorted(happened[step])
    begun = {at for (_, after), all_ in happened.items() if after == "PreparingRebalance" for at, _ in all_}
    assert set() < {group_id for group_id, _ in told["rebalance.started.v1"]} <= begun


def test_one_seed_gives_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    """Whatever Python's hash of texts is."""
    command = [
        sys.executable,
        "-m",
        "groupreplay.streaming",
        "simulate",
        "--scenario",
        "mixed",
        "--seed",
        "4",
    ]
    command += ["--groups", "5", "--seconds", "300", "-o"]
    written = set()
    for number in (1, 2):
        path = tmp_path / f"{number}.parquet"
        environment = {**os.environ, "PYTHONHASHSEED": str(number)}
        subprocess.run([*command, str(path)], check=True, env=environment, cwd=tmp_path)
        written.add(path.read_bytes() + truth_path(path).read_bytes())
    assert len(written) == 1


def test_nothing_is_left_of_a_simulation_that_cannot_be_written(tmp_path: Path) -> None:
    """The folder is not there."""
    plan = SimulationPlan(scenario=load_scenario("mixed"), groups=1, duration_ms=1_000, seed=0)
    with pytest.raises(GroupReplayError, match="No such file or directory"):
        write_simulation(plan, tmp_path / "nowhere" / "a.parquet")
    assert list(tmp_path.iterdir()) == []
