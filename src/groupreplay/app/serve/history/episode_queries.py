"""Questions about what went wrong in the last days: the episodes of groups, those that are over too, each diagnosed.

They are made from the events of the history, which outlive a restart of the server: the job's topic has them.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from groupreplay.app.serve import answers
from groupreplay.app.serve.history.event_queries import NO_SOURCE, event_bounds_ms, events_of_group, incidents
from groupreplay.app.serve.history.group_queries import GRAVEST, RECENT_TROUBLE, severity_name, where_all
from groupreplay.app.text.event_text import text_of
from groupreplay.state.conditions.registry import CONDITIONS
from groupreplay.streaming.contract.messages import OBJECTS
from groupreplay.timeline.diagnosis import Statement, Tone
from groupreplay.timeline.facts import TONES, tone_of
from groupreplay.timeline.group_timeline import timeline_document
from groupreplay.timeline.overview import GroupCount, group_counts
from groupreplay.timeline.states import TimelineInput

#: What comes before an episode may be its cause; what its end brings comes a moment after it.
_BEFORE_MS: Final = 600_000
_AFTER_MS: Final = 60_000
#: Events of a group that a diagnosis is made from: the newest ones of its time, and their bytes.
_MOST_EVENTS: Final = 300
_MOST_BYTES: Final = 2 << 20


#: A condition beside the one that implies it is no episode of its own.
_NOT_IMPLIED: Final = [
    (
        "NOT (s.name = ? AND EXISTS (SELECT 1 FROM spans o WHERE o.label = s.label AND o.name = ? "
        "AND o.since_ms <= coalesce(s.until_ms, o.since_ms) AND coalesce(o.until_ms, s.since_ms) >= s.since_ms))",
        (kind.NAME, kind.IMPLIED_BY),
    )
    for kind in CONDITIONS
    if kind.IMPLIED_BY
]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodesQuery:
    """Which episodes, the newest first; ``search`` is a part of what a group is found by, or of a condition's name."""

    since_ms: int
    until_ms: int
    search: str = ""
    least_severity: int = 0
    limit: int = 25
    after: int = 0


class _Span(NamedTuple):
    label: str
    name: str
    severity: int
    since_ms: int
    until_ms: int | None
    group_id: str | None


def episodes(db: sqlite3.Connection, query: EpisodesQuery) -> answers.Incidents:
    """A page of episodes, and how many match."""
    terms: list[tuple[str, Any]] = [
        *_NOT_IMPLIED,
        ("s.label <> '' AND s.since_ms < ?", query.until_ms),
        ("(s.until_ms IS NULL OR s.until_ms >= ?)", query.since_ms),
        ("s.severity >= ?", query.least_severity),
    ]
    if query.search:
        text = query.search.lower()
        terms.append(
            (
                "(instr(lower(s.label), ?) OR instr(s.name, ?) OR instr(coalesce(g.searched, ''), ?))",
                (text,) * 3,
            )
        )
    where, values = where_all(terms)
    tables = f"FROM spans s LEFT JOIN groups g ON g.label = s.label {where}"
    (matching,) = db.execute(f"SELECT count(*) {tables}", values).fetchone()
    rows = db.execute(
        f"SELECT s.label, s.name, s.severity, s.since_ms, s.until_ms, g.group_id {tables} "
        "ORDER BY s.since_ms DESC, s.severity DESC, s.label LIMIT ? OFFSET ?",
        (*values, query.limit, query.after),
    )
    spans = [_Span(*row) for row in rows]
    following = query.after + len(spans)
    return answers.Incidents(
        incidents=incidents(db, query.since_ms, query.until_ms),
        episodes=list(_diagnosed(db, spans)),
        matching=matching,
        next=str(following) if spans and following < matching else None,
        since_ms=query.since_ms,
        until_ms=query.until_ms,
    )


def _diagnosed(db: sqlite3.Connection, spans: Sequence[_Span]) -> Iterator[answers.Episode]:
    # What holds is known to hold up to the newest event at least.
    known_ms = event_bounds_ms(db)[1] or 0
    for span in spans:
        until_ms = max(known_ms, span.since_ms) if span.until_ms is None else span.until_ms
        values, _ = events_of_group(db, span.label, until_ms + _AFTER_MS, _MOST_EVENTS, _MOST_BYTES)
        events = [event for value in values if (event := OBJECTS.decode(value)) is not None]
        yield _episode(span, _statement(span, until_ms, events), events)


def _statement(span: _Span, until_ms: int, events: Sequence[dict[str, Any]]) -> Statement | None:
    """The sentence about an episode; None: the events that are left tell nothing of it."""
    group_id = span.label if span.group_id is None else span.group_id
    # What holds lasts until now, and not a moment longer.
    end_ms = until_ms + (1 if span.until_ms is None else _AFTER_MS)
    timeline = TimelineInput(
        group_id=group_id,
        source=NO_SOURCE,
        events=events,
        end_ms=end_ms,
        since_ms=max(span.since_ms - _BEFORE_MS, 0),
        until_ms=end_ms,
        probed=True,
    )
    tone = tone_of(severity_name(span.severity) or "INFO")
    near = [
        statement
        for statement in timeline_document(timeline, text_of).verdict
        if statement.tone == tone
        and statement.since_ms is not None
        and statement.until_ms is not None
        and statement.since_ms <= until_ms
        and statement.until_ms >= span.since_ms
    ]
    return min(near, key=lambda statement: abs((statement.since_ms or 0) - span.since_ms), default=None)


def _episode(span: _Span, statement: Statement | None, events: Sequence[dict[str, Any]]) -> answers.Episode:
    first = None if statement is None else statement.first
    own = _own_text(span, events) if statement is None else ""
    return answers.Episode(
        label=span.label,
        group_id=span.label if span.group_id is None else span.group_id,
        name=span.name,
        severity=severity_name(span.severity) or "INFO",
        since_ms=span.since_ms,
        until_ms=span.until_ms,
        text=own if statement is None else statement.text,
        parts=[own] if statement is None else [*statement.parts],
        cause=None if statement is None else statement.cause,
        do_first=None if first is None else first.text,
        command=None if first is None else first.command,
        runbook="" if first is None else first.runbook,
    )


def _own_text(span: _Span, events: Sequence[dict[str, Any]]) -> str:
    """The sentence of the newest event with the name of the episode."""
    return next((text_of(event) for event in events if f".{span.name}." in str(event.get("type"))), "")


def counts_of_groups(db: sqlite3.Connection) -> tuple[GroupCount, ...]:
    """The groups by what is wrong with them now, or was in the last day; the gravest first."""
    lost = {
        label: (name, severity)
        for label, name, severity in db.execute(
            f"SELECT label, name, severity FROM (SELECT label, name, severity, row_number() OVER (PARTITION BY label "
            f"ORDER BY {GRAVEST}) AS place FROM spans s WHERE {RECENT_TROUBLE}) WHERE place = 1"
        )
    }
    counts = Counter[tuple[Tone, str]]()
    for label, severity, risk in db.execute("SELECT label, severity, risk FROM groups"):
        name, gravest = lost.get(label, ("", 0))
        if gravest <= severity:
            name, gravest = risk, severity
        counts[tone_of(severity_name(gravest) or "INFO") if name else TONES[0], name] += 1
    return group_counts(counts)
