"""The history of groups as a table: one row per broker operation, with time, members, and reason.

A row ``compacted away`` marks where the log has a gap.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from groupreplay.app.inspection.groups import existing, generation
from groupreplay.app.text.event_text import event_name, text_of
from groupreplay.app.text.tables import Cell, Moment, Table
from groupreplay.state import phrases
from groupreplay.state.events.event import Severity
from groupreplay.state.events.group_events import RebalanceCompleted
from groupreplay.state.events.lag_events import StopCost
from groupreplay.state.phrases import milliseconds, rebalance_length, timestamp, timestamp_ms
from groupreplay.streaming.engine.group_log import GroupLogs
from groupreplay.streaming.engine.replay import EventHead, Filter, Replay, events_in_order
from groupreplay.streaming.sources.recorded_ends import recorded_ends
from groupreplay.streaming.sources.source import Rows
from groupreplay.timeline.facts import EVERYTHING_BEFORE, GapFinder
from groupreplay.timeline.stop_cost import Backlog, rebalance_cost

Data = Mapping[str, Any]

COMPACTED_AWAY: Final = "compacted away"
#: A group whose first records were compacted away, and without events since then.
FIRST_SEEN: Final = "first seen"
#: A time without commits in which records came.
NO_COMMITS: Final = "no commits"

_NAMES_SHOWN: Final = 8
#: Events whose rows include the members that joined and left in the same broker operation.
_HAS_MEMBERS: Final = frozenset({"rebalance.completed", "rebalance.started", "group.emptied"})


@dataclass(slots=True)
class _OpenRow:
    """One row as events add to it; members by id; ``reasons`` has the reasons of members that left."""

    event: str
    group_type: str
    severity: str | None = None
    time: str | None = None
    generation: int | None = None
    joined: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    members: list[str] = field(default_factory=list)
    why: list[str] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)
    assumed: dict[str, int] = field(default_factory=dict)
    cost: StopCost | None = None


class HistoryRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of ``describe --history``; members by name.

    ``time``: RFC 3339, None for a gap. ``generation``: that, or the group epoch of the newer types. ``severity``: None
    for a gap. ``members``: all of them, if the event has them. ``cost`` of a rebalance or a time without commits:
    None where it is not known, without recorded ends.
    """

    group_id: str
    group_type: str
    time: str | None
    generation: int | None
    event: str
    severity: str | None
    joined: list[str]
    left: list[str]
    kept: list[str]
    members: list[str]
    why: str | None
    assumed: dict[str, int]
    cost: StopCost | None = None


class _GroupHistory:
    """The rows of one group, in order; ``backlog`` None: no ends of topics were recorded."""

    def __init__(self, backlog: Backlog | None = None) -> None:
        self.rows: list[_OpenRow] = []
        self._backlog = backlog
        self._names: dict[str, str] = {}
        self._generation: int | None = None
        self._gaps = GapFinder()
        self._open: tuple[Any, _OpenRow] | None = None

    def add(self, event: Data) -> None:
        """Add one CloudEvent."""
        name, data = event_name(event), event["data"]
        self._learn_names(data)
        # An event without a cause was triggered by time, and belongs to no operation.
        cause = (data["cause"]["partition"], data["cause"]["offset"]) if data["cause"] else None
        if name in ("member.joined", "member.left") and self._open is not None and self._open[0] == cause:
            self._add_member(name, data, self._open[1])
            return
        if gap := self._gaps.before(name, data):
            self._add_gap(gap, data["group_type"])
        # A condition has the generation that the group had; only operations make a new one.
        if data.get("generation") is not None and "condition_id" not in data:
            self._generation = data["generation"]
        row = _OpenRow(name, data["group_type"], event["severitytext"], event["time"], self._generation)
        row.why = _why(event)
        at_ms = timestamp_ms(event["time"])
        if name == RebalanceCompleted.NAME and self._backlog is not None and at_ms is not None:
            row.cost = rebalance_cost(self._backlog, at_ms, data)
        row.assumed = dict(data.get("assumed", {}))
        row.joined, row.left, row.kept = (list(data.get(part) or ()) for part in ("joined", "left", "kept"))
        row.members = _ids(data)
        if "member_id" in data:
            self._add_member(name, data, row)
        elif name == "static.replaced":
            row.kept.append(data["new_member_id"])
        self.rows.append(row)
        if name in _HAS_MEMBERS:
            self._open = cause, row

    def add_quiet_times(self) -> None:
        """Add the times without commits, each before what came after its begin."""
        for quiet in self._backlog.quiet_times() if self._backlog is not None else ():
            cost = quiet.cost
            place = next(
                (n for n, row in enumerate(self.rows) if (timestamp_ms(row.time) or 0) > cost.since_ms),
                len(self.rows),
            )
            before = self.rows[max(place - 1, 0)]
            lasted = f"for {milliseconds(cost.until_ms - cost.since_ms)} of {', '.join(quiet.topics)}"
            row = _OpenRow(NO_COMMITS, before.group_type, None, timestamp(cost.since_ms), before.generation)
            row.why, row.cost = [lasted], cost
            self.rows.insert(place, row)

    def end(self, group: Data) -> None:
        """Add the state of an existing group without events."""
        if self.rows:
            return
        self._learn_names(group)
        self._generation = generation(group)
        self._add_gap(EVERYTHING_BEFORE, group["type"])
        seen = _OpenRow(
            FIRST_SEEN, group["type"], generation=self._generation, why=[f"it is {group['state']}"]
        )
        seen.time = None if group["since_ms"] is None else timestamp(group["since_ms"])
        seen.members = _ids(group)
        self.rows.append(seen)

    def named(self, group_id: str) -> Iterable[HistoryRow]:
        """The rows, with names of members."""
        for row in self.rows:
            left_why = [f"{self._named(member_id)}: {reason}" for member_id, reason in row.reasons.items()]
            yield HistoryRow(
                group_id=group_id,
                group_type=row.group_type,
                time=row.time,
                generation=row.generation,
                event=row.event,
                severity=row.severity,
                joined=[*map(self._named, row.joined)],
                left=[*map(self._named, row.left)],
                kept=[*map(self._named, row.kept)],
                members=[*map(self._named, row.members)],
                assumed=row.assumed,
                why=", ".join([*row.why, *left_why, *([row.cost.text] if row.cost else [])]) or None,
                cost=row.cost,
            )

    def _named(self, member_id: str) -> str:
        return self._names.get(member_id, member_id)

    def _learn_names(self, data: Data) -> None:
        for member in [*(data.get("members") or ()), *([data] if "member_id" in data else ())]:
            host = str(member["client_host"]).removeprefix("/")
            self._names[member["member_id"]] = member["instance_id"] or f"{member['client_id']}@{host}"
        if "new_member_id" in data:
            self._names[data["new_member_id"]] = self._names[data["old_member_id"]] = data["instance_id"]

    def _add_member(self, name: str, data: Data, row: _OpenRow) -> None:
        part = {"member.joined": row.joined, "member.left": row.left}.get(name, row.kept)
        if data["member_id"] not in part:
            part.append(data["member_id"])
        if data.get("reason") not in (None, "unknown", "group_emptied"):
            row.reasons[data["member_id"]] = data["reason"]
        row.assumed |= data.get("assumed", {})

    def _add_gap(self, what: str, group_type: str) -> None:
        self.rows.append(_OpenRow(COMPACTED_AWAY, group_type, why=[what]))


def _ids(data: Data) -> list[str]:
    return [member["member_id"] for member in data.get("members") or ()]


def _why(event: Data) -> list[str]:
    """The trigger and the duration; for an event about one member or record, its reason."""
    name, data = event_name(event), event["data"]
    if "condition_id" in data or name.startswith(("offset.", "offsets.")):
        return [text_of(event)]
    special = {
        "member.updated": lambda: ["new " + ", ".join(data["changed"])],
        "static.replaced": lambda: ["came back under a new member id"],
        "group.converted": lambda: [f"{data['from_type']} to {data['to_type']}"],
    }.get(name)
    if special:
        return special()
    if name.startswith("record."):
        return [str(data["reason"])]
    why = [f"{data['trigger']}{phrases.logged(data)}"] if "trigger" in data else []
    if name == RebalanceCompleted.NAME:
        length = rebalance_length(data)
        why += [text for text in (length.text(), length.leader_text()) if text]
    if data.get("skipped_generations"):
        why.append(phrases.never_completed(data["skipped_generations"]))
    return why


def history(replay: Replay, rows: Rows) -> list[HistoryRow]:
    """The history of every group of the replay: rows by group, in order.

    The replay's context must enable member events.
    """
    ends, rows = recorded_ends(rows)
    rows = replace(rows, probes=list(rows.probes))
    logs = GroupLogs(replay.only)
    if ends:
        rows = replace(rows, batches=logs.reading(rows.batches))
    events = list(events_in_order(replay.feed(rows), Filter()))
    histories: dict[str, _GroupHistory] = {}

    def history_of(group_id: str) -> _GroupHistory:
        if group_id not in histories:
            backlog = Backlog(logs.logs[group_id].commits(), ends.spans) if ends else None
            histories[group_id] = _GroupHistory(backlog or None)
        return histories[group_id]

    for event in map(json.loads, events):
        group_id = event["data"]["group_id"]
        if group_id is not None and replay.wants(group_id):
            history_of(group_id).add(event)
    for group in existing(replay):
        history_of(group["group_id"]).end(group)
    for group_history in histories.values():
        group_history.add_quiet_times()
    return [row for group_id in sorted(histories) for row in histories[group_id].named(group_id)]


def history_between(
    rows: Iterable[HistoryRow], since_ms: int | None, until_ms: int | None, least_severity: int
) -> list[HistoryRow]:
    """The rows of events from one time on, before another (None: no bound), and of a least severity.

    A gap has neither a time nor a severity: it stays where the row of its group before or behind it stays and
    severities do not matter.
    """
    bounded = Filter(since_ms=since_ms, until_ms=until_ms)
    if bounded == Filter() and least_severity <= Severity.INFO:
        return list(rows)
    kept = list[HistoryRow]()
    gaps = list[HistoryRow]()
    for row in rows:
        if row.time is None:
            gaps.append(row)
            continue
        severity = Severity.INFO if row.severity is None else Severity[row.severity]
        if bounded(EventHead("", row.time, "", severity)) and severity >= least_severity:
            kept += (gap for gap in gaps if least_severity <= Severity.INFO and gap.group_id == row.group_id)
            kept.append(row)
        gaps = []
    return kept


def history_table(rows: Iterable[HistoryRow]) -> Table:
    """The rows as a table."""
    cells = [(row.group_id, _time(row.time), row.generation, row.event, _who(row), row.why) for row in rows]
    return Table(("GROUP", "TIME", "GENERATION", "EVENT", "WHO", "WHY"), cells)


def _time(text: str | None) -> Cell:
    """The time of an event as a cell."""
    at_ms = timestamp_ms(text)
    return text if at_ms is None else Moment(at_ms)


def _who(row: HistoryRow) -> str | None:
    """``joined a@h, b@h; left c@h; kept d@h (3)``; all members if the changes are unknown."""
    changes = (("joined", row.joined), ("left", row.left), ("kept", row.kept))
    parts = [f"{change} {_listed(names)}" for change, names in changes if names]
    if not parts and row.members:
        parts = [f"members {_listed(row.members)}"]
    return "; ".join(parts) or None


def _listed(names: Sequence[str]) -> str:
    counted = sorted(Counter(names).items())
    shown = [name if count == 1 else f"{name} ({count})" for name, count in counted[:_NAMES_SHOWN]]
    more = sum(count for _, count in counted[_NAMES_SHOWN:])
    return ", ".join(shown) + (f" and {more} more" if more else "")
