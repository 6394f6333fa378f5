"""The life of groups as a table: what happened, when, who came and went, why, and what nobody can tell.

Knows the events' field names (docs/events.md) and puts those of one broker operation into one row; must not
know records nor how a table is drawn. A row ``compacted away`` stands wherever the log has a hole.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from groupreplay.state.display.phrases import milliseconds, timestamp
from groupreplay.streaming.engine.replay import Filter, Replay, events_in_order
from groupreplay.streaming.inspection.inspection import living
from groupreplay.streaming.kafka.topic_reader import Rows
from groupreplay.streaming.text.event_text import event_name, text_of
from groupreplay.streaming.text.terminal import Table

Data = Mapping[str, Any]

COMPACTED_AWAY: Final = "compacted away"
#: A group whose beginning was compacted away, and to which nothing has happened since.
FIRST_SEEN: Final = "first seen"

_NAMES_SHOWN: Final = 8
_CHANGES: Final = ("joined", "left", "kept")
#: Rows that take in who joined and left in the same broker operation; the others have a row of their own.
_HAS_MEMBERS: Final = frozenset({"rebalance.completed", "rebalance.started", "group.emptied"})
#: The two ways in which a group that we see from its beginning may begin.
_FIRST_GENERATIONS: Final = (0, 1)


@dataclass(slots=True)
class _Row:
    """One row, members by id; ``reasons`` are those of members that left."""

    event: str
    group_type: str
    time: str | None = None
    generation: int | None = None
    joined: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    members: list[str] = field(default_factory=list)
    why: list[str] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)


class _Life:
    """One group's rows, in order; ``_begun`` while the group is known to exist."""

    def __init__(self) -> None:
        self.rows: list[_Row] = []
        self._names: dict[str, str] = {}
        self._generation: int | None = None
        self._begun = False
        self._open: tuple[Any, _Row] | None = None

    def tell(self, event: Data) -> None:
        """Add what one CloudEvent says."""
        name, data = event_name(event), event["data"]
        self._learn_names(data)
        # An event that only time has caused belongs to no operation.
        cause = (data["cause"]["partition"], data["cause"]["offset"]) if data["cause"] else None
        if name in ("member.joined", "member.left") and self._open is not None and self._open[0] == cause:
            self._take_in(name, data, self._open[1])
            return
        if not name.startswith("record."):
            self._mind_the_hole(name, data)
        row = _Row(name, data["group_type"], event["time"], self._generation, why=_why(event))
        row.joined, row.left, row.kept = (list(data.get(part) or ()) for part in _CHANGES)
        row.members = _ids(data)
        if "member_id" in data:
            self._take_in(name, data, row)
        elif name == "static.replaced":
            row.kept.append(data["new_member_id"])
        self.rows.append(row)
        if name in _HAS_MEMBERS:
            self._open = cause, row

    def end(self, picture: Data) -> None:
        """What is known of a living group to which nothing has happened that can be told."""
        if self.rows:
            return
        self._learn_names(picture)
        self._generation = _generation(picture)
        self._hole("everything before", picture["type"])
        seen = _Row(FIRST_SEEN, picture["type"], None, self._generation, why=[f"it is {picture['state']}"])
        seen.time = None if picture["since_ms"] is None else timestamp(picture["since_ms"])
        seen.members = _ids(picture)
        self.rows.append(seen)

    def documents(self, group_id: str) -> Iterable[dict[str, Any]]:
        """The rows as plain values, members by name."""
        for row in self.rows:
            left_why = [f"{self._named(one)}: {reason}" for one, reason in row.reasons.items()]
            yield {
                "group_id": group_id,
                "group_type": row.group_type,
                "time": row.time,
                "generation": row.generation,
                "event": row.event,
                **{part: [*map(self._named, getattr(row, part))] for part in (*_CHANGES, "members")},
                "why": ", ".join([*row.why, *left_why]) or None,
            }

    def _named(self, member_id: str) -> str:
        return self._names.get(member_id, member_id)

    def _learn_names(self, data: Data) -> None:
        for member in [*(data.get("members") or ()), *([data] if "member_id" in data else ())]:
            host = str(member["client_host"]).removeprefix("/")
            self._names[member["member_id"]] = member["instance_id"] or f"{member['client_id']}@{host}"
        if "new_member_id" in data:
            self._names[data["new_member_id"]] = self._names[data["old_member_id"]] = data["instance_id"]

    def _take_in(self, name: str, data: Data, row: _Row) -> None:
        part = {"member.joined": row.joined, "member.left": row.left}.get(name, row.kept)
        if data["member_id"] not in part:
            part.append(data["member_id"])
        if data.get("reason") not in (None, "unknown", "group_emptied"):
            row.reasons[data["member_id"]] = data["reason"]

    def _mind_the_hole(self, name: str, data: Data) -> None:
        """Put a row where something must have happened that no record tells any more."""
        known, now = self._generation, data.get("generation", self._generation)
        first = data["history"] == "full" and now in _FIRST_GENERATIONS
        if not self._begun:
            if name != "group.created" and not first:
                self._hole("everything before", data["group_type"])
        elif known is not None and now is not None and name != "group.converted":
            if now < known:
                self._hole("the end of the group, and its new beginning", data["group_type"])
            elif now > known + 1 and data["history"] == "partial":
                one = now == known + 2
                missing = f"generation {now - 1}" if one else f"generations {known + 1} to {now - 1}"
                self._hole(missing, data["group_type"])
        self._begun, self._generation = name != "group.deleted", now

    def _hole(self, what: str, group_type: str) -> None:
        self.rows.append(_Row(COMPACTED_AWAY, group_type, why=[what]))


def _ids(data: Data) -> list[str]:
    return [member["member_id"] for member in data.get("members") or ()]


def _generation(picture: Data) -> int | None:
    generation: int | None = picture["generation"]
    epoch: int | None = picture["group_epoch"]
    return epoch if generation is None else generation


def _why(event: Data) -> list[str]:
    """The trigger, and how long it took; the reason of an event that is about one member or record."""
    name, data = event_name(event), event["data"]
    if "condition_id" in data or name.startswith(("offset.", "offsets.")):
        return [text_of(event)]
    told = {
        "member.updated": lambda: ["new " + ", ".join(data["changed"])],
        "static.replaced": lambda: ["came back under a new member id"],
        "group.converted": lambda: [f"{data['from_type']} to {data['to_type']}"],
    }.get(name)
    if told:
        return told()
    if name.startswith("record."):
        return [str(data["reason"])]
    why = [data["trigger"]] if "trigger" in data else []
    if data.get("duration_ms") is not None:
        why.append(f"took {milliseconds(data['duration_ms'])}")
    if data.get("skipped_generations"):
        why.append(f"{data['skipped_generations']} never finished")
    return why


def history(replay: Replay, rows: Rows) -> list[dict[str, Any]]:
    """The life of every group that the replay is asked for: rows by group, in order.

    The replay's context must ask for events about members. A row has ``group_id``, ``group_type``, ``time``
    (RFC 3339, None for a hole), ``generation`` (of the newer kinds the group epoch), ``event``, the names of
    members that ``joined``, ``left`` and were ``kept``, all ``members`` where the event tells them, and
    ``why``.
    """
    lives: dict[str, _Life] = {}
    for text in events_in_order(replay.feed(rows), Filter()):
        event = json.loads(text)
        group_id = event["data"]["group_id"]
        if group_id is not None and replay.wants(group_id):
            lives.setdefault(group_id, _Life()).tell(event)
    for picture in living(replay):
        lives.setdefault(picture["group_id"], _Life()).end(picture)
    return [row for group_id in sorted(lives) for row in lives[group_id].documents(group_id)]


def history_table(rows: Iterable[Data]) -> Table:
    """The rows under headings in the manner of Kafka's tools."""
    cells = [
        (row["group_id"], row["time"], row["generation"], row["event"], _who(row), row["why"]) for row in rows
    ]
    return Table(("GROUP", "TIME", "GENERATION", "EVENT", "WHO", "WHY"), cells)


def _who(row: Data) -> str | None:
    """``joined a@h, b@h; left c@h; kept d@h (3)``; all members where nobody can tell what has changed."""
    parts = [f"{part} {_listed(row[part])}" for part in _CHANGES if row[part]]
    if not parts and row["members"]:
        parts = [f"members {_listed(row['members'])}"]
    return "; ".join(parts) or None


def _listed(names: Sequence[str]) -> str:
    counted = sorted(Counter(names).items())
    shown = [name if count == 1 else f"{name} ({count})" for name, count in counted[:_NAMES_SHOWN]]
    more = sum(count for _, count in counted[_NAMES_SHOWN:])
    return ", ".join(shown) + (f" and {more} more" if more else "")
