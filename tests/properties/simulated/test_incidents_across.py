"""Incidents across simulated groups: none of healthy ones, and at most one where all have one cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupreplay.timeline.incident_forms import last_forms, severe
from groupreplay.timeline.incident_signals import event_items
from groupreplay.timeline.incidents import IncidentFinder
from support.model.simulated_conditions import EXPECTED, HEALTHY, HOUR_MS, SimulatedRun, run_simulation

#: What happens to all groups at once; in the other scenarios each group has its own time.
TOGETHER = {"unwritable"}
QUICK = ("unwritable", "stuck", "loading", "deployment")


def incidents(run: SimulatedRun) -> list[str]:
    """The sentences of the incidents of a run."""
    finder = IncidentFinder()
    for event in run.events:
        finder.take(event_items(event))
    return [found.incident.text for found in last_forms(severe(finder.end()))]


def check(folder: Path, scenario: str, groups: int, hours: float, seed: int) -> None:
    """At most as many as the scenario has causes."""
    found = incidents(run_simulation(folder, scenario, groups, int(hours * HOUR_MS), seed))
    assert len(found) <= (scenario in TOGETHER), found


@pytest.mark.parametrize("scenario", QUICK)
def test_one_cause_is_one_incident(tmp_path: Path, scenario: str) -> None:
    """A few groups of a few scenarios; the other ones, and more groups, are in the long test."""
    check(tmp_path, scenario, 8, 1.5, 3)


def test_a_cause_of_all_groups_is_found(tmp_path: Path) -> None:
    """The check fails where the brokers cannot write, if nothing may be found."""
    assert incidents(run_simulation(tmp_path, "unwritable", 8, int(1.5 * HOUR_MS), 3)) != []


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("scenario", [*HEALTHY, *EXPECTED])
@pytest.mark.parametrize("seed", [1, 2])
def test_every_scenario(tmp_path: Path, scenario: str, seed: int) -> None:
    """Thirty groups for three hours."""
    check(tmp_path, scenario, 5 if "-50-" in scenario else 30, 3, seed)
