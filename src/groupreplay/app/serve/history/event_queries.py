"""Questions about all groups: strips of a day, offsets that expire, readers of topics, and who commits."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any, Final

from groupreplay.app.serve.history.queries import COMPLETED, severity_name
from groupreplay.streaming.sinks.day_counts import DAY_MS

Json = dict[str, Any]

#: Parts of a strip in which rebalances are counted: more than a strip has pixels.
_PARTS: Final = 288
#: Spans of one strip; a group with more has the most severe ones.
_MOST_SPANS: Final = 200
_MOST_READERS: Final = 200
_GROUPS_A_DAY: Final = 50


def strips(
    db: sqlite3.Connection, since_ms: int, until_ms: int, labels: Sequence[str], limit: int
) -> list[Json]:
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


def _strip(db: sqlite3.Connection, label: str, since_ms: int, until_ms: int) -> Json:
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
    return {
        "group_id": label,
        "spans": [
            [begin, end, severity_name(severity), name, bool(is_open)]
            # The most severe ones last: they are drawn over the others.
            for begin, end, severity, name, is_open in sorted(spans, key=lambda span: (span[2], *span))
        ],
        "rebalances": [list(one) for one in rebalances],
        "width_ms": width_ms,
    }


def expiring(db: sqlite3.Connection, until_ms: int) -> list[Json]:
    """The groups whose first offset may be removed until then, by day (UTC); those that are due already first."""
    days = db.execute(
        "SELECT expires_ms / ?2, count(*), sum(offsets) FROM groups WHERE expires_ms < ?1 GROUP BY 1 ORDER BY 1",
        (until_ms, DAY_MS),
    ).fetchall()
    return [
        {
            "day": datetime.fromtimestamp(number * DAY_MS / 1000, timezone.utc).date().isoformat(),
            "group_count": count,
            "offsets": offsets,
            "groups": _expiring_on(db, number),
        }
        for number, count, offsets in days
        # Days that no calendar has come from others who write to the topic.
        if 0 <= number < 2_932_896
    ]


def _expiring_on(db: sqlite3.Connection, number: int) -> list[Json]:
    rows = db.execute(
        "SELECT label, expires_ms, offsets FROM groups WHERE expires_ms >= ? AND expires_ms < ? "
        "ORDER BY offsets DESC, label LIMIT ?",
        (number * DAY_MS, (number + 1) * DAY_MS, _GROUPS_A_DAY),
    )
    return [dict(zip(("group_id", "expires_ms", "offsets"), row, strict=True)) for row in rows]


def topics(db: sqlite3.Connection, search: str, limit: int) -> tuple[list[Json], int]:
    """Topics by name with the groups that read them, and how many topics match."""
    like = f"%{_escaped(search)}%"
    (count,) = db.execute(
        "SELECT count(DISTINCT topic) FROM topics WHERE topic LIKE ? ESCAPE '\\'", (like,)
    ).fetchone()
    names = db.execute(
        "SELECT topic, count(*) FROM topics WHERE topic LIKE ? ESCAPE '\\' GROUP BY topic ORDER BY topic LIMIT ?",
        (like, limit),
    ).fetchall()
    return [
        {"topic": topic, "reader_count": readers, "readers": _readers(db, topic)} for topic, readers in names
    ], int(count)


def _readers(db: sqlite3.Connection, topic: str) -> list[Json]:
    rows = db.execute(
        "SELECT g.label, g.state, g.members, g.severity FROM topics t "
        "JOIN groups g ON g.label = t.label WHERE t.topic = ? ORDER BY g.severity DESC, g.label LIMIT ?",
        (topic, _MOST_READERS),
    )
    return [
        {
            "group_id": label,
            "state": state,
            "members": members,
            "severity": severity_name(severity),
        }
        for label, state, members, severity in rows
    ]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
