"""Questions to the history of one cluster. Each takes a read-only connection and returns what the API sends."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from groupreplay.app.serve.history.rows import COUNTS, MOST_TOPICS, CommitCounts, shown_event, unpacked
from groupreplay.state.events.event import Severity
from groupreplay.state.events.group_events import RebalanceCompleted
from groupreplay.streaming.sinks.day_counts import DAY_MS
from groupreplay.streaming.sinks.known_groups import group_label

Json = dict[str, Any]

#: Columns to sort by, with what decides among equals.
SORTS: Final[Mapping[str, str]] = {
    "risk": "max(severity, coalesce(troubled, 0)) DESC, worst_since IS NULL, worst_since, label",
    "group": "label",
    "state": "state, label",
    "members": "members DESC, label",
    "commits": "commits IS NULL, commits DESC, label",
    "expires": "expires_ms IS NULL, expires_ms, label",
}
#: Bytes of events in one answer; at least one event is always sent.
_MOST_BYTES: Final = 4 << 20
_SEVERITIES: Final = {int(severity): severity.name for severity in Severity}
COMPLETED: Final = RebalanceCompleted.NAME
_GROUP: Final = (
    *("label", "group_id", "type", "state", "generation", "members", "severity", "risk"),
    *("since_ms", "expires_ms", "offsets"),
)


#: A moment in the last day of the history; a condition has a length.
_RECENT_TROUBLE: Final = (
    f"s.until_ms = s.since_ms AND s.since_ms >= (SELECT max(time_ms) FROM events) - {DAY_MS}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsPage:
    """Which groups; ``risk`` is the name of a condition, a severity, or ``any``. ``after`` is the number to skip."""

    search: str = ""
    type: str = ""
    state: str = ""
    risk: str = ""
    sort: str = "risk"
    limit: int = 100
    after: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsPage:
    """Which events, newest first; ``group`` and ``type`` are globs, ``before`` is the place of the last one sent."""

    since_ms: int | None = None
    until_ms: int | None = None
    group: str | None = None
    type: str | None = None
    least_severity: int = 0
    limit: int = 100
    before: tuple[int, int] | None = None


def groups(db: sqlite3.Connection, query: GroupsPage) -> Json:
    """A page of groups, how many there are, how many match, and these by state, type and worst condition."""
    where, values = _group_filter(query)
    total = _number(db, "SELECT count(*) FROM groups")
    facets = {
        name: dict(
            db.execute(f"SELECT {name}, count(*) FROM groups g {where} GROUP BY 1 ORDER BY 2 DESC", values)
        )
        for name in ("state", "type", "risk")
    }
    matching = sum(facets["state"].values())
    sample = commit_sample(db)
    labels = db.execute(
        "SELECT label, (SELECT commits FROM commits c WHERE c.label = g.label) AS commits, "
        "(SELECT min(since_ms) FROM conditions c WHERE c.label = g.label AND c.severity = g.severity) AS worst_since, "
        f"(SELECT max(severity) FROM spans s WHERE s.label = g.label AND {_RECENT_TROUBLE}) AS troubled "
        f"FROM groups g {where} ORDER BY {SORTS[query.sort]} LIMIT ? OFFSET ?",
        (*values, query.limit, query.after),
    ).fetchall()
    shown = [group(db, label, sample) for label, *_ in labels]
    following = query.after + len(labels)
    return {
        "groups": [one for one in shown if one is not None],
        "total": total,
        "matching": matching,
        "facets": facets,
        "next": str(following) if labels and following < matching else None,
        "commits_since_ms": None if sample is None else sample.since_ms,
        "commits_until_ms": None if sample is None else sample.until_ms,
    }


def commit_sample(db: sqlite3.Connection) -> CommitCounts | None:
    """The last count of commits, without the numbers; None before the first one."""
    found = db.execute("SELECT value FROM about WHERE name = 'commits'").fetchone()
    return None if found is None else COUNTS.decode(found[0])


def group(db: sqlite3.Connection, label: str, sample: CommitCounts | None = None) -> Json | None:
    """A group by its label, with its commits in the last sample; None when there is none."""
    found = db.execute(f"SELECT {', '.join(_GROUP)} FROM groups WHERE label = ?", (label,)).fetchone()
    if found is None:
        return None
    one = dict(zip(_GROUP, found, strict=True))
    topics = db.execute("SELECT topic FROM topics WHERE label = ? LIMIT ?", (label, MOST_TOPICS))
    counted = db.execute("SELECT commits FROM commits WHERE label = ?", (label,)).fetchone()
    # A group without commits is not in a sample; nor is one whose partition was not read.
    none = 0 if sample is not None and sample.complete else None
    held = db.execute(
        "SELECT body FROM conditions WHERE label = ? ORDER BY severity DESC, since_ms", (label,)
    )
    last = "SELECT max(time_ms) FROM events WHERE label = ? AND name = ?"
    return {
        **one,
        "severity": severity_name(one["severity"]),
        "risk": one["risk"] or None,
        "conditions": [msgspec.Raw(body) for (body,) in held],
        "trouble": _trouble(db, label),
        "rebalanced_ms": db.execute(last, (label, COMPLETED)).fetchone()[0],
        "commits": none if counted is None else counted[0],
        "topics": [topic for (topic,) in topics],
    }


def _trouble(db: sqlite3.Connection, label: str) -> Json | None:
    """The gravest thing of the last day that was no condition, such as a loss of offsets; the last of them."""
    found = db.execute(
        f"SELECT name, since_ms, severity FROM spans s WHERE label = ? AND {_RECENT_TROUBLE} "
        "ORDER BY severity DESC, since_ms DESC LIMIT 1",
        (label,),
    ).fetchone()
    if found is None:
        return None
    return {"name": found[0], "at_ms": found[1], "severity": severity_name(found[2])}


def label_of(db: sqlite3.Connection, group_id: str) -> str:
    """The label of a group, from its id or from the label itself; also of one that only events are known of."""
    label = group_label(group_id)
    if label != group_id:
        for table in ("groups", "events"):
            question = f"SELECT 1 FROM {table} WHERE label = ? LIMIT 1"
            if db.execute(question, (group_id,)).fetchone():
                return group_id
    return label


def group_id_of(db: sqlite3.Connection, label: str) -> str | None:
    """The id of a group that exists; None when there is none."""
    found = db.execute("SELECT group_id FROM groups WHERE label = ?", (label,)).fetchone()
    return None if found is None else str(found[0])


def document(db: sqlite3.Connection, label: str) -> bytes | None:
    """The document of a group as the job wrote it."""
    found = db.execute("SELECT body FROM groups WHERE label = ?", (label,)).fetchone()
    return None if found is None else unpacked(found[0])


def conditions(db: sqlite3.Connection, limit: int) -> list[msgspec.Raw]:
    """The active conditions of groups, the most severe first, among equals the oldest."""
    found = db.execute(
        "SELECT body FROM conditions ORDER BY severity DESC, since_ms, label LIMIT ?", (limit,)
    )
    return [msgspec.Raw(body) for (body,) in found]


def condition_counts(db: sqlite3.Connection) -> dict[str, int]:
    """The number of active conditions of groups by severity."""
    found = db.execute("SELECT severity, count(*) FROM conditions GROUP BY 1 ORDER BY 1 DESC")
    return {severity_name(severity) or "INFO": count for severity, count in found}


def events(db: sqlite3.Connection, query: EventsPage) -> tuple[list[msgspec.Raw], str | None]:
    """Events, newest first, and the place to go on from; None when there is no more."""
    where, values = _event_filter(query)
    rows = db.execute(
        f"SELECT time_ms, position, body FROM events {where} ORDER BY time_ms DESC, position DESC LIMIT ?",
        (*values, query.limit + 1),
    )
    shown: list[msgspec.Raw] = []
    size, last = 0, ""
    for at_ms, position, body in rows:
        value = shown_event(unpacked(body))
        size += len(value)
        if len(shown) == query.limit or (shown and size > _MOST_BYTES):
            return shown, last
        shown.append(msgspec.Raw(value))
        last = f"{at_ms}.{position}"
    return shown, None


def events_of_group(
    db: sqlite3.Connection, label: str, until_ms: int, limit: int, size: int
) -> tuple[list[bytes], bool]:
    """The newest events of a group before a time, up to a number and to so many bytes; and whether there are more."""
    rows = db.execute(
        "SELECT body FROM events WHERE label = ? AND time_ms < ? ORDER BY time_ms DESC, position DESC LIMIT ?",
        (label, until_ms, limit + 1),
    )
    found: list[bytes] = []
    for (body,) in rows:
        value = unpacked(body)
        size -= len(value)
        if len(found) == limit or size < 0:
            return found, True
        found.append(value)
    return found, False


def events_after(db: sqlite3.Connection, position: int, limit: int) -> list[tuple[int, str, str, int, bytes]]:
    """(position, label, name, severity, what is sent) of the events after a position, in their order."""
    rows = db.execute(
        "SELECT position, label, name, severity, body FROM events WHERE position > ? ORDER BY position LIMIT ?",
        (position, limit),
    )
    return [
        (at, label, name, severity, shown_event(unpacked(body))) for at, label, name, severity, body in rows
    ]


def first_event_ms(db: sqlite3.Connection) -> int | None:
    """When the oldest event happened that the history has."""
    found: int | None = db.execute("SELECT min(time_ms) FROM events").fetchone()[0]
    return found


def event_bounds_ms(db: sqlite3.Connection) -> tuple[int | None, int | None]:
    """When the oldest event happened that the history has, and when the newest one was written to its topic."""
    return first_event_ms(db), db.execute("SELECT max(written_ms) FROM events").fetchone()[0]


def incarnation(db: sqlite3.Connection) -> str:
    """That of the file that is read."""
    return str(db.execute("SELECT value FROM about WHERE name = 'incarnation'").fetchone()[0])


def last_position(db: sqlite3.Connection) -> int:
    """The position of the event that was stored last; 0 without one."""
    return _number(db, "SELECT coalesce(max(position), 0) FROM events")


def severity_name(number: int) -> str | None:
    """``WARN`` for 13; None for 0."""
    if not number:
        return None
    return _SEVERITIES.get(number, "INFO")


def _group_filter(query: GroupsPage) -> tuple[str, tuple[Any, ...]]:
    parts: list[tuple[str, Any]] = []
    if query.search:
        parts.append(("instr(searched, ?)", query.search.lower()))
    if query.type:
        parts.append(("type = ?", query.type))
    if query.state:
        parts.append(("state = ?", query.state))
    if query.risk in Severity.__members__:
        parts.append(("severity = ?", int(Severity[query.risk])))
    elif query.risk == "any":
        parts.append(("severity > ?", 0))
    elif query.risk:
        held = "EXISTS (SELECT 1 FROM conditions c WHERE c.label = g.label AND c.name = ?)"
        parts.append((held, query.risk))
    return _where(parts)


def _event_filter(query: EventsPage) -> tuple[str, tuple[Any, ...]]:
    parts = list(_times(query))
    for column, glob in (("label", query.group), ("name", query.type)):
        if glob is not None:
            # Only a glob needs to be compared with each event.
            parts.append((f"{column} GLOB ?" if set(glob) & set("*?[") else f"{column} = ?", glob))
    if query.least_severity:
        parts.append(("severity >= ?", query.least_severity))
    return _where(parts)


def _times(query: EventsPage) -> Iterator[tuple[str, Any]]:
    if query.since_ms is not None:
        yield "time_ms >= ?", query.since_ms
    if query.until_ms is not None:
        yield "time_ms < ?", query.until_ms
    if query.before is not None:
        yield "(time_ms, position) < (?, ?)", query.before


def _where(parts: Sequence[tuple[str, Any]]) -> tuple[str, tuple[Any, ...]]:
    values: list[Any] = []
    for _, value in parts:
        values += value if isinstance(value, tuple) else [value]
    return ("WHERE " + " AND ".join(text for text, _ in parts) if parts else ""), tuple(values)


def _number(db: sqlite3.Connection, question: str) -> int:
    return int(db.execute(question).fetchone()[0])
