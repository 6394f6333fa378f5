"""Incidents across groups, one poll after the other: what ``run`` reads back from its topics is at hand here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from groupreplay.state import Context
from groupreplay.streaming.contract.log import IncidentState
from groupreplay.streaming.contract.messages import Output, OutputRow
from groupreplay.streaming.contract.probe_messages import ProbeMessage, RoundSummary
from groupreplay.streaming.engine.json_messages import event_row
from groupreplay.streaming.run.incident_watch import body_of, round_items
from groupreplay.timeline.incident_signals import Item, document_items, event_items
from groupreplay.timeline.incidents import IncidentFinder

#: Without an event, the finder is stored so often: it then knows the groups that have come without one.
_STORE_MS: Final = 60_000


class PolledIncidents:
    """The finder of one ``watch``; ``stored`` is the last answer of ``to_store`` of an earlier process, or empty."""

    def __init__(self, context: Context, stored: bytes) -> None:
        self._context = context
        state = stored_incidents(stored)
        finder = None if state is None else IncidentFinder.from_snapshot(state.finder)
        self._finder, self._round_ms = finder or IncidentFinder(), None if state is None else state.round_ms
        self._finder.runbook = context.policy.runbook
        self._stored_ms = 0
        self._has_news = False

    def found(
        self, written: Sequence[OutputRow], messages: Iterable[ProbeMessage], passed_ms: int | None
    ) -> list[OutputRow]:
        """The events about incidents after the rows and messages of a poll; everything from before ``passed_ms`` came.

        Without that time nothing is looked for.
        """
        self._finder.take(list(self._items(written, messages)))
        events = [] if passed_ms is None else self._finder.advance(passed_ms)
        # What was told of an incident is stored with its event, or a later process tells it again.
        self._has_news |= bool(events) or any(row.output is Output.EVENTS for row in written)
        return [event_row(event, self._context, None) for event in events]

    def to_store(self, now_ms: int) -> bytes:
        """What is to be stored now; empty: what was stored last will do."""
        if not self._has_news and abs(now_ms - self._stored_ms) < _STORE_MS:
            return b""
        self._has_news, self._stored_ms = False, now_ms
        return msgspec.msgpack.encode(
            IncidentState(finder=self._finder.snapshot(), read_to={}, round_ms=self._round_ms)
        )

    def _items(self, written: Sequence[OutputRow], messages: Iterable[ProbeMessage]) -> Iterator[Item]:
        for message in messages:
            if isinstance(message, RoundSummary):
                yield from round_items(message, self._round_ms)
                self._round_ms = message.taken_ms
        for row in written:
            if row.output in (Output.EVENTS, Output.STATES) and (body := body_of(row.value)) is not None:
                yield from event_items(body) if row.output is Output.EVENTS else document_items(body)


def stored_incidents(stored: bytes) -> IncidentState | None:
    """What ``to_store`` has returned; None for nothing, or damaged bytes."""
    try:
        return msgspec.msgpack.decode(stored, type=IncidentState)
    except msgspec.DecodeError:
        return None
