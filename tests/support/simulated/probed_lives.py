"""Simulated groups with what a prober sees of them, and what the coordinator has really done."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import lru_cache

from groupreplay.coordinator.simulation.scenario import Scenario
from groupreplay.coordinator.simulation.scenarios import SCENARIOS
from groupreplay.coordinator.simulation.simulation import (
    GroupProbe,
    GroupTransition,
    SimulationPlan,
    WrittenRecord,
    simulate,
)
from groupreplay.coordinator.trace_entries import AnyEntry, TraceEntry
from groupreplay.state import Context, Event, Group, Observations
from groupreplay.state.policy.rules import Policy
from groupreplay.state.snapshot.observations import Probe, ProbedMember
from support.histories.builders import Raw, observed

HOUR_MS = 3_600_000


@dataclass
class Life:
    """One simulated group."""

    records: list[Raw] = field(default_factory=list)
    probes: list[Probe] = field(default_factory=list)
    #: Time, state before and state after, of a classic group.
    changes: list[tuple[int, str, str]] = field(default_factory=list)
    #: The steps of the coordinator, if they are wanted.
    trace: list[AnyEntry] = field(default_factory=list)


@lru_cache
def lives(scenario: str, hours: float, groups: int = 3, traced: bool = False) -> dict[str, Life]:
    """Groups of one partition, by id; ``scenario`` is the name of one that is built in."""
    return scenario_lives(SCENARIOS[scenario], hours, groups, traced)


def scenario_lives(
    scenario: Scenario, hours: float, groups: int = 3, traced: bool = False
) -> dict[str, Life]:
    """The same of any scenario."""
    plan = SimulationPlan(
        scenario=scenario,
        groups=groups,
        duration_ms=int(hours * HOUR_MS),
        seed=11,
        partitions=1,
        traced=traced,
    )
    found: dict[str, Life] = defaultdict(Life)
    for item in simulate(plan, plan.group_ids()[0]):
        if isinstance(item, WrittenRecord):
            raw = Raw(item.key, item.value, item.offset, item.timestamp_ms)
            found[item.key.group].records.append(raw)
        elif isinstance(item, GroupProbe):
            found[item.group_id].probes.append(_probe(item, plan, len(found[item.group_id].probes)))
        elif isinstance(item, GroupTransition) and item.change.group_type == "classic":
            change = item.change
            found[item.group_id].changes.append((change.at_ms, change.before.value, change.after.value))
        elif isinstance(item, TraceEntry):
            found[item.group_id].trace.append(item)
    return found


def _probe(item: GroupProbe, plan: SimulationPlan, offset: int) -> Probe:
    assert plan.probe_interval_ms is not None
    members = item.summary.members
    return Probe(
        taken_ms=item.taken_ms,
        state=item.summary.state.value,
        topic="group-probes",
        partition=0,
        offset=offset,
        broker=plan.coordinator(0, item.taken_ms),
        members=tuple(
            ProbedMember(one.member_id, one.instance_id, one.client_id, one.client_host) for one in members
        ),
        unseen_ms=plan.probe_interval_ms,
        written_ms=item.taken_ms,
    )


def events_of(
    group_id: str, records: list[Raw], probes: list[Probe], policy: Policy | None = None
) -> list[Event]:
    """Everything in one call, and a minute more."""
    context = Context(cluster_id="c", era="era", probing=True, complete_since_ms=0, policy=policy or Policy())
    group, seen = Group(group_id, context), observed(records)
    found = group.apply(Observations(items=seen.items, seen_to=seen.seen_to, probes=probes), 0)
    return found + group.expire(max([records[-1].at, *(one.taken_ms for one in probes)]) + 60_000)
