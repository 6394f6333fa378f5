"""Incidents as pages and terminals show them: the last form of each, with its severity, in one order everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from groupreplay.state.events.event import Event, Severity
from groupreplay.state.events.incident_events import Incident


@dataclass(frozen=True, slots=True, kw_only=True)
class SevereIncident:
    """An incident with its severity, the highest of what it consists of, as pages and terminals show it."""

    severity: str
    incident: Incident


def severe(events: Iterable[Event]) -> Iterator[SevereIncident]:
    """The incidents that events are about."""
    for event in events:
        if isinstance(event.fact, Incident):
            yield SevereIncident(severity=(event.severity or Severity.INFO).name, incident=event.fact)


def last_forms(incidents: Iterable[SevereIncident]) -> list[SevereIncident]:
    """Each incident in the last of its forms, the worst first."""
    return sorted(
        {each.incident.incident_id: each for each in incidents}.values(),
        key=lambda each: (
            -Severity[each.severity],
            each.incident.until_ms is not None,
            -each.incident.group_count,
            each.incident.since_ms,
        ),
    )


def lasting(incidents: Iterable[SevereIncident], since_ms: int, until_ms: int) -> list[SevereIncident]:
    """Those that lasted at some time from ``since_ms`` on and before ``until_ms``."""
    return [
        each
        for each in incidents
        if each.incident.since_ms < until_ms
        and (each.incident.until_ms is None or each.incident.until_ms >= since_ms)
    ]
