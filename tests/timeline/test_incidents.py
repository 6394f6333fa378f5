"""Incidents across groups: the table of what is expected, and that neither order nor batches change what is found."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from groupreplay.state.events.event import Event
from groupreplay.state.events.incident_events import Incident, IncidentOpened, IncidentResolved
from groupreplay.timeline.incident_signals import Item, Signal
from groupreplay.timeline.incident_words import main_kind
from groupreplay.timeline.incidents import IncidentFinder
from support.incident_stories import INCIDENTS, Expected, Story
from support.populations import AT, MINUTE, SECOND, Population

END = AT + 24 * 60 * MINUTE


def _events_of(items: Sequence[Item]) -> list[Event]:
    """All events about incidents of a whole log."""
    finder = IncidentFinder()
    finder.take(items)
    return finder.advance(END)


def _last_forms(events: Sequence[Event]) -> list[Incident]:
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
        for incident in _last_forms(events)
    ]


@pytest.mark.parametrize("story", INCIDENTS, ids=lambda story: story.name)
def test_expected_incidents(story: Story) -> None:
    """Each story has exactly the incidents of the table, and a healthy or accidental one has none."""
    assert sorted(as_expected(_events_of(story.tell().items)), key=str) == sorted(story.expected, key=str)


def _in_batches(items: Sequence[Item], draw: random.Random) -> list[Event]:
    """The events of a finder that gets the items in order of time in batches, shuffled, and is stored in between."""
    finder, events = IncidentFinder(), list[Event]()
    left = sorted(items, key=lambda item: item.at_ms)
    until_ms = left[0].at_ms
    while left:
        until_ms += draw.choice((SECOND, 7 * SECOND, MINUTE, 11 * MINUTE))
        batch = [item for item in left[:20_000] if item.at_ms <= until_ms]
        left = left[len(batch) :]
        draw.shuffle(batch)
        finder.take(batch)
        events += finder.advance(until_ms)
        stored = IncidentFinder.from_snapshot(finder.snapshot())
        assert stored is not None
        finder = stored
    return events + finder.advance(END)


_QUICK = [story for story in INCIDENTS if "day" not in story.name and "moves" not in story.name]


@settings(max_examples=8, deadline=None)
@given(st.sampled_from(_QUICK), st.integers(0, 1_000_000))
def test_batches_and_order_do_not_matter(story: Story, seed: int) -> None:
    """A finder that reads along, in whatever batches and order, tells the same events as one that reads a capture."""
    items = [
        item for item in story.tell().items if item.at_ms > AT - 10 * MINUTE or item.at_ms < AT - 55 * MINUTE
    ]
    assert _in_batches(items, random.Random(seed)) == _events_of(items)


def test_life_of_an_incident() -> None:
    """An incident is opened with what it shares, told again when it has doubled, and resolved when all has ended."""
    (story,) = (story for story in INCIDENTS if story.name == "all readers of a topic stop")
    events = _events_of(story.tell().items)
    facts = [event.fact for event in events if isinstance(event.fact, Incident)]
    assert [type(fact) for fact in facts] == [IncidentOpened, IncidentResolved]
    opened, resolved = facts
    assert opened.incident_id == resolved.incident_id
    assert (opened.until_ms, resolved.until_ms) == (None, AT + 20 * MINUTE)
    assert opened.text == (
        "120 groups stopped committing at 01:00:00 UTC within 2.0 s; all consume topic orders, none of the 280 others "
        "does"
    )
    assert opened.command == "kafka-topics.sh --bootstrap-server HOST:PORT --describe --topic orders"
    assert opened.runbook == "docs/runbook.md#incidents"


def _stops(ends_after_ms: int) -> Population:
    """Ten groups stop; each goes on so long after that is told."""
    population = Population.of(100)
    for number, group in enumerate(population.change(10, topic="orders")):
        since_ms = AT + number * SECOND
        population.pauses(group, since_ms, until_ms=since_ms + 2 * MINUTE + ends_after_ms)
    return population


@pytest.mark.parametrize("ends_after_ms", [SECOND, 5 * SECOND, 30 * SECOND, 10 * MINUTE])
def test_every_incident_ends(ends_after_ms: int) -> None:
    """It is over with its last condition, also when all had ended before enough of them were known."""
    items = _stops(ends_after_ms).items
    events = _events_of(items)
    (incident,) = _last_forms(events)
    assert isinstance(incident, IncidentResolved)
    assert incident.until_ms == AT + 2 * MINUTE + 9 * SECOND + ends_after_ms
    assert _in_batches(items, random.Random(7)) == events


def test_a_condition_that_becomes_worse_before_it_is_an_incident() -> None:
    """The incident has the highest severity of what it consists of, whenever it was said."""
    items = _stops(10 * MINUTE).items
    first = next(item for item in items if isinstance(item, Signal))
    worse = replace(first, severity="ERROR", at_ms=first.at_ms + SECOND)
    severities = {event.severity for event in _events_of([*items, worse]) if event.severity is not None}
    assert {severity.name for severity in severities} == {"ERROR"}
