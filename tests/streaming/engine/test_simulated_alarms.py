"""ConditionTracker of simulated groups under the shipped rules: none where all is well, one for every trouble."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupreplay.state.simulation.scenarios import SCENARIOS
from groupreplay.state.simulation.simulation import SimulationPlan
from support.model.simulated_alarms import EXPECTED, HOUR_MS, WELL, Told, false_alarms, misses, told
from support.paths import ROOT

PAGE = ROOT / "docs" / "simulations.md"
#: Of the groups of fifty there are so many records that one has to do.
GROUPS = 2


@pytest.mark.parametrize("scenario", ["rolling-restart-3-dynamic-cooperative", "deployment"])
def test_nobody_is_called_in_an_hour(tmp_path: Path, scenario: str) -> None:
    """Groups that are well; the other scenarios, and a day of each, are among the long tests."""
    assert false_alarms(told(tmp_path, scenario, 2, HOUR_MS)) == []


@pytest.mark.parametrize("scenario", ["stuck", "flapping"])
def test_trouble_is_found_in_an_hour(tmp_path: Path, scenario: str) -> None:
    """Every group that is in trouble, each time."""
    assert misses(told(tmp_path, scenario, 2, HOUR_MS), EXPECTED[scenario][0]) == []


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("scenario", WELL)
def test_nobody_is_called_in_a_day(tmp_path: Path, scenario: str) -> None:
    """24 hours of each scenario that is well."""
    groups = 1 if "-50-" in scenario else GROUPS
    assert false_alarms(told(tmp_path, scenario, groups, 24 * HOUR_MS, seed=2)) == []


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("scenario", EXPECTED)
def test_trouble_is_found_in_a_day(tmp_path: Path, scenario: str) -> None:
    """24 hours of each scenario in trouble."""
    assert misses(told(tmp_path, scenario, GROUPS, 24 * HOUR_MS, seed=2), EXPECTED[scenario][0]) == []


@pytest.mark.parametrize("scenario", ["stuck", "storm", "expiry"])
def test_silence_is_a_miss(scenario: str) -> None:
    """However it is looked for: a replay that says nothing fails."""
    plan = SimulationPlan(scenario=scenario, groups=1, duration_ms=HOUR_MS, seed=1, partitions=1)
    assert misses(Told(plan, []), EXPECTED[scenario][0]) != []


def test_the_table_of_the_page_is_what_is_tested() -> None:
    """Scenario and condition of every row; every scenario is in it."""
    rows = [line.split("|")[1:-1] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    page = {row[0].strip().strip("`"): row[2].strip().split("`")[1::2] for row in rows}
    assert {name: said for name, said in page.items() if said} == {
        name: [condition] for name, (condition, _) in EXPECTED.items()
    }
    assert {name for name, said in page.items() if not said} == {*WELL, "mixed", "rolling-restart", "kip848"}
    assert set(SCENARIOS) <= set(page)
