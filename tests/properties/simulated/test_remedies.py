"""The runbook's remedies for stuck rebalances, storms and shared instance ids, in the model of the coordinator.

Each is a scenario with the problem, and the same one with what the runbook says. The other remedies are commands, which
tests/integration/remedies runs on a broker.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from groupreplay.app.simulate.files import CLUSTER_ID, ERA, write_simulation
from groupreplay.app.simulate.scenario_files import load_scenario
from groupreplay.coordinator.simulation.simulation import SimulationPlan
from groupreplay.state import Context
from groupreplay.streaming.engine.replay import Filter, Replay, events_in_order
from groupreplay.streaming.sources.capture import read_captures

MINUTE_MS = 60_000
LENGTH_MS = 45 * MINUTE_MS
Json = dict[str, Any]

STUCK = """
title = "A member hangs while another one joins, and nobody helps for half an hour"
[client]
"auto.commit.interval.ms" = 5000
"max.poll.interval.ms" = 1_800_000
[group]
members = 3
partitions = 6
[[event]]
after = "10m"
steps = [{ do = "hang", member = 1 }, { at = "5s", do = "start", member = 9 }, REMEDY]
"""
STORM = """
title = "A member restarts every 25 seconds"
[client]
"auto.commit.interval.ms" = 5000
CLIENT
[group]
members = 3
partitions = 6
[[event]]
after = "1m"
every = "25s"
steps = [{ do = "restart", member = 1, crash = 0.0, down = "2s" }]
"""
SHARED = """
title = "Two processes share an instance id, until one is stopped"
[client]
"auto.commit.interval.ms" = 5000
"group.instance.id" = "{group}-i{member}"
[group]
members = 4
partitions = 6
same-instance-id = [[1, 3]]
[[event]]
after = "1m"
every = "2m"
cycle = [
  [{ do = "crash", member = 3 }, { at = "1ms", do = "start", member = 3 }],
  [{ do = "crash", member = 1 }, { at = "1ms", do = "start", member = 1 }],
]
"""


def told(folder: Path, scenario: str, name: str) -> list[Json]:
    """The events of a condition in an hour of one simulated group, in order."""
    (folder / "scenario.toml").write_text(scenario, encoding="utf-8")
    found = load_scenario(str(folder / "scenario.toml"))
    plan = SimulationPlan.of(found, found.broker, groups=1, duration_ms=LENGTH_MS, seed=1, partitions=1)
    write_simulation(plan, folder / "a.parquet", force=True)
    context = Context(cluster_id=CLUSTER_ID, era=ERA, probing=True, complete_since_ms=0)
    events = events_in_order(Replay(context).feed(read_captures([folder / "a.parquet"])), Filter())
    decoded = [json.loads(one) for one in events]
    return [one for one in decoded if one["type"] == f"groupreplay.{name}.v1"]


def lasted_ms(events: list[Json]) -> int:
    """How long the first condition lasted."""
    (end,) = [one["data"] for one in events if one["data"]["status"] == "resolved"][:1]
    return int(end["elapsed_ms"])


def test_the_named_member_is_restarted(tmp_path: Path) -> None:
    """The event names the member that hangs; killing it ends the rebalance, and killing another one does not."""
    alone = told(tmp_path, STUCK.replace(", REMEDY", ""), "rebalance.stuck")
    (first, *_) = [one["data"]["suspects"] for one in alone if one["data"]["status"] == "firing"]
    assert first[0]["client_id"].endswith("1")
    assert lasted_ms(alone) > 29 * MINUTE_MS
    step = '{ at = "10m", do = "crash", member = NUMBER }'
    for number, helped in ((1, True), (2, False)):
        remedy = STUCK.replace("REMEDY", step.replace("NUMBER", str(number)))
        assert (lasted_ms(told(tmp_path, remedy, "rebalance.stuck")) < 12 * MINUTE_MS) is helped


def test_static_membership_ends_a_storm(tmp_path: Path) -> None:
    """With an instance id the same restarts cause no rebalance."""
    dynamic = told(tmp_path, STORM.replace("CLIENT", ""), "rebalance.storm")
    assert [one["data"]["status"] for one in dynamic][:1] == ["firing"]
    static = STORM.replace("CLIENT", '"group.instance.id" = "{group}-i{member}"')
    assert told(tmp_path, static, "rebalance.storm") == []


@pytest.mark.parametrize("stopped", [1, 3])
def test_one_of_two_processes_is_stopped(tmp_path: Path, stopped: int) -> None:
    """As long as both run the condition holds; without one of them, whichever, it ends.

    The broker's records keep the host of the first process, so the log of a classic group shows a crash loop.
    """
    both = told(tmp_path, SHARED, "static.crash_loop")
    assert [one["data"]["status"] for one in both] == ["firing"]
    lines = SHARED.splitlines()
    cycle = lines.index("cycle = [")
    # Five times, and then only the other one is left.
    times = [
        f'{{ at = "{2 * number}m", do = "crash", member = {member} }}, '
        f'{{ at = "{2 * number * MINUTE_MS + 1}ms", do = "start", member = {member} }}'
        for number, member in enumerate([3, 1, 3, 1, 3])
    ]
    ended = [
        *lines[: cycle - 1],
        f'steps = [{", ".join(times)}, {{ at = "12m", do = "stop", member = {stopped} }}]',
    ]
    found = told(tmp_path, "\n".join(ended), "static.crash_loop")
    assert [one["data"]["status"] for one in found] == ["firing", "resolved"]
