"""The incidents across groups of a log that is read once: for reports, ``explain --all-groups`` and Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from groupreplay.app.inspection.state_history import coordinators
from groupreplay.state import Context
from groupreplay.streaming.contract.messages import Output
from groupreplay.streaming.sources.source import Rows
from groupreplay.timeline.incident_forms import SevereIncident, last_forms, lasting, severe
from groupreplay.timeline.incident_signals import Item, LeaderSeen, document_items, event_items
from groupreplay.timeline.incidents import IncidentFinder


class IncidentLog:
    """What a replay says of groups; memory grows with the events."""

    def __init__(self, context: Context) -> None:
        self._finder = IncidentFinder(runbook=context.policy.runbook)

    def add(self, output: Output, body: Mapping[str, Any]) -> None:
        """An event, or the document of a group."""
        self._finder.take(event_items(body) if output is Output.EVENTS else document_items(body))

    def take(self, items: Iterable[Item]) -> None:
        """What else is known, such as who led which partition."""
        self._finder.take(items)

    def incidents(self, rows: Rows, since_ms: int, until_ms: int) -> list[SevereIncident]:
        """Those that lasted at some time between two times, the worst first; ``rows`` with probes that can be read."""
        self.take(_leaders(rows, until_ms))
        return self.found(since_ms, until_ms)

    def found(self, since_ms: int, until_ms: int) -> list[SevereIncident]:
        """The same, of what was taken."""
        return lasting(last_forms(severe(self._finder.end())), since_ms, until_ms)


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
