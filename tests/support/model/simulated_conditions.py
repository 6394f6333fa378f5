"""The conditions that the job is expected to raise for each simulated scenario, and checks of a replay for them.

A test compares the table ``EXPECTED`` with docs/simulations.md.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groupreplay.app.simulate.files import CLUSTER_ID, ERA, write_simulation
from groupreplay.coordinator.simulation.scenarios import SCENARIOS
from groupreplay.coordinator.simulation.script import ClientAction
from groupreplay.coordinator.simulation.simulation import BEGIN_MS, SimulationPlan
from groupreplay.state import Context
from groupreplay.state.events.event import Severity
from groupreplay.state.phrases import timestamp_ms
from groupreplay.streaming.engine.replay import Filter, Replay, events_in_order
from groupreplay.streaming.sources.capture import read_captures

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
Json = dict[str, Any]


@dataclass(frozen=True)
class SimulatedRun:
    """A simulation and the events of its replay, with the default rules."""

    plan: SimulationPlan
    events: list[Json]

    def of(self, group_id: str, name: str) -> list[Json]:
        """The events of one group and type."""
        kind = f"groupreplay.{name}.v1"
        return [one for one in self.events if one["type"] == kind and one["data"]["group_id"] == group_id]

    def groups(self) -> list[str]:
        """Every simulated group."""
        return [group_id for ids in self.plan.group_ids() for group_id in ids]


def run_simulation(folder: Path, scenario: str, groups: int, duration_ms: int, seed: int = 1) -> SimulatedRun:
    """Simulate the scenario and replay it with the probes."""
    path = folder / f"{scenario}.parquet"
    found = SCENARIOS[scenario]
    # With the default of a week no offset would expire in a day.
    expiry = {"offsets.retention.minutes": duration_ms // 4 // MINUTE_MS} if scenario == "expiry" else {}
    plan = SimulationPlan.of(
        found, {**found.broker, **expiry}, groups=groups, duration_ms=duration_ms, seed=seed, partitions=2
    )
    write_simulation(plan, path)
    rows = read_captures([path])
    assert rows.retention is not None
    context = Context(
        cluster_id=CLUSTER_ID, era=ERA, probing=True, complete_since_ms=0, **rows.retention.for_context()
    )
    driver = Replay(context, None)
    events = [json.loads(one) for one in events_in_order(driver.feed(rows), Filter())]
    assert driver.dead_letters == 0
    return SimulatedRun(plan, events)


def unexpected_warnings(one: SimulatedRun) -> list[tuple[str, str, str | None]]:
    """All events of WARN or above but those that are true in the scenario: time, type, group."""
    scenario = one.plan.scenario.name
    is_true: Callable[[SimulatedRun, Json], bool] = TRUE_WARNINGS.get(scenario, lambda *_: False)
    return [
        (event["time"], event["type"], event["data"].get("group_id"))
        for event in one.events
        if event["severitynumber"] >= Severity.WARN and not is_true(one, event)
    ]


def _is_before_the_pace(one: SimulatedRun, event: Json) -> bool:
    """The first or second set after the members have left: the log does not show who sets offsets.

    Records that a person skips look the same until a third set shows the pace of a tool.
    """
    group_id = event["data"]["group_id"]
    begin = max(left["time"] for left in one.of(group_id, "group.emptied") if left["time"] < event["time"])
    earlier = [step for step in one.of(group_id, "offsets.set") if begin < step["time"] < event["time"]]
    return bool(event["type"] == "groupreplay.offsets.set.v1" and len(earlier) < 2)


def _is_evicted(_: SimulatedRun, event: Json) -> bool:
    """A member that was killed for two minutes: its session has ended while the others worked on."""
    data = event["data"]
    return bool(
        event["type"] == "groupreplay.member.left.v1"
        and data["reason"] == "session_timeout"
        and data["elapsed_ms"] >= _SESSION_MS
    )


#: ``session.timeout.ms`` of the scenario ``resubscribed``.
_SESSION_MS = 45_000
#: Scenarios in which something happens that a person must hear of, although no condition is raised.
TRUE_WARNINGS: Mapping[str, Callable[[SimulatedRun, Json], bool]] = {
    "mirrored": _is_before_the_pace,
    "resubscribed": _is_evicted,
}


def missed_conditions(one: SimulatedRun, condition: str) -> list[str]:
    """For each group, when the expected condition was not raised."""
    check = EXPECTED[one.plan.scenario.name][1]
    return [f"{group_id}: {miss}" for group_id in one.groups() for miss in check(one, group_id, condition)]


def _throughout(one: SimulatedRun, group_id: str, condition: str) -> Iterator[str]:
    """The condition is active from the first hour on, except for at most a tenth of the time."""
    start = BEGIN_MS + min(HOUR_MS, one.plan.duration_ms // 2)
    held_ms, since_ms = 0, start
    # The condition may be active for several members at a time.
    firing = set[str]()
    for event in one.of(group_id, condition):
        at_ms = max(event["data"]["at_ms"] if "at_ms" in event["data"] else _ms(event["time"]), start)
        held_ms += at_ms - since_ms if firing else 0
        since_ms = at_ms
        change = firing.add if event["data"]["status"] == "firing" else firing.discard
        change(event["data"]["condition_id"])
    held_ms += one.plan.end_ms - since_ms if firing else 0
    if held_ms < 0.9 * (one.plan.end_ms - start):
        yield f"{condition} held for {held_ms} of {one.plan.end_ms - start} ms"


def _episodes(one: SimulatedRun, group_id: str, condition: str) -> Iterator[str]:
    """The condition is raised each time that a member hangs, before the member leaves."""
    plan = one.plan
    # The random numbers from which the simulation draws the script.
    script = plan.scenario.draw(random.Random(f"{plan.seed} {group_id}"), plan.duration_ms)
    fired = [
        _ms(event["time"]) for event in one.of(group_id, condition) if event["data"]["status"] == "firing"
    ]
    for step in script.steps:
        begin = BEGIN_MS + step.at_ms
        end = begin + script.rebalance_timeout_ms
        if (
            step.action is ClientAction.HANG
            and end < plan.end_ms
            and not any(begin < at <= end for at in fired)
        ):
            yield f"no {condition} for the hang at {begin}"


def _each_outage(one: SimulatedRun, group_id: str, condition: str) -> Iterator[str]:
    """The condition is raised each time that the offsets topic cannot be written."""
    failed = one.plan.scenario.failed_appends
    assert failed is not None
    fired = [
        _ms(event["time"]) for event in one.of(group_id, condition) if event["data"]["status"] == "firing"
    ]
    last_ms = failed.last_ms
    for begin in range(BEGIN_MS + failed.first_ms, one.plan.end_ms, failed.every_ms):
        if begin + last_ms < one.plan.end_ms and not any(begin < at <= begin + last_ms for at in fired):
            yield f"no {condition} for the outage at {begin}"


def _once(one: SimulatedRun, group_id: str, condition: str) -> Iterator[str]:
    """The condition is raised; ``offsets.expiring`` is followed by ``offsets.expired``."""
    if not one.of(group_id, condition):
        yield f"no {condition}"
    if condition == "offsets.expiring" and not one.of(group_id, "offsets.expired"):
        yield "no offsets.expired"


def _ms(time: str) -> int:
    at_ms = timestamp_ms(time)
    assert at_ms is not None
    return at_ms


#: The simulated hours in which the expected condition is raised; 24 for all others.
HOURS = {"weekend": 72}
#: Scenarios of healthy groups.
HEALTHY = (
    "steady",
    "simple",
    *(
        f"rolling-restart-{members}-{kind}-{assignor}"
        for members in (3, 10, 50)
        for kind in ("dynamic", "static")
        for assignor in ("eager", "cooperative")
    ),
    "autoscale",
    "deployment",
    "cluster-restart",
    "irregular",
    "transactions",
    "rolling-restart-10-kip848",
    "migration",
    "rollout-kill",
    "loading",
    "failed-appends",
    "mirrored",
    "resubscribed",
)
#: Scenarios of groups with problems: the expected condition, and its check.
EXPECTED: Mapping[str, tuple[str, Callable[[SimulatedRun, str, str], Iterator[str]]]] = {
    "stuck": ("rebalance.stuck", _episodes),
    "stuck-kip848": ("rebalance.stuck", _episodes),
    "storm": ("rebalance.storm", _throughout),
    "flapping": ("member.flapping", _throughout),
    "crash-loop": ("static.crash_loop", _throughout),
    "conflict": ("static.crash_loop", _throughout),
    "timeouts": ("rebalance.timeouts", _throughout),
    "idle": ("member.idle", _throughout),
    "silent": ("owner.silent", _episodes),
    "poison": ("partition.poison", _throughout),
    "pause": ("commits.paused", _episodes),
    "unwritable": ("rebalance.stuck", _each_outage),
    "expiry": ("offsets.expiring", _once),
    "weekend": ("offsets.expiring", _once),
}
