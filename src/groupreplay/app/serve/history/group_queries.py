"""Questions about groups: pages of them, conditions, offsets that expire, and who reads a topic.

Each takes a read-only connection to the history of one cluster, and returns what the API sends.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Final

from groupreplay.app.serve import answers
from groupreplay.app.serve.history.rows import (
    CONDITIONS,
    COUNTS,
    MOST_TOPICS,
    CommitCounts,
    shown_event,
    unpacked,
)
from groupreplay.state.events.event import Severity
from groupreplay.state.events.group_events import RebalanceCompleted
from groupreplay.streaming.sinks.known_groups import DAY_MS, group_label

#: Columns to sort by, with what decides among equals.
SORTS: Final[Mapping[str, str]] = {
    "risk": "max(severity, coalesce(troubled, 0)) DESC, worst_since IS NULL, worst_since, label",
    "group": "label",
    "state": "state, label",
    "members": "members DESC, label",
    "commits": "commits IS NULL, commits DESC, label",
    "expires": "expires_ms IS NULL, expires_ms, label",
}
_SEVERITIES: Final = {int(severity): severity.name for severity in Severity}
COMPLETED: Final = RebalanceCompleted.NAME
_MOST_READERS: Final = 200
_GROUPS_A_DAY: Final = 50
#: A moment in the last day of the history; a condition has a length.
RECENT_TROUBLE: Final = (
    f"s.until_ms = s.since_ms AND s.since_ms >= (SELECT max(time_ms) FROM events) - {DAY_MS}"
)
#: Which of several moments a group is known by: the gravest, of these the last one.
GRAVEST: Final = "severity DESC, since_ms DESC"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsQuery:
    """Which groups; ``risk`` is the name of a condition, a severity, or ``any``. ``after`` is the number to skip."""

    search: str = ""
    type: str = ""
    state: str = ""
    risk: str = ""
    sort: str = "risk"
    limit: int = 100
    after: int = 0


def groups(db: sqlite3.Connection, query: GroupsQuery) -> answers.Groups:
    """A page of groups, how many there are, how many match, and these by state, type and worst condition."""
    where, values = _group_filter(query)
    (total,) = db.execute("SELECT count(*) FROM groups").fetchone()
    state, type_, risk = (
        dict(db.execute(f"SELECT {name}, count(*) FROM groups g {where} GROUP BY 1 ORDER BY 2 DESC", values))
        for name in ("state", "type", "risk")
    )
    matching = sum(state.values())
    sample = commit_sample(db)
    labels = db.execute(
        "SELECT label, (SELECT commits FROM commits c WHERE c.label = g.label) AS commits, "
        "(SELECT min(since_ms) FROM conditions c WHERE c.label = g.label AND c.severity = g.severity) AS worst_since, "
        f"(SELECT max(severity) FROM spans s WHERE s.label = g.label AND {RECENT_TROUBLE}) AS troubled "
        f"FROM groups g {where} ORDER BY {SORTS[query.sort]} LIMIT ? OFFSET ?",
        (*values, query.limit, query.after),
    ).fetchall()
    shown = [group(db, label, sample) for label, *_ in labels]
    following = query.after + len(labels)
    return answers.Groups(
        groups=[shown_group for shown_group in shown if shown_group is not None],
        total=total,
        matching=matching,
        facets=answers.Facets(state=state, type=type_, risk=risk),
        next=str(following) if labels and following < matching else None,
        commits_since_ms=None if sample is None else sample.since_ms,
        commits_until_ms=None if sample is None else sample.until_ms,
    )


def commit_sample(db: sqlite3.Connection) -> CommitCounts | None:
    """The last count of commits, without the numbers; None before the first one."""
    row = db.execute("SELECT value FROM about WHERE name = 'commits'").fetchone()
    return None if row is None else COUNTS.decode(row[0])


def group(db: sqlite3.Connection, label: str, sample: CommitCounts | None = None) -> answers.Group | None:
    """A group by its label, with its commits in the last sample; None when there is none."""
    row = db.execute(
        "SELECT group_id, type, state, generation, members, severity, risk, since_ms, expires_ms, offsets "
        "FROM groups WHERE label = ?",
        (label,),
    ).fetchone()
    if row is None:
        return None
    group_id, type_, state, generation, members, severity, risk, since_ms, expires_ms, offsets = row
    topic_rows = db.execute("SELECT topic FROM topics WHERE label = ? LIMIT ?", (label, MOST_TOPICS))
    counted = db.execute("SELECT commits FROM commits WHERE label = ?", (label,)).fetchone()
    # A group without commits is not in a sample; nor is one whose partition was not read.
    none = 0 if sample is not None and sample.complete else None
    last = "SELECT max(time_ms) FROM events WHERE label = ? AND name = ?"
    trouble = _trouble(db, label)
    conditions = _conditions(db, "WHERE label = ? ORDER BY severity DESC, since_ms", label)
    is_past = trouble is not None and (not conditions or Severity[trouble.severity] > severity)
    return answers.Group(
        label=label,
        group_id=group_id,
        type=type_,
        state=state,
        generation=generation,
        members=members,
        severity=severity_name(severity),
        risk=risk or None,
        since_ms=since_ms,
        expires_ms=expires_ms,
        offsets=offsets,
        conditions=conditions,
        trouble=trouble,
        text=trouble.text if trouble is not None and is_past else "".join(c.summary for c in conditions[:1]),
        rebalanced_ms=db.execute(last, (label, COMPLETED)).fetchone()[0],
        commits=none if counted is None else counted[0],
        topics=[topic for (topic,) in topic_rows],
    )


def _trouble(db: sqlite3.Connection, label: str) -> answers.Trouble | None:
    """The gravest thing of the last day that was no condition, such as a loss of offsets; the last of them."""
    row = db.execute(
        f"SELECT name, since_ms, severity FROM spans s WHERE label = ? AND {RECENT_TROUBLE} "
        f"ORDER BY {GRAVEST} LIMIT 1",
        (label,),
    ).fetchone()
    if row is None:
        return None
    name, at_ms, severity = row
    stored = db.execute(
        "SELECT body FROM events WHERE label = ? AND name = ? AND time_ms = ? ORDER BY position DESC LIMIT 1",
        (label, name, at_ms),
    ).fetchone()
    text = "" if stored is None else shown_event(unpacked(stored[0])).text
    return answers.Trouble(name, at_ms, severity_name(severity) or "INFO", text)


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
    row = db.execute("SELECT group_id FROM groups WHERE label = ?", (label,)).fetchone()
    return None if row is None else str(row[0])


def document(db: sqlite3.Connection, label: str) -> bytes | None:
    """The document of a group as the job wrote it."""
    row = db.execute("SELECT body FROM groups WHERE label = ?", (label,)).fetchone()
    return None if row is None else unpacked(row[0])


def conditions(db: sqlite3.Connection, limit: int) -> list[answers.Condition]:
    """The active conditions of groups, the most severe first, among equals the oldest."""
    return _conditions(db, "ORDER BY severity DESC, since_ms, label LIMIT ?", limit)


def _conditions(db: sqlite3.Connection, which: str, *values: str | int) -> list[answers.Condition]:
    rows = db.execute(f"SELECT body FROM conditions {which}", values)
    decoded = (CONDITIONS.decode(body) for (body,) in rows)
    return [condition for condition in decoded if condition is not None]


def condition_counts(db: sqlite3.Connection) -> dict[str, int]:
    """The number of active conditions of groups by severity."""
    rows = db.execute("SELECT severity, count(*) FROM conditions GROUP BY 1 ORDER BY 1 DESC")
    return {severity_name(severity) or "INFO": count for severity, count in rows}


def expiring(db: sqlite3.Connection, until_ms: int) -> list[answers.Day]:
    """The groups whose first offset may be removed until then, by day (UTC); those that are due already first."""
    days = db.execute(
        "SELECT expires_ms / ?2, count(*), sum(offsets) FROM groups WHERE expires_ms < ?1 GROUP BY 1 ORDER BY 1",
        (until_ms, DAY_MS),
    ).fetchall()
    return [
        answers.Day(
            day=datetime.fromtimestamp(number * DAY_MS / 1000, timezone.utc).date().isoformat(),
            group_count=count,
            offsets=offsets,
            groups=_expiring_on(db, number),
        )
        for number, count, offsets in days
        # Days that no calendar has come from others who write to the topic.
        if 0 <= number < 2_932_896
    ]


def _expiring_on(db: sqlite3.Connection, number: int) -> list[answers.ExpiringGroup]:
    rows = db.execute(
        "SELECT label, expires_ms, offsets FROM groups WHERE expires_ms >= ? AND expires_ms < ? "
        "ORDER BY offsets DESC, label LIMIT ?",
        (number * DAY_MS, (number + 1) * DAY_MS, _GROUPS_A_DAY),
    )
    return [answers.ExpiringGroup(*row) for row in rows]


def topics(db: sqlite3.Connection, search: str, limit: int) -> answers.Topics:
    """Topics by name with the groups that read them, and how many topics match."""
    like = f"%{_escaped(search)}%"
    (count,) = db.execute(
        "SELECT count(DISTINCT topic) FROM topics WHERE topic LIKE ? ESCAPE '\\'", (like,)
    ).fetchone()
    names = db.execute(
        "SELECT topic, count(*) FROM topics WHERE topic LIKE ? ESCAPE '\\' GROUP BY topic ORDER BY topic LIMIT ?",
        (like, limit),
    ).fetchall()
    return answers.Topics(
        [answers.Topic(topic, readers, _readers(db, topic)) for topic, readers in names], int(count)
    )


def _readers(db: sqlite3.Connection, topic: str) -> list[answers.Reader]:
    rows = db.execute(
        "SELECT g.label, g.state, g.members, g.severity FROM topics t "
        "JOIN groups g ON g.label = t.label WHERE t.topic = ? ORDER BY g.severity DESC, g.label LIMIT ?",
        (topic, _MOST_READERS),
    )
    return [
        answers.Reader(label, state, members, severity_name(severity))
        for label, state, members, severity in rows
    ]


def severity_name(number: int) -> str | None:
    """``WARN`` for 13; None for 0."""
    if not number:
        return None
    return _SEVERITIES.get(number, "INFO")


def _group_filter(query: GroupsQuery) -> tuple[str, tuple[Any, ...]]:
    terms: list[tuple[str, Any]] = []
    if query.search:
        terms.append(("instr(searched, ?)", query.search.lower()))
    if query.type:
        terms.append(("type = ?", query.type))
    if query.state:
        terms.append(("state = ?", query.state))
    if query.risk in Severity.__members__:
        terms.append(("severity = ?", int(Severity[query.risk])))
    elif query.risk == "any":
        terms.append(("severity > ?", 0))
    elif query.risk:
        holds = "EXISTS (SELECT 1 FROM conditions c WHERE c.label = g.label AND c.name = ?)"
        terms.append((holds, query.risk))
    return where_all(terms)


def where_all(terms: Sequence[tuple[str, Any]]) -> tuple[str, tuple[Any, ...]]:
    """A clause with all of these terms, and the values of its places; a term with several places has a tuple."""
    values: list[Any] = []
    for _, value in terms:
        values += value if isinstance(value, tuple) else [value]
    return ("WHERE " + " AND ".join(text for text, _ in terms) if terms else ""), tuple(values)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
