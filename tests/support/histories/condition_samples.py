"""The examples of every condition, as events: firing and resolved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from groupreplay.state.conditions.registry import CONDITIONS
from groupreplay.state.conditions.tracker import runbook_section
from groupreplay.state.events.event import Cause, Event, History
from groupreplay.state.kafka_terms import GroupType


def condition_events() -> Iterator[Event]:
    """Each example as it fires, proved by a record, and as it resolves because time has passed."""
    examples = [(kind, example) for kind in CONDITIONS for example in kind.EXAMPLES]
    for number, (kind, example) in enumerate(examples):
        firing = kind(
            status="firing",
            condition_id=f"0123456789abcdef-{kind.NAME}-100000",
            since_ms=100_000,
            threshold_ms=60_000,
            runbook=f"docs/runbook.md#{runbook_section(kind.NAME)}",
            **example.fields,
        )
        cause = Cause(topic="__consumer_offsets", partition=3, offset=100 + number, timestamp_ms=300_000)
        about_job = kind.NAME.startswith("job.")
        event = Event(
            fact=firing,
            group_id=None if about_job else "g",
            group_type=GroupType.CLASSIC if example.fields.get("blockers") is None else GroupType.CONSUMER,
            simple=False,
            time_ms=300_000,
            evidence=example.evidence,
            history=History.PARTIAL,
            cause=cause,
            ordinal=0,
            severity=firing.severity,
            labels={"team": "payments"},
        )
        yield event
        yield replace(
            event, fact=replace(firing, status="resolved"), time_ms=360_000, cause=None, place=(3, 100)
        )
