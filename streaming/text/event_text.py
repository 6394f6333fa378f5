"""An event in words: one line of a readable timeline.

Knows the events' field names (docs/events.md) and how to say them; must not know where an event was read nor
how a terminal is coloured. Every text that came from a record passes through ``safe_text`` here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from groupreplay.state.output.display import safe_text
from groupreplay.state.output.envelope import timestamp

Data = Mapping[str, Any]

_TYPE_PREFIX: Final = "groupreplay."
#: Of members that block and of topics that are held.
_NAMES_SHOWN: Final = 3


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
    words = words_of(event)
    return Line(
        time=clock_time(str(event.get("time", ""))),
        severity=safe_text(str(event.get("severitytext", "INFO"))),
        group=safe_text(str(event.get("subject") or data.get("group_id") or "-"), 60),
        words=f"{safe_text(name.replace('.', ' '))}{_late(data)}: {words}",
    )


def words_of(event: Mapping[str, Any]) -> str:
    """What one event (as for ``line_of``) says beside its name, its time and its group; safe to print."""
    return _WORDS.get(event_name(event), _other)(event.get("data") or {})


def event_name(event: Mapping[str, Any]) -> str:
    """``rebalance.completed`` for the type ``groupreplay.rebalance.completed.v1``."""
    name = str(event.get("type", "unknown")).removeprefix(_TYPE_PREFIX)
    head, dot, version = name.rpartition(".")
    return head if dot and version[:1] == "v" and version[1:].isdigit() else name


def clock_time(moment: str) -> str:
    """The hh:mm:ss.mmm of an RFC 3339 time in UTC."""
    return safe_text(moment.partition("T")[2].removesuffix("Z")[:12].removesuffix("+00:00") or moment)


def milliseconds(value: int | None) -> str:
    """A duration in the unit a person would choose: 12 ms, 3.2 s, 4 min 10 s; ``?`` when it is not known."""
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
    return f"{hours} h {minutes} min"


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
    if data.get("generation") is None:
        return "seen by the prober; the log tells of it when it is over"
    return f"epoch {data['generation']}, trigger {safe_text(str(data.get('trigger')))}"


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


def _gone(data: Data) -> str:
    reason = safe_text(str(data.get("reason"))).replace("_", " ")
    return f"{_counted(data.get('partition_count', 0), 'partition')}, {reason}{_places(data)}"


def _reset(data: Data) -> str:
    direction = safe_text(str(data.get("direction")))
    return f"{_counted(data.get('partition_count', 0), 'partition')}, {direction}{_places(data)}"


def _summary(data: Data) -> str:
    groups = _counted(data.get("expired", 0), "group")
    return f"{groups} that do not matter lost offsets to retention in one day"


def _gap(data: Data) -> str:
    reason = safe_text(str(data.get("reason"))).replace("_", " ")
    count = _counted(len(data.get("partitions") or ()), "partition")
    return f"the log is not the one that was read ({reason}, {count}): the state is built anew"


def _rewound(data: Data) -> str:
    kind = safe_text(str(data.get("kind"))).replace("_", " ")
    return f"{_counted(data.get('partition_count', 0), 'partition')}, {kind}{_places(data)}"


def _places(data: Data) -> str:
    """`` (orders-3 at 42)``: the first partitions of an event about offsets, and where each was and is."""
    told = [_place(one) for one in (data.get("partitions") or ())[:_NAMES_SHOWN]]
    return f": {', '.join(told)}" if told else ""


def _place(one: Data) -> str:
    offsets = [one[name] for name in ("offset", "lost_offset", "old_offset", "new_offset") if name in one]
    return f"{safe_text(str(one.get('topic')))}-{one.get('partition')} at {' -> '.join(map(str, offsets))}"


def _bad_record(data: Data) -> str:
    place = f"{safe_text(str(data.get('topic')))}-{data.get('partition')} offset {data.get('offset')}"
    more = f", and {data['suppressed']} more like it" if data.get("suppressed") else ""
    return f"{place}, {safe_text(str(data.get('reason')))}{more}"


def _condition(firing: Callable[[Data], str]) -> Callable[[Data], str]:
    """The words for a condition: ``firing`` while it holds, then how long it did and whom it was about."""

    def words(data: Data) -> str:
        if data.get("status") != "resolved":
            return firing(data)
        after = f" after {milliseconds(data['elapsed_ms'])}" if data.get("elapsed_ms") is not None else ""
        about = _about(data)
        return f"resolved{after}{about and ', '}{about}"

    return words


def _about(data: Data) -> str:
    """The one member, instance or partition that an event is about; nothing when it is the whole group."""
    if data.get("member_id") is not None:
        return _who(data)
    if data.get("instance_id") is not None:
        return f"instance {safe_text(str(data['instance_id']))}"
    if data.get("topic") is not None:
        return f"{safe_text(str(data['topic']))}-{data.get('partition')}"
    return ""


def _slow(data: Data) -> str:
    return f"{safe_text(str(data.get('state')))} for {milliseconds(data.get('elapsed_ms'))}"


def _stuck(data: Data) -> str:
    reason = safe_text(str(data.get("reason"))).replace("_", " ")
    beyond = ", longer than the protocol allows" if data.get("wedged") else ""
    return f"{_slow(data)}, {reason}{beyond}{_culprits(data)}"


def _culprits(data: Data) -> str:
    """Who blocks, as far as it is proven or may be suspected."""
    for kind, told, word in (("blockers", _blocker, "blocked by"), ("suspects", _suspect, "suspects:")):
        named = data.get(kind) or ()
        if named:
            more = f" and {len(named) - _NAMES_SHOWN} more" if len(named) > _NAMES_SHOWN else ""
            return f", {word} {'; '.join(map(told, named[:_NAMES_SHOWN]))}{more}"
    note = data.get("suspects_note")
    return f", no suspects: {safe_text(str(note))}" if note else ""


def _blocker(member: Data) -> str:
    fenced = member.get("fenced_at_ms")
    until = "" if fenced is None else f", thrown out at {clock_time(timestamp(fenced))}"
    return f"{_who(member)} (holds {_partitions(member.get('revoking')) or 'partitions'}{until})"


def _suspect(member: Data) -> str:
    return f"{_who(member)} ({safe_text(str(member.get('reason'))).replace('_', ' ')})"


def _partitions(held: Mapping[str, str] | None) -> str:
    named = [f"{safe_text(str(topic))} {safe_text(str(ranges))}" for topic, ranges in (held or {}).items()]
    more = f" and {len(named) - _NAMES_SHOWN} topics more" if len(named) > _NAMES_SHOWN else ""
    return ", ".join(named[:_NAMES_SHOWN]) + more


def _suspected(data: Data) -> str:
    usual = milliseconds(data.get("usual_gap_ms"))
    return f"no commit for {milliseconds(data.get('silent_ms'))}, usually one every {usual}"


def _timeouts(data: Data) -> str:
    times = _counted(len(data.get("dropped_ms") or ()), "time")
    timeout = milliseconds(data.get("rebalance_timeout_ms"))
    return f"{_who(data)}, thrown out {times} for not rejoining within {timeout}"


def _storm(data: Data) -> str:
    generations, slots = data.get("generations", 0), data.get("slots_changed", 0)
    window = milliseconds(data.get("window_ms"))
    return f"{_counted(generations, 'generation')} in {window}, {_counted(slots, 'slot')} changed"


def _flapping(data: Data) -> str:
    return f"{_who(data)}, came back {_counted(len(data.get('returned_ms') or ()), 'time')} under a new id"


def _idle(data: Data) -> str:
    return f"{_who(data)}, no partition in {_counted(data.get('rounds', 0), 'round')}"


def _conflict(data: Data) -> str:
    places = " and ".join(sorted({safe_text(str(place)) for place in data.get("places") or ()}))
    return f"{_about(data)} is used by more than one process: {places}"


def _crash_loop(data: Data) -> str:
    times = _counted(len(data.get("restarted_ms") or ()), "time")
    return f"{_about(data)} on {safe_text(str(data.get('place')))}, restarted {times}"


def _silent(data: Data) -> str:
    return f"{_who(data)}, {_suspected(data)}{_lag(data)}"


def _lag(data: Data) -> str:
    return "" if data.get("lag") is None else f", {data['lag']} records behind"


def _poison(data: Data) -> str:
    for_ms = milliseconds(data.get("unchanged_ms"))
    return f"{_about(data)} stays at offset {data.get('offset')} for {for_ms}{_lag(data)}"


def _expiring(data: Data) -> str:
    remaining = milliseconds(data.get("remaining_ms"))
    count = _counted(data.get("partition_count", 0), "partition")
    return f"offsets of {count} in {remaining}: {_partitions(data.get('partitions'))}"


def _blind(data: Data) -> str:
    what = safe_text(str(data.get("what"))).replace("_", " ")
    for kind in ("partitions", "brokers"):
        if data.get(kind):
            what += f", {kind} {', '.join(map(str, data[kind][:_NAMES_SHOWN]))}"
    fix = data.get("fix")
    return f"{what}; {safe_text(str(fix), 200)}" if fix else what


def _behind(data: Data) -> str:
    return f"{milliseconds(data.get('lag_ms'))} behind the end of the offsets topic"


def _other(data: Data) -> str:
    """An event that this release has no words for: its scalar fields, shortened."""
    told = {"cluster_id", "group_id", "group_type", "simple", "evidence", "history", "catch_up"}
    fields = [
        f"{safe_text(str(name))}={safe_text(str(value), 60)}"
        for name, value in data.items()
        if name not in told and isinstance(value, (str, int, float)) and value != ""
    ]
    return " ".join(fields) or "no details"


_FIRING: Final[Mapping[str, Callable[[Data], str]]] = {
    "rebalance.slow": _slow,
    "rebalance.stuck": _stuck,
    "rebalance.suspected": _suspected,
    "rebalance.timeouts": _timeouts,
    "rebalance.storm": _storm,
    "member.flapping": _flapping,
    "member.idle": _idle,
    "static.conflict": _conflict,
    "static.crash_loop": _crash_loop,
    "owner.silent": _silent,
    "partition.poison": _poison,
    "offsets.expiring": _expiring,
    "job.blind": _blind,
    "job.behind": _behind,
}
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
    "offsets.expired": _gone,
    "offsets.deleted": _gone,
    "offsets.reset": _reset,
    "offset.rewound": _rewound,
    "offsets.summary": _summary,
    "job.gap": _gap,
    "record.malformed": _bad_record,
    "record.skipped": _bad_record,
    **{name: _condition(firing) for name, firing in _FIRING.items()},
}
