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
from jsonschema_rs import Draft202012Validator

from groupreplay.app.simulate.files import (
    CLUSTER_ID,
    ERA,
    trace_path,
    truth_path,
    write_simulation,
)
from groupreplay.coordinator.simulation.scenarios import SCENARIOS
from groupreplay.coordinator.simulation.simulation import SimulationPlan
from groupreplay.coordinator.trace_entries import trace_schema
from groupreplay.state import Context
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.engine.replay import Filter, Replay, events_in_order
from groupreplay.streaming.sources.capture import read_captures

HOUR_MS = 3_600_000


def written(folder: Path, scenario: str, groups: int, duration_ms: int, seed: int = 1) -> Path:
    """A simulation in few partitions."""
    path = folder / f"{scenario}.parquet"
    plan = SimulationPlan(
        scenario=SCENARIOS[scenario], groups=groups, duration_ms=duration_ms, seed=seed, partitions=3
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
        "groupreplay",
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


@pytest.mark.parametrize(
    "scenario", ["mixed", "migration", "stuck-kip848", "transactions", "cluster-restart"]
)
def test_a_trace_of_every_step(tmp_path: Path, scenario: str) -> None:
    """The capture is the same with it; each line is as the schema says; answers and timers belong together."""
    plain = written(tmp_path, scenario, 4, HOUR_MS // 2).read_bytes()
    plan = SimulationPlan(
        scenario=SCENARIOS[scenario],
        groups=4,
        duration_ms=HOUR_MS // 2,
        seed=1,
        partitions=3,
        traced=True,
    )
    path = tmp_path / f"{scenario}.parquet"
    write_simulation(plan, path, trace=trace_path(path), force=True)
    assert path.read_bytes() == plain
    told = [json.loads(line) for line in trace_path(path).read_text().splitlines()]
    schema = Draft202012Validator(trace_schema())
    assert [line for line in told if not schema.is_valid(line)] == []
    happened = [(one["time_ms"], one["group_id"], one["after"]) for one in truth(path) if "after" in one]
    states = [(one["time_ms"], one["group_id"], one["after"]) for one in told if one["kind"] == "state"]
    assert sorted(states) == sorted(happened)
    assert left_over(told) == []


def left_over(told: list[dict[str, Any]]) -> list[str]:
    """What does not fit: answers without a request, times that go back, timers that fire without being due."""
    asked, due, latest = set(), {}, defaultdict(int)
    wrong = []
    for one in told:
        group, kind = one["group_id"], one["kind"]
        if one["time_ms"] < latest[group]:
            wrong.append(f"earlier than the step before: {one}")
        latest[group] = one["time_ms"]
        if kind == "request":
            asked.add((group, one["request"]))
        elif kind == "answer" and (group, one["request"]) not in asked:
            wrong.append(f"nobody has asked: {one}")
        elif kind == "timer":
            key = (group, one["timer"], one["member_id"])
            known = due.pop(key, None)
            if one["change"] in ("set", "extended"):
                due[key] = one["due_ms"]
                known_before = one["was_due_ms"]
            else:
                known_before = one["due_ms"]
            if known != known_before:
                wrong.append(f"another timer than the one that was set, due at {known}: {one}")
            if one["change"] == "fired" and one["time_ms"] != known:
                wrong.append(f"fired at another time than {known}: {one}")
    return wrong


def test_nothing_is_left_of_a_simulation_that_cannot_be_written(tmp_path: Path) -> None:
    """The folder is not there."""
    plan = SimulationPlan(scenario=SCENARIOS["mixed"], groups=1, duration_ms=1_000, seed=0)
    with pytest.raises(GroupReplayError, match="No such file or directory"):
        write_simulation(plan, tmp_path / "nowhere" / "a.parquet")
    assert list(tmp_path.iterdir()) == []
