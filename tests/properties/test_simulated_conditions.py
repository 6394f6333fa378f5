"""Conditions of simulated groups with the default rules: none for healthy groups, the expected one for each problem."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupreplay.coordinator.simulation.scenarios import SCENARIOS
from groupreplay.coordinator.simulation.simulation import SimulationPlan
from support.model.simulated_conditions import (
    EXPECTED,
    HEALTHY,
    HOUR_MS,
    HOURS,
    SimulatedRun,
    missed_conditions,
    run_simulation,
    unexpected_warnings,
)
from support.paths import ROOT

PAGE = ROOT / "docs" / "simulations.md"
#: A group of 50 members has so many records that it is simulated alone.
GROUPS = 2


@pytest.mark.parametrize(
    "scenario", ["rolling-restart-3-dynamic-cooperative", "deployment", "loading", "transactions"]
)
def test_an_hour_of_healthy_groups_raises_no_warning(tmp_path: Path, scenario: str) -> None:
    """The other scenarios, and a day of each, are in the long tests."""
    assert unexpected_warnings(run_simulation(tmp_path, scenario, 2, HOUR_MS, seed=2)) == []


@pytest.mark.parametrize("scenario", ["stuck", "flapping", "pause"])
def test_the_expected_condition_is_raised_in_an_hour(tmp_path: Path, scenario: str) -> None:
    """For every group, each time."""
    assert missed_conditions(run_simulation(tmp_path, scenario, 2, HOUR_MS), EXPECTED[scenario][0]) == []


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("scenario", HEALTHY)
def test_a_day_of_healthy_groups_raises_no_warning(tmp_path: Path, scenario: str) -> None:
    """24 hours of each healthy scenario."""
    groups = 1 if "-50-" in scenario else GROUPS
    assert unexpected_warnings(run_simulation(tmp_path, scenario, groups, 24 * HOUR_MS, seed=2)) == []


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("scenario", EXPECTED)
def test_the_expected_condition_is_raised_in_a_day(tmp_path: Path, scenario: str) -> None:
    """24 hours of each scenario with a problem, more of one that lasts longer."""
    run = run_simulation(tmp_path, scenario, GROUPS, HOURS.get(scenario, 24) * HOUR_MS, seed=2)
    assert missed_conditions(run, EXPECTED[scenario][0]) == []


@pytest.mark.parametrize("scenario", ["stuck", "storm", "unwritable", "expiry"])
def test_a_replay_without_events_misses_the_condition(scenario: str) -> None:
    """Each kind of check fails without events."""
    plan = SimulationPlan(
        scenario=SCENARIOS[scenario], groups=1, duration_ms=2 * HOUR_MS, seed=1, partitions=1
    )
    assert missed_conditions(SimulatedRun(plan, []), EXPECTED[scenario][0]) != []


def test_the_page_lists_the_tested_scenarios() -> None:
    """Each scenario is on the page with its expected condition."""
    text = PAGE.read_text().partition("## Triggers")[0]
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("| `")]
    page = {row[0].strip().strip("`"): row[2].strip().split("`")[1::2] for row in rows}
    assert {name: conditions for name, conditions in page.items() if conditions} == {
        name: [condition] for name, (condition, _) in EXPECTED.items()
    }
    assert {name for name, conditions in page.items() if not conditions} == {
        *HEALTHY,
        "mixed",
        "rolling-restart",
        "kip848",
    }
    assert set(SCENARIOS) == set(page)
