"""Simulated groups of every scenario: detectors that are evaluated when they are due miss nothing."""

from __future__ import annotations

import pytest

from groupreplay.coordinator.simulation.scenarios import SCENARIOS
from groupreplay.state.conditions.agenda import Agenda
from groupreplay.state.policy.rules import Policy
from support.simulated.probed_lives import events_of, lives

#: Thresholds so small that the conditions come and go.
QUICK = Policy(
    thresholds={
        "rebalance.slow": {"threshold_ms": 2_000},
        "rebalance.stuck": {"threshold_ms": 5_000},
        "rebalance.timeouts": {"times": 1},
        "rebalance.storm": {"window_ms": 60_000, "least": 1, "per_slot": 0, "beyond": 1},
        "member.flapping": {"times": 1},
        "member.idle": {"rounds": 1, "least_ms": 10_000},
        "static.crash_loop": {"times": 1},
        "owner.silent": {"threshold_ms": 30_000, "commits": 1, "repeats": 0.0},
        "rebalance.suspected": {"threshold_ms": 30_000, "commits": 1, "repeats": 0.0},
    }
)


@pytest.mark.parametrize(
    "scenario",
    # Fifty members do what ten do, at five times the cost.
    [pytest.param(one, marks=[pytest.mark.long] if "-50-" in one else []) for one in SCENARIOS],
)
def test_the_same_events(scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when all are evaluated after every change, with the usual thresholds and with small ones."""
    groups = {group_id: life for group_id, life in lives(scenario, 0.25).items() if life.records}
    due = {
        (group_id, policy is QUICK): events_of(group_id, life.records, life.probes, policy)
        for group_id, life in groups.items()
        for policy in (Policy(), QUICK)
    }
    assert groups
    monkeypatch.setattr(Agenda, "_due", lambda agenda, _now_ms: list(agenda._detectors.detectors))
    for (group_id, is_quick), events in due.items():
        life = groups[group_id]
        assert events == events_of(group_id, life.records, life.probes, QUICK if is_quick else Policy())
