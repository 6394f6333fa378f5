"""Phrases that the one-line texts of several events share: durations, counts, members and partitions.

Every text that came from a record passes through ``safe_text`` here. ``Data`` is the ``data`` of an event, parsed
from JSON; it may come from another release, so every field may be missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any, Final

from groupreplay.state.display.safe_text import safe_text

Data = Mapping[str, Any]

#: How many members, partitions or topics a line names.
NAMES_SHOWN: Final = 3
#: From so many hours on a duration is in days.
_HOURS: Final = 48


def milliseconds(value: int | None) -> str:
    """A duration in the unit a person would choose: 12 ms, 3.2 s, 4 min 10 s, 7 d 3 h; ``?`` when it is not known."""
    if value is None:
        return "?"
    if value < 1_000:
        return f"{value} ms"
    if value < 60_000:
        return f"{value / 1000:.1f} s"
    minutes, seconds = divmod(round(value / 1000), 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < _HOURS else f"{hours // 24} d {hours % 24} h"


def interval(least_ms: int | None, most_ms: int) -> str:
    """A duration of which the bounds are known: ``2.0 s .. 12.0 s``, ``at most 3.0 s``."""
    if least_ms == most_ms:
        return milliseconds(most_ms)
    return (
        f"{milliseconds(least_ms)} .. {milliseconds(most_ms)}"
        if least_ms
        else f"at most {milliseconds(most_ms)}"
    )


def counted(count: int, noun: str) -> str:
    """``1 member``, ``2 members``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def spaced(data: Data, field: str) -> str:
    """A value such as ``not_joined`` as words."""
    return safe_text(str(data.get(field))).replace("_", " ")


def member(data: Data) -> str:
    """The member as a person knows it: its instance id, else client id and host."""
    if data.get("instance_id"):
        return f"static member {safe_text(str(data['instance_id']))}"
    host = str(data.get("client_host") or "?").removeprefix("/")
    return f"{safe_text(str(data.get('client_id') or '?'))} on {safe_text(host)}"


def subject(data: Data) -> str:
    """The one member, instance or partition that an event is about; empty when it is the whole group."""
    if data.get("member_id") is not None:
        return member(data)
    if data.get("instance_id") is not None:
        return f"instance {safe_text(str(data['instance_id']))}"
    if data.get("topic") is not None:
        return f"{safe_text(str(data['topic']))}-{data.get('partition')}"
    return ""


def partitions(ranges_by_topic: Mapping[str, str] | None) -> str:
    """The partitions of the first topics, as ranges."""
    named = [
        f"{safe_text(str(topic))} {safe_text(str(ranges))}"
        for topic, ranges in (ranges_by_topic or {}).items()
    ]
    more = f" and {len(named) - NAMES_SHOWN} topics more" if len(named) > NAMES_SHOWN else ""
    return ", ".join(named[:NAMES_SHOWN]) + more


def silence(data: Data) -> str:
    """How long there was no commit, and the group's usual gap."""
    usual = milliseconds(data.get("usual_gap_ms"))
    return f"no commit for {milliseconds(data.get('silent_ms'))}, usually one every {usual}"


def lag(data: Data) -> str:
    """How many records are not committed, where it is known."""
    return "" if data.get("lag") is None else f", {data['lag']} records behind"


def assumed(data: Data) -> str:
    """What the event rests on without a proof: ``, assumed: retention 7 d 0 h``; empty when nothing was assumed."""
    numbers = data.get("assumed") or {}
    named = [
        f"{safe_text(str(name)).removesuffix('_ms').replace('_', ' ')} {milliseconds(value)}"
        for name, value in numbers.items()
    ]
    if data.get("assumed_release"):
        named.append(f"rules of Kafka {safe_text(str(data['assumed_release']))}")
    return f", assumed: {', '.join(named)}" if named else ""


#: How a member ended, by the reason of ``member.left``.
_ENDS: Final = {
    "left": "left",
    "poll_timeout": "left: its client gave up, because nobody polled",
    "rebalance_timeout": "removed: it did not rejoin, or did not revoke its partitions, in time",
    "session_timeout": "removed: its session expired",
    "group_emptied": "left with the last members",
    "unknown": "left or was removed; the log does not show which",
}


def member_end(reason: str | None) -> str:
    """``removed: its session expired``; those of later releases, and none, are a member that left."""
    return _ENDS.get(reason or "", _ENDS["left"])


#: Since when an offset is kept, by the base of the rule.
_BASES: Final = {
    "commit": "counted from the commit",
    "emptied": "counted from when the group became Empty",
    "own": "by the commit's own expiry",
}


def expiry(data: Data) -> str:
    """The broker's rule: ``; rule: classic, Empty, counted from when the group became Empty``, and what was assumed."""
    rule = f"; rule: {safe_text(str(data['rule']))}" if data.get("rule") else ""
    if rule and data.get("base") in _BASES:
        rule += f", {_BASES[str(data['base'])]}"
    unclear = "; only the coordinator knows whether it protects them" if data.get("unclear") else ""
    return f"{rule}{unclear}{assumed(data)}"


def clock_time(moment: str) -> str:
    """The hh:mm:ss.mmm of an RFC 3339 time in UTC."""
    return safe_text(moment.partition("T")[2].removesuffix("Z")[:12].removesuffix("+00:00") or moment)


@lru_cache(maxsize=1_000)
def timestamp(at_ms: int) -> str:
    """RFC 3339 with milliseconds, in UTC. Moments that no calendar can write become the epoch."""
    try:
        moment = datetime.fromtimestamp(at_ms / 1000, timezone.utc)
    except (OverflowError, ValueError, OSError):
        moment = datetime.fromtimestamp(0, timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at_ms % 1000:03d}Z"
