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
from groupreplay.coordinator.simulation import (
    Crash,
    GroupSettings,
    Hang,
    Restart,
    Scenario,
    ScriptedEvent,
    SimulationPlan,
    Start,
    Stop,
)
from groupreplay.coordinator.simulation.script_steps import ScriptedStep
from groupreplay.state import Context
from groupreplay.streaming.engine.replay import Filter, Replay, events_in_order
from groupreplay.streaming.sources.capture import read_captures

MINUTE_MS = 60_000
LENGTH_MS = 45 * MINUTE_MS
Json = dict[str, Any]

INSTANCE = {"group.instance.id": "{group}-i{member}"}


def scenario(*events: ScriptedEvent, client: dict[str, Any] | None = None, **group: Any) -> Scenario:
    """A group of a topic with six partitions, whose members commit every five seconds."""
    client = {"auto.commit.interval.ms": 5_000, **(client or {})}
    return Scenario(name="scenario", client=client, group=GroupSettings(**group), events=events)


def stuck(*remedy: ScriptedStep) -> Scenario:
    """A member hangs while another one joins, and nobody helps for half an hour."""
    steps = (Hang(1), Start(9, at_ms=5_000), *remedy)
    return scenario(
        ScriptedEvent(after_ms=10 * MINUTE_MS, steps=steps), client={"max.poll.interval.ms": 1_800_000}
    )


def storm(client: dict[str, Any] | None = None) -> Scenario:
    """A member restarts every 25 seconds."""
    return scenario(ScriptedEvent(every_ms=25_000, steps=(Restart(1, 2_000),)), client=client)


def shared(event: ScriptedEvent) -> Scenario:
    """Two of four processes share an instance id."""
    return scenario(event, client=INSTANCE, members=4, same_instance_id=((1, 3),))


def reported(folder: Path, scenario: Scenario, name: str) -> list[Json]:
    """The events of a condition in an hour of one simulated group, in order."""
    plan = SimulationPlan.of(scenario, {}, groups=1, duration_ms=LENGTH_MS, seed=1, partitions=1)
    write_simulation(plan, folder / "a.parquet", force=True)
    context = Context(cluster_id=CLUSTER_ID, era=ERA, probing=True, complete_since_ms=0)
    lines = events_in_order(Replay(context).feed(read_captures([folder / "a.parquet"])), Filter())
    events = [json.loads(line) for line in lines]
    return [event for event in events if event["type"] == f"groupreplay.{name}.v1"]


def lasted_ms(events: list[Json]) -> int:
    """How long the first condition lasted."""
    (end,) = [one["data"] for one in events if one["data"]["status"] == "resolved"][:1]
    return int(end["elapsed_ms"])


def test_the_named_member_is_restarted(tmp_path: Path) -> None:
    """The event names the member that hangs; killing it ends the rebalance, and killing another one does not."""
    alone = reported(tmp_path, stuck(), "rebalance.stuck")
    (first, *_) = [event["data"]["suspects"] for event in alone if event["data"]["status"] == "firing"]
    assert first[0]["client_id"].endswith("1")
    assert lasted_ms(alone) > 29 * MINUTE_MS
    for number, helped in ((1, True), (2, False)):
        remedied = reported(tmp_path, stuck(Crash(number, at_ms=10 * MINUTE_MS)), "rebalance.stuck")
        assert (lasted_ms(remedied) < 12 * MINUTE_MS) is helped


def test_static_membership_ends_a_storm(tmp_path: Path) -> None:
    """With an instance id the same restarts cause no rebalance."""
    dynamic = reported(tmp_path, storm(), "rebalance.storm")
    assert [event["data"]["status"] for event in dynamic][:1] == ["firing"]
    assert reported(tmp_path, storm(INSTANCE), "rebalance.storm") == []


@pytest.mark.parametrize("stopped", [1, 3])
def test_one_of_two_processes_is_stopped(tmp_path: Path, stopped: int) -> None:
    """As long as both run the condition holds; without one of them, whichever, it ends.

    The broker's records keep the host of the first process, so the log of a classic group shows a crash loop.
    """
    turns = ((Crash(3), Start(3, at_ms=1)), (Crash(1), Start(1, at_ms=1)))
    both = reported(tmp_path, shared(ScriptedEvent(every_ms=2 * MINUTE_MS, cycle=turns)), "static.crash_loop")
    assert [event["data"]["status"] for event in both] == ["firing"]
    # Five times, and then only the other one is left.
    turns_ms = [2 * number * MINUTE_MS for number in range(5)]
    steps = [
        step
        for at_ms, member in zip(turns_ms, (3, 1, 3, 1, 3), strict=True)
        for step in (Crash(member, at_ms=at_ms), Start(member, at_ms=at_ms + 1))
    ]
    ended = shared(ScriptedEvent(steps=(*steps, Stop(stopped, at_ms=12 * MINUTE_MS))))
    events = reported(tmp_path, ended, "static.crash_loop")
    assert [event["data"]["status"] for event in events] == ["firing", "resolved"]
