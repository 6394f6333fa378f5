"""An event in words: one line of a readable timeline.

Knows the events' field names (docs/events.md) and how to say them; must not know where an event was read nor
how a terminal is coloured. Every text that came from a record passes through ``safe_text`` here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from groupreplay.state.display import safe_text

Data = Mapping[str, Any]

_TYPE_PREFIX: Final = "groupreplay."


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line: ``time`` as hh:mm:ss.mmm (UTC), ``severity`` as INFO, WARN or ERROR; all safe to print."""

    GROUP_WIDTH: ClassVar[int] = 14

    time: str
    severity: str
    group: str
    words: str

    def plain(self) -> str:
        """The line for a pipe or a file."""
        return f"{self.time}  {self.severity:<5}  {self.group:<{self.GROUP_WIDTH}}  {self.words}"


def line_of(event: Mapping[str, Any]) -> Line:
    """The line for one event (a CloudEvent as the sink topic carries it, parsed from JSON)."""
    name = event_name(event)
    data: Data = event.get("data") or {}
    words = _WORDS.get(name, _other)(data)
    return Line(
        time=clock_time(str(event.get("time", ""))),
        severity=safe_text(str(event.get("severitytext", "INFO"))),
        group=safe_text(str(event.get("subject") or data.get("group_id") or "-"), 60),
        words=f"{safe_text(name.replace('.', ' '))}{_late(data)}: {words}",
    )


def event_name(event: Mapping[str, Any]) -> str:
    """``rebalance.completed`` for the type ``groupreplay.rebalance.completed.v1``."""
    name = str(event.get("type", "unknown")).removeprefix(_TYPE_PREFIX)
    head, dot, version = name.rpartition(".")
    return head if dot and version[:1] == "v" and version[1:].isdigit() else name


def clock_time(timestamp: str) -> str:
    """The hh:mm:ss.mmm of an RFC 3339 time in UTC."""
    return safe_text(timestamp.partition("T")[2].removesuffix("Z")[:12].removesuffix("+00:00") or timestamp)


def milliseconds(value: int | None) -> str:
    """A duration in the unit a person would choose: 12 ms, 3.2 s, 4 min 10 s; ``?`` when it is not known."""
    if value is None:
        return "?"
    if value < 1_000:
        return f"{value} ms"
    if value < 60_000:
        return f"{value / 1000:.1f} s"
    minutes, seconds = divmod(round(value / 1000), 60)
    return f"{minutes} min {seconds} s"


def _late(data: Data) -> str:
    return " (caught up late)" if data.get("catch_up") else ""


def _created(data: Data) -> str:
    if data.get("simple") or data.get("generation") is None:
        return "by an offset commit, without members"
    if data.get("group_type", "classic") != "classic":
        return f"{safe_text(str(data.get('group_type')))} group, epoch {data['generation']}"
    return f"generation {data['generation']}, before the first member's join is complete"


def _converted(data: Data) -> str:
    kinds = [safe_text(str(data.get(field))) for field in ("from_type", "to_type")]
    return f"{kinds[0]} to {kinds[1]}, generation {data.get('generation')}"


def _started(data: Data) -> str:
    return f"epoch {data.get('generation')}, trigger {safe_text(str(data.get('trigger')))}"


def _emptied(data: Data) -> str:
    return f"the last member has gone, generation {data.get('generation')}"


def _deleted(data: Data) -> str:
    generation = data.get("generation")
    return "the group is gone" if generation is None else f"the group is gone, after generation {generation}"


def _completed(data: Data) -> str:
    count = data.get("member_count", len(data.get("members") or ()))
    parts = [
        f"generation {data.get('generation')}",
        f"{_counted(count, 'member')}{_change(data)}",
        f"trigger {safe_text(str(data.get('trigger')))}",
    ]
    if data.get("duration_ms") is not None:
        parts.append(f"took {milliseconds(data['duration_ms'])}")
    if data.get("sync_ms") is not None:
        parts.append(f"sync {milliseconds(data['sync_ms'])}")
    if data.get("partitions_moved"):
        parts.append(f"{_counted(data['partitions_moved'], 'partition')} moved")
    if data.get("partitions_unassigned"):
        parts.append(f"{_counted(data['partitions_unassigned'], 'partition')} without an owner")
    if data.get("skipped_generations"):
        parts.append(f"{_counted(data['skipped_generations'], 'generation')} never finished")
    return ", ".join(parts)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _change(data: Data) -> str:
    """`` (+1 -2)``; nothing when nobody came or went, or when the log cannot tell."""
    came, went = len(data.get("joined") or ()), len(data.get("left") or ())
    signs = [sign for sign in (f"+{came}" if came else "", f"-{went}" if went else "") if sign]
    return f" ({' '.join(signs)})" if signs else ""


def _who(data: Data) -> str:
    """The member as a person knows it: its instance id, else client id and host."""
    if data.get("instance_id"):
        return f"static member {safe_text(str(data['instance_id']))}"
    host = str(data.get("client_host") or "?").removeprefix("/")
    return f"{safe_text(str(data.get('client_id') or '?'))} on {safe_text(host)}"


def _left(data: Data) -> str:
    reason = safe_text(str(data.get("reason")))
    return f"{_who(data)}, reason {reason}, last seen {milliseconds(data.get('elapsed_ms'))} before"


def _updated(data: Data) -> str:
    changed = ", ".join(safe_text(str(name)) for name in data.get("changed") or ())
    return f"{_who(data)}, new {changed or 'values'}"


def _replaced(data: Data) -> str:
    instance = safe_text(str(data.get("instance_id")))
    hosts = [str(data.get(field) or "?").removeprefix("/") for field in ("old_host", "new_host")]
    moved = "" if hosts[0] == hosts[1] else f", moved from {safe_text(hosts[0])} to {safe_text(hosts[1])}"
    return f"{instance} came back as a new process, no rebalance needed{moved}"


def _bad_record(data: Data) -> str:
    place = f"{safe_text(str(data.get('topic')))}-{data.get('partition')} offset {data.get('offset')}"
    more = f", and {data['suppressed']} more like it" if data.get("suppressed") else ""
    return f"{place}, {safe_text(str(data.get('reason')))}{more}"


def _other(data: Data) -> str:
    """An event that this release has no words for: its scalar fields, shortened."""
    told = {"cluster_id", "group_id", "group_type", "simple", "evidence", "history", "catch_up"}
    fields = [
        f"{safe_text(str(name))}={safe_text(str(value), 60)}"
        for name, value in data.items()
        if name not in told and isinstance(value, (str, int, float)) and value != ""
    ]
    return " ".join(fields) or "no details"


_WORDS: Final[Mapping[str, Callable[[Data], str]]] = {
    "group.created": _created,
    "group.emptied": _emptied,
    "group.converted": _converted,
    "rebalance.started": _started,
    "group.deleted": _deleted,
    "rebalance.completed": _completed,
    "member.left": _left,
    "member.joined": _who,
    "member.updated": _updated,
    "static.replaced": _replaced,
    "record.malformed": _bad_record,
    "record.skipped": _bad_record,
}
