"""A slow rebalance is reported soon and names its member; a roll-out in which a process is killed raises no warning."""

from __future__ import annotations

import pytest

from groupreplay.coordinator.simulation.scenario import GroupSettings, Scenario
from groupreplay.coordinator.simulation.script import MINUTE_MS, SECOND_MS, STATIC, About
from groupreplay.coordinator.simulation.script_steps import Crash, Roll, ScriptedEvent
from groupreplay.state import Event, Severity
from groupreplay.state.conditions.rebalance_slow import RebalanceSlow
from groupreplay.state.policy.rules import Policy
from support.simulated.probed_lives import events_of, lives, scenario_lives

#: The process ends a second after its neighbour was stopped: inside a rebalance, of which it has not heard.
KINDS = [
    (members, instance, assignor)
    for members in (3, 10)
    for instance in ("", STATIC)
    for assignor in ("range", "cooperative-sticky")
]


def slow(events: list[Event]) -> list[tuple[Event, RebalanceSlow]]:
    """The reports of slow rebalances."""
    found = [(event, event.fact) for event in events if isinstance(event.fact, RebalanceSlow)]
    return [(event, fact) for event, fact in found if fact.status == "firing"]


def of_killed(kind: tuple[int, str, str], hours: float) -> list[Event]:
    """The events of three groups of a kind, in whose rolling restarts one process is killed."""
    members, instance, assignor = kind
    killed = Scenario(
        name="killed",
        client={"group.instance.id": instance, "partition.assignment.strategy": assignor},
        group=GroupSettings(members=members, partitions=12),
        events=(
            ScriptedEvent(
                every_ms=About(20 * MINUTE_MS, per_member_ms=2 * MINUTE_MS),
                steps=(Roll(), Crash(2, at_ms=31 * SECOND_MS)),
            ),
        ),
    )
    groups = scenario_lives(killed, hours)
    return [event for name, life in groups.items() for event in events_of(name, life.records, life.probes)]


def test_a_killed_process_in_a_roll_out_is_no_warning() -> None:
    """Its session ends the rebalance; that may be longer than usual, which is INFO."""
    events = of_killed((10, "", "range"), 1)
    assert [event for event in events if event.severity is not None and event.severity >= Severity.WARN] == []


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("kind", KINDS)
def test_a_day_of_roll_outs_with_a_killed_process(kind: tuple[int, str, str]) -> None:
    """24 hours of each kind of rolling restart."""
    events = of_killed(kind, 24)
    assert [event for event in events if event.severity is not None and event.severity >= Severity.WARN] == []


@pytest.mark.parametrize("scenario", ["stuck", "stuck-kip848"])
def test_after_a_minute_the_right_member_is_first(scenario: str) -> None:
    """In at least nine of ten rebalances: the script says which client hangs."""
    policy = Policy(thresholds={"rebalance.slow": {"threshold_ms": 60_000}})
    named = []
    for group_id, life in lives(scenario, 8).items():
        for event, fact in slow(events_of(group_id, life.records, life.probes, policy)):
            assert event.severity is Severity.WARN
            assert fact.elapsed_ms == 60_000
            members = fact.blockers or fact.suspects or ()
            named.append(members[0].client_id if members else fact.suspects_note)
    right = [one for one in named if one is not None and one.endswith("-1")]
    assert len(named) >= 15
    assert len(right) >= 0.9 * len(named)
