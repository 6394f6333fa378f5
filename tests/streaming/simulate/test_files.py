"""Simulations as files: the same bytes for the same seed, a replay that finds the truth."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from groupreplay.state import Context
from groupreplay.state.simulation.simulation import SimulationPlan
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.engine.replay import Filter, Replay, events_in_order
from groupreplay.streaming.inspection.capture_file import read_captures
from groupreplay.streaming.simulate.files import CLUSTER_ID, ERA, truth_path, write_simulation

HOUR_MS = 3_600_000


def written(folder: Path, scenario: str, groups: int, duration_ms: int, seed: int = 1) -> Path:
    """A simulation in few partitions."""
    path = folder / f"{scenario}.parquet"
    plan = SimulationPlan(scenario=scenario, groups=groups, duration_ms=duration_ms, seed=seed, partitions=3)
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
    true, said = truth(path), events(path)

    def told(name: str) -> list[tuple[str, int | None]]:
        return sorted(
            (event["data"]["group_id"], event["data"]["generation"] or 0)
            for event in said
            if event["type"] == f"groupreplay.{name}.v1"
        )

    def happened(before: set[str], after: str) -> list[tuple[str, int | None]]:
        return sorted(
            (change["group_id"], change["generation"])
            for change in true
            if change.get("before") in before and change["after"] == after
        )

    assert told("rebalance.completed") == happened({"CompletingRebalance"}, "Stable")
    assert told("group.created") == happened({"Dead"}, "Empty")
    assert told("group.emptied") == happened({"PreparingRebalance"}, "Empty")
    begun = {change["group_id"] for change in true if change.get("after") == "PreparingRebalance"}
    started = {group_id for group_id, _ in told("rebalance.started")}
    assert set() < started <= begun


def test_one_seed_gives_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    """Whatever Python's hash of texts is."""
    script = (
        "import sys; from pathlib import Path; from groupreplay.state.simulation.simulation import SimulationPlan; "
        "from groupreplay.streaming.simulate.files import write_simulation; "
        "plan = SimulationPlan(scenario='mixed', groups=5, duration_ms=300_000, seed=4); "
        "write_simulation(plan, Path(sys.argv[1]))"
    )
    sums = set()
    for number in (1, 2):
        path = tmp_path / f"{number}.parquet"
        environment = {**os.environ, "PYTHONHASHSEED": str(number)}
        subprocess.run([sys.executable, "-c", script, str(path)], check=True, env=environment, cwd=tmp_path)
        both = path.read_bytes() + truth_path(path).read_bytes()
        sums.add(hashlib.sha256(both).hexdigest())
    assert len(sums) == 1


def test_nothing_is_left_of_a_simulation_that_cannot_be_written(tmp_path: Path) -> None:
    """The folder is not there."""
    plan = SimulationPlan(scenario="mixed", groups=1, duration_ms=1_000, seed=0)
    with pytest.raises(GroupReplayError, match="No such file or directory"):
        write_simulation(plan, tmp_path / "nowhere" / "a.parquet")
    assert list(tmp_path.iterdir()) == []
