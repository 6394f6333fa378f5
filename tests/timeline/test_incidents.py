"""Incidents across groups: the table of what is expected, and that neither order nor batches change what is found."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupreplay.state.events.event import Event
from groupreplay.state.events.incident_events import Incident, IncidentOpened, IncidentResolved
from groupreplay.timeline.incident_signals import Item
from groupreplay.timeline.incident_words import main_kind
from groupreplay.timeline.incidents import IncidentFinder
from support.populations import AT, INCIDENTS, MINUTE, SECOND, Expected, Story

END = AT + 24 * 60 * MINUTE


def found_in(items: Sequence[Item]) -> list[Event]:
    """All events about incidents of a whole log."""
    finder = IncidentFinder()
    finder.take(items)
    return finder.advance(END)


def last_forms(events: Sequence[Event]) -> list[Incident]:
    """Each incident as it was told last."""
    last = {event.fact.incident_id: event for event in events if isinstance(event.fact, Incident)}
    return [event.fact for event in last.values() if isinstance(event.fact, Incident)]


def as_expected(events: Sequence[Event]) -> list[Expected]:
    """Each incident as the table names it."""
    severity = {
        event.fact.incident_id: event.severity for event in events if isinstance(event.fact, Incident)
    }
    return [
        Expected(
            groups=incident.group_count,
            shared=" ".join((incident.shared[0].kind, incident.shared[0].value)) if incident.shared else "",
            kind=main_kind(incident.kinds),
            severity=getattr(severity[incident.incident_id], "name", ""),
            certainty=incident.certainty,
        )
        for incident in last_forms(events)
    ]


@pytest.mark.parametrize("story", INCIDENTS, ids=lambda story: story.name)
def test_expected_incidents(story: Story) -> None:
    """Each story has exactly the incidents of the table, and a healthy or accidental one has none."""
    assert sorted(as_expected(found_in(story.tell().items)), key=str) == sorted(story.expected, key=str)
