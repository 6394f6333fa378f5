"""An incident is told in one way, by whatever command, page or server: severity, groups, sentence, begin and end.

Compared are ``incident.opened`` and ``incident.resolved``, their text, the document of ``report --all-groups``,
``explain --all-groups``, ``/api/incidents`` (which the board draws), the metrics of open incidents and the page of
on-call.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from groupreplay.app.serve.history import event_queries
from groupreplay.state.events.incident_events import Incident
from groupreplay.timeline import incidents
from groupreplay.timeline.incident_signals import Signal
from support.incident_stories import INCIDENTS, Story
from support.populations import AT, MINUTE, SECOND, Population
from support.simulated.incident_contradictions import contradictions
from support.simulated.incident_renderings import of_log, of_population
from support.simulated.renderings import HOUR_MS, simulated_log

TOLD = [story for story in INCIDENTS if story.expected]


@pytest.mark.parametrize("story", TOLD, ids=lambda story: story.name)
def test_no_contradiction(tmp_path: Path, story: Story) -> None:
    """In each story that has incidents, whatever order its messages have."""
    found = of_population(tmp_path, story.name, story.tell())
    assert len(found) == len(story.expected)
    assert [text for incident in found for text in contradictions(incident)] == []


def test_no_contradiction_in_a_log(tmp_path: Path) -> None:
    """Eight simulated groups whose coordinator cannot write: found by the report from the records alone."""
    found = of_log(tmp_path, simulated_log("unwritable", 8, HOUR_MS * 3 // 2, seed=3))
    assert found
    assert [text for incident in found for text in contradictions(incident)] == []


def _brief() -> Population:
    """Ten groups stop, and go on three seconds after that is told."""
    population = Population.of(100)
    for number, group in enumerate(population.change(10, topic="orders")):
        since_ms = AT + number * SECOND
        population.pauses(group, since_ms, until_ms=since_ms + 2 * MINUTE + 3 * SECOND)
    return population


def test_what_ends_before_it_is_an_incident(tmp_path: Path) -> None:
    """Conditions that had ended when enough of them were known: the incident ends with the last of them."""
    (incident,) = of_population(tmp_path, "brief", _brief())
    assert contradictions(incident) == []
    assert incident.last["until_ms"] == AT + 2 * MINUTE + 12 * SECOND
    assert incident.metric is None


_changed = incidents.replace


def _forgets_ends(signal: Signal, **changes: Any) -> Signal:
    """What ended before it was an incident has no end."""
    changes.pop("ended_ms", None)
    return _changed(signal, **changes)


def _first_forms(found: Any) -> list[Any]:
    """Each incident as it was told first."""
    return list({one.incident.incident_id: one for one in reversed(list(found))}.values())


def _deleted() -> Population:
    """Eight readers of one topic lose their offsets."""
    population = Population.of(100)
    for number, group in enumerate(population.change(8, topic="orders")):
        population.deletes(group, AT + number * SECOND)
    return population


def _lasting() -> Population:
    """Ten groups stop for twenty minutes, one of them a quarter of an hour longer."""
    population = Population.of(100)
    for number, group in enumerate(population.change(10, topic="orders")):
        until_ms = AT + (35 if number == 3 else 20) * MINUTE
        population.pauses(group, AT + number * SECOND, until_ms=until_ms)
    return population


FAULTS: dict[str, tuple[Callable[[], Population], object, str, Callable[..., object]]] = {
    "ends": (_brief, incidents, "replace", _forgets_ends),
    "served": (_lasting, event_queries, "last_forms", _first_forms),
    "severity": (_deleted, incidents, "worst", lambda severities: "INFO"),
    "sentence": (_lasting, Incident, "line", staticmethod(lambda data: str(data["text"]))),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    """No comparison passes by comparing nothing."""
    tell, *change = FAULTS[fault]
    right = of_population(tmp_path, fault, tell())
    assert [text for incident in right for text in contradictions(incident)] == []
    monkeypatch.setattr(*change)
    wrong = of_population(tmp_path, fault, tell())
    assert right
    assert [text for incident in wrong for text in contradictions(incident)] != []
