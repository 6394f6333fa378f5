"""Rebalances with begin and end, as the annotations of a dashboard show them.

Only what is proven is between begin and end. Of a classic group the log has the end of the join phase and the
assignment; what the prober or a broker's log proves comes in front of that.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec

from groupreplay.app.serve.answers import TimeMs, about
from groupreplay.app.serve.history.event_queries import times
from groupreplay.app.serve.history.group_queries import COMPLETED, where_all
from groupreplay.app.serve.history.rows import unpacked
from groupreplay.app.text.event_text import event_data, text_of
from groupreplay.state.phrases import rebalance_length
from groupreplay.streaming.contract.messages import OBJECTS

#: What Grafana sends for All.
_ALL: Final = ".*"


class Rebalance(msgspec.Struct):
    """A rebalance that is over: it went on from since_ms to until_ms, the time of the assignment."""

    label: str
    group_id: str
    since_ms: TimeMs
    until_ms: TimeMs
    earliest_ms: Annotated[
        TimeMs | None,
        about("It cannot have begun before; since_ms if that is exact. null: nothing bounds its begin."),
    ]
    text: Annotated[str, about("One sentence.")]


class RebalancesByTime(msgspec.Struct):
    """A page of rebalances, newest first; next is the cursor of the following page."""

    rebalances: list[Rebalance]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalancesQuery:
    """Which rebalances ended in a time, newest first; ``groups`` are labels, none of them: all groups."""

    since_ms: int | None = None
    until_ms: int | None = None
    groups: Sequence[str] = ()
    limit: int = 500
    before: tuple[int, int] | None = None


def rebalances(db: sqlite3.Connection, query: RebalancesQuery) -> RebalancesByTime:
    """Rebalances, newest first, and the place to go on from; None when there is no more."""
    terms = [("name = ?", COMPLETED), *times(query.since_ms, query.until_ms, query.before)]
    if query.groups and _ALL not in query.groups:
        terms.append((f"label IN ({','.join('?' * len(query.groups))})", tuple(query.groups)))
    where, values = where_all(terms)
    rows = db.execute(
        "SELECT time_ms, position, label, body FROM events "
        f"{where} ORDER BY time_ms DESC, position DESC LIMIT ?",
        (*values, query.limit + 1),
    ).fetchall()
    shown = rows[: query.limit]
    page = RebalancesByTime(
        [_rebalance(label, at_ms, unpacked(body)) for at_ms, _, label, body in shown], None
    )
    if len(rows) > len(shown):
        page.next = f"{shown[-1][0]}.{shown[-1][1]}"
    return page


def _rebalance(label: str, until_ms: int, value: bytes) -> Rebalance:
    event = OBJECTS.decode(value) or {}
    data = event_data(event)
    length = rebalance_length(data)
    return Rebalance(
        label=label,
        group_id=str(data.get("group_id") or label),
        since_ms=until_ms - length.least_ms,
        until_ms=until_ms,
        earliest_ms=None if length.most_ms is None else until_ms - length.most_ms,
        text=text_of(event),
    )
