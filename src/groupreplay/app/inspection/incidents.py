"""The incidents across groups of a log that is read once: for reports, ``explain --all-groups`` and Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from groupreplay.app.inspection.state_history import coordinators
from groupreplay.state import Context
from groupreplay.streaming.contract.messages import Output
from groupreplay.streaming.sources.source import Rows
from groupreplay.timeline.incident_signals import Item, LeaderSeen, document_items, event_items
from groupreplay.timeline.incidents import IncidentFinder, SevereIncident, last_forms, severe


class IncidentLog:
    """What a replay says of groups; memory grows with the events."""

    def __init__(self, context: Context) -> None:
        self._finder = IncidentFinder(runbook=context.policy.runbook)

    def add(self, output: Output, body: Mapping[str, Any]) -> None:
        """An event, or the document of a group."""
        self._finder.take(event_items(body) if output is Output.EVENTS else document_items(body))

    def incidents(self, rows: Rows, since_ms: int, until_ms: int) -> list[SevereIncident]:
        """Those that lasted at some time between two times, the worst first; ``rows`` with probes that can be read."""
        self._finder.take(_leaders(rows, until_ms))
        return [
            last
            for last in last_forms(severe(self._finder.end()))
            if last.incident.since_ms < until_ms
            and (last.incident.until_ms is None or last.incident.until_ms >= since_ms)
        ]


def _leaders(rows: Rows, until_ms: int) -> Iterator[Item]:
    for partition, seen in coordinators(rows, until_ms).items():
        for leader in seen:
            yield LeaderSeen(
                at_ms=leader.since_ms,
                earliest_ms=leader.earliest_ms,
                partition=partition,
                broker=leader.broker,
                error=leader.error,
            )
