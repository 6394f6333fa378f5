"""Histories that advice is made from: of simulated groups, and of a few records; and how long groups stood still."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from groupreplay.api.sources import open_log
from groupreplay.app.report.timelines import TimelineQuery, timeline_inputs
from groupreplay.app.simulate.files import trace_path, truth_path, write_simulation
from groupreplay.coordinator.simulation.scenario import ClientValue, GroupSettings, Scenario
from groupreplay.coordinator.simulation.script_steps import ScriptedEvent
from groupreplay.coordinator.simulation.simulation import SimulationPlan
from groupreplay.state.snapshot.partitions import each
from groupreplay.streaming.engine.group_choice import GroupChoice
from groupreplay.timeline.advice.finding import Finding, Kind
from groupreplay.timeline.advice.group_advice import FINDERS
from groupreplay.timeline.advice.inputs import AdviceInput, GroupUse, advice_input
from support.histories.builders import CONTEXT, Raw, placed, replay
from support.pictures.timelines import SOURCE, input_of

HOUR_MS = 3_600_000
EAGER: dict[str, ClientValue] = {"partition.assignment.strategy": "range", "auto.commit.interval.ms": 5_000}


def scripted(*events: ScriptedEvent, members: int = 4, partitions: int = 6, **client: Any) -> Scenario:
    """A scenario of one kind of group; ``client``: its settings."""
    return Scenario(
        name="advised",
        client={**EAGER, **client},
        group=GroupSettings(members=members, partitions=partitions),
        events=events,
    )


def written(scenario: Scenario, path: Path, groups: int, hours: float, seed: int) -> Path:
    """A capture of simulated groups with the brokers' settings of the scenario; its true states and its trace."""
    plan = SimulationPlan.of(
        scenario, scenario.broker, groups=groups, duration_ms=int(hours * HOUR_MS), seed=seed, partitions=2
    )
    write_simulation(replace(plan, traced=True), path, trace=trace_path(path), force=True)
    return path


def simulated(
    scenario: Scenario, path: Path, *, groups: int = 3, hours: float = 2, seed: int = 5
) -> list[AdviceInput]:
    """The histories of simulated groups, by their ids."""
    opened = open_log(str(written(scenario, path, groups, hours, seed)), None, None, member_events=True)
    query = TimelineQuery(groups=GroupChoice(), source=SOURCE)
    inputs, replayed = timeline_inputs(opened.rows, opened.context, query)
    described = {group.group_id: group.describe() for group in replayed.groups()}
    return [
        advice_input(
            given,
            GroupUse(
                described=described.get(given.group_id, {}),
                retention_ms=opened.context.assumed_retention_ms,
            ),
        )
        for given in inputs
    ]


def small(history: Sequence[Raw], **use: Any) -> AdviceInput:
    """The history of a few records of one group; ``use``: what is known beside it."""
    group, _ = replay(placed(history), CONTEXT)
    return advice_input(input_of(history), GroupUse(**{"described": group.describe(), **use}))


def found(history: AdviceInput, kind: Kind) -> Finding | None:
    """The finding of one kind, if there is one."""
    return next(iter(FINDERS[kind](history)), None)


def saved(finding: Finding | None, measure: str) -> tuple[int, int | None] | None:
    """The range of an effect of a finding."""
    if finding is None:
        return None
    return next(((each.least, each.most) for each in finding.effects if each.measure == measure), None)


def true_lengths(path: Path) -> dict[str, dict[int, int]]:
    """By group and time of the end: how long each classic rebalance of a simulation truly was."""
    lengths: dict[str, dict[int, int]] = {}
    begun: dict[str, int] = {}
    for line in truth_path(path).read_text().splitlines():
        step = json.loads(line)
        if step["after"] == "PreparingRebalance" and step["before"] in ("Stable", "Empty"):
            begun[step["group_id"]] = step["time_ms"]
        if step["after"] == "Stable":
            end_ms = step["time_ms"]
            lengths.setdefault(step["group_id"], {})[end_ms] = end_ms - begun.get(step["group_id"], end_ms)
    return lengths


def truly_held_ms(path: Path, history: AdviceInput) -> int:
    """How long the partitions of members that stayed truly stood still, summed: from each one's last JoinGroup on."""
    joins: dict[str, list[int]] = {}
    for line in trace_path(path).read_text().splitlines():
        step = json.loads(line)
        if (
            step["group_id"] == history.group_id
            and step.get("api") == "JoinGroup"
            and step["kind"] == "request"
        ):
            joins.setdefault(step["member_id"], []).append(step["time_ms"])
    total_ms = 0
    for before, after in pairwise(history.rebalances):
        members = {member["member_id"]: member for member in before.event.mappings("members")}
        for member_id in members.keys() - after.went:
            joined_ms = [at for at in joins.get(member_id, ()) if before.at_ms < at <= after.at_ms]
            held = sum(1 for _ in each(members[member_id]["partitions"]))
            total_ms += held * (after.at_ms - max(joined_ms))
    return total_ms
