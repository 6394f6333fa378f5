"""Questions about events: pages of them, those of a stream and of a timeline, and strips of a day.

Each takes a read-only connection to the history of one cluster, and returns what the API sends.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from groupreplay.app.serve import answers
from groupreplay.app.serve.history.group_queries import COMPLETED, severity_name, where_all
from groupreplay.app.serve.history.rows import shown_event, unpacked
from groupreplay.state.events.incident_events import Incident, IncidentOpened, IncidentResolved
from groupreplay.streaming.contract.messages import MessageDecoder
from groupreplay.timeline.document import TimelineSource
from groupreplay.timeline.incident_forms import SevereIncident, last_forms, lasting
from groupreplay.version import __version__

#: Bytes of events in one answer; at least one event is always sent.
_MOST_BYTES: Final = 4 << 20
#: Parts of a strip in which rebalances are counted: more than a strip has pixels.
_PARTS: Final = 288
#: Spans of one strip; a group with more has the most severe ones.
_MOST_SPANS: Final = 200


#: An incident is told again when it has doubled, or is worse: a few times.
_MOST_INCIDENT_EVENTS: Final = 2_000
_MOST_INCIDENTS: Final = 100


#: Of timelines that are made of events only to draw conclusions: nobody sees where they come from.
NO_SOURCE: Final = TimelineSource(
    command="", version=__version__, origin="", cluster_id="", topic_id="", digest=None, redacted=()
)


class _IncidentEvent(msgspec.Struct):
    severitytext: Literal["INFO", "WARN", "ERROR"]
    data: Incident


_incident: Final = MessageDecoder[_IncidentEvent](_IncidentEvent).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsQuery:
    """Which events, newest first; ``group`` and ``type`` are globs, ``before`` is the place of the last one sent."""

    since_ms: int | None = None
    until_ms: int | None = None
    group: str | None = None
    type: str | None = None
    least_severity: int = 0
    limit: int = 100
    before: tuple[int, int] | None = None


def events(db: sqlite3.Connection, query: EventsQuery) -> answers.Events:
    """Events, newest first, and the place to go on from; None when there is no more."""
    where, values = _event_filter(query)
    rows = db.execute(
        f"SELECT time_ms, position, body FROM events {where} ORDER BY time_ms DESC, position DESC LIMIT ?",
        (*values, query.limit + 1),
    )
    page = answers.Events([], None)
    size, last = 0, ""
    for at_ms, position, body in rows:
        value = unpacked(body)
        size += len(value)
        if len(page.events) == query.limit or (page.events and size > _MOST_BYTES):
            page.next = last
            break
        page.events.append(shown_event(value))
        last = f"{at_ms}.{position}"
    return page


def incidents(db: sqlite3.Connection, since_ms: int, until_ms: int) -> list[SevereIncident]:
    """Each incident that lasted at some time between two times, as it was reported last; the worst first."""
    names = (IncidentOpened.NAME, IncidentResolved.NAME)
    rows = db.execute(
        "SELECT body FROM events WHERE name IN (?, ?) AND time_ms < ? "
        "ORDER BY time_ms DESC, position DESC LIMIT ?",
        (*names, until_ms, _MOST_INCIDENT_EVENTS),
    ).fetchall()
    events = filter(None, (_incident(unpacked(body)) for (body,) in reversed(rows)))
    incidents = (SevereIncident(severity=event.severitytext, incident=event.data) for event in events)
    return lasting(last_forms(incidents), since_ms, until_ms)[:_MOST_INCIDENTS]


def events_of_group(
    db: sqlite3.Connection, label: str, until_ms: int, limit: int, size: int
) -> tuple[list[bytes], bool]:
    """The newest events of a group before a time, up to a number and to so many bytes; and whether there are more."""
    rows = db.execute(
        "SELECT body FROM events WHERE label = ? AND time_ms < ? ORDER BY time_ms DESC, position DESC LIMIT ?",
        (label, until_ms, limit + 1),
    )
    values: list[bytes] = []
    for (body,) in rows:
        value = unpacked(body)
        size -= len(value)
        if len(values) == limit or size < 0:
            return values, True
        values.append(value)
    return values, False


def events_after(db: sqlite3.Connection, position: int, limit: int) -> list[tuple[int, str, str, int, bytes]]:
    """(position, label, name, severity, message) of the events after a position, in their order."""
    rows = db.execute(
        "SELECT position, label, name, severity, body FROM events WHERE position > ? ORDER BY position LIMIT ?",
        (position, limit),
    )
    return [(at, label, name, severity, unpacked(body)) for at, label, name, severity, body in rows]


def event_bounds_ms(db: sqlite3.Connection) -> tuple[int | None, int | None]:
    """When the oldest event happened that the history has, and when the newest one was written to its topic."""
    first_ms, last_ms = (
        db.execute(f"SELECT {bound} FROM events").fetchone()[0]
        for bound in ("min(time_ms)", "max(written_ms)")
    )
    return first_ms, last_ms


def incarnation(db: sqlite3.Connection) -> str:
    """That of the file that is read."""
    return str(db.execute("SELECT value FROM about WHERE name = 'incarnation'").fetchone()[0])


def last_position(db: sqlite3.Connection) -> int:
    """The position of the event that was stored last; 0 without one."""
    return int(db.execute("SELECT coalesce(max(position), 0) FROM events").fetchone()[0])


def _event_filter(query: EventsQuery) -> tuple[str, tuple[Any, ...]]:
    terms = list(times(query.since_ms, query.until_ms, query.before))
    for column, glob in (("label", query.group), ("name", query.type)):
        if glob is not None:
            # Only a glob needs to be compared with each event.
            terms.append((f"{column} GLOB ?" if set(glob) & set("*?[") else f"{column} = ?", glob))
    if query.least_severity:
        terms.append(("severity >= ?", query.least_severity))
    return where_all(terms)


def times(
    since_ms: int | None, until_ms: int | None, before: tuple[int, int] | None
) -> Iterator[tuple[str, Any]]:
    """The terms of a time, and of what is behind a place in the order of answers; None: no bound."""
    if since_ms is not None:
        yield "time_ms >= ?", since_ms
    if until_ms is not None:
        yield "time_ms < ?", until_ms
    if before is not None:
        yield "(time_ms, position) < (?, ?)", before


def strips(
    db: sqlite3.Connection, since_ms: int, until_ms: int, labels: Sequence[str], limit: int
) -> list[answers.Strip]:
    """What happened to groups in a time, one strip each.

    Without labels, those with the worst conditions and losses in that time, then those with the most rebalances.
    """
    chosen = list(dict.fromkeys(labels))[:limit] or _busiest(db, since_ms, until_ms, limit)
    return [_strip(db, label, since_ms, until_ms) for label in chosen]


def _busiest(db: sqlite3.Connection, since_ms: int, until_ms: int, limit: int) -> list[str]:
    rows = db.execute(
        "SELECT label, max(worst) AS worst, sum(many) AS many FROM ("
        "SELECT label, max(severity) AS worst, 0 AS many FROM spans "
        "WHERE label <> '' AND since_ms < ?2 AND (until_ms IS NULL OR until_ms >= ?1) GROUP BY label "
        "UNION ALL SELECT label, 0, count(*) FROM events "
        "WHERE name = ?4 AND label <> '' AND time_ms >= ?1 AND time_ms < ?2 GROUP BY label "
        "UNION ALL SELECT label, 0, 0 FROM groups"
        ") GROUP BY label ORDER BY worst DESC, many DESC, label LIMIT ?3",
        (since_ms, until_ms, limit, COMPLETED),
    )
    return [label for label, *_ in rows]


def _strip(db: sqlite3.Connection, label: str, since_ms: int, until_ms: int) -> answers.Strip:
    spans = db.execute(
        "SELECT max(since_ms, ?2), min(coalesce(until_ms, ?3), ?3), severity, name, until_ms IS NULL FROM spans "
        "WHERE label = ?1 AND since_ms < ?3 AND (until_ms IS NULL OR until_ms >= ?2) "
        "ORDER BY severity DESC, since_ms LIMIT ?4",
        (label, since_ms, until_ms, _MOST_SPANS),
    )
    width_ms = max((until_ms - since_ms) // _PARTS, 1)
    rebalances = db.execute(
        "SELECT ?2 + (time_ms - ?2) / ?5 * ?5, count(*) FROM events "
        "WHERE label = ?1 AND name = ?4 AND time_ms >= ?2 AND time_ms < ?3 GROUP BY 1 ORDER BY 1",
        (label, since_ms, until_ms, COMPLETED, width_ms),
    )
    return answers.Strip(
        group_id=label,
        spans=[
            answers.StripSpan(begin_ms, end_ms, severity_name(severity), name, bool(is_open))
            # The most severe ones last: they are drawn over the others.
            for begin_ms, end_ms, severity, name, is_open in sorted(spans, key=lambda span: (span[2], *span))
        ],
        rebalances=[answers.Rebalances(*row) for row in rebalances],
        width_ms=width_ms,
    )
