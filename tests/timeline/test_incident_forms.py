"""Incidents as they are shown: the last form of each, in one order, of a time."""

from __future__ import annotations

from dataclasses import replace

from groupreplay.timeline.incident_forms import SevereIncident, last_forms, lasting, severe
from support.incident_stories import told_incident


def _at(name: str, since_ms: int, until_ms: int | None, severity: str = "WARN") -> SevereIncident:
    (incident, *_) = (one.incident for one in severe(told_incident()))
    return SevereIncident(
        severity=severity,
        incident=replace(incident, incident_id=name, since_ms=since_ms, until_ms=until_ms),
    )


def test_the_last_form_of_each() -> None:
    """The worst first, of these what still lasts."""
    forms = [_at("a", 1, None), _at("b", 2, 9), _at("c", 3, None, "ERROR"), _at("a", 1, 9), _at("d", 4, None)]
    shown = [(one.incident.incident_id, one.incident.until_ms) for one in last_forms(forms)]
    assert shown == [("c", None), ("d", None), ("a", 9), ("b", 9)]


def test_those_of_a_time() -> None:
    """What began before it and still lasts belongs to it; what was over, or begins later, does not."""
    forms = [_at("lasts", 1, None), _at("over", 1, 9), _at("ends", 1, 10), _at("later", 20, None)]
    assert [one.incident.incident_id for one in lasting(forms, 10, 20)] == ["lasts", "ends"]
