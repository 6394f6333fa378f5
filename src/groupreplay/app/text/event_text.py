"""An event as one line of a timeline.

Every text that came from a record passes through ``safe_text``. The text of a condition is in its own module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final
from urllib.parse import quote, urlencode

from groupreplay.app.text.times import event_time, heading
from groupreplay.state import phrases
from groupreplay.state.conditions.registry import CONDITIONS
from groupreplay.state.events.event import name_of
from groupreplay.state.events.incident_events import Incident, IncidentOpened, IncidentResolved
from groupreplay.state.events.lag_events import RebalanceCost
from groupreplay.state.events.offset_events import OffsetsExpired
from groupreplay.state.phrases import (
    NAMES_SHOWN,
    Data,
    clock_time,
    counted,
    is_safe,
    milliseconds,
    rebalance_length,
    safe_text,
    timestamp_ms,
)
from groupreplay.streaming.base.clock import TimeZone

#: Characters of a text: more than any event of the job needs.
_LIMIT: Final = 4_000
#: The fields of a partition with its offsets, in the order of the text.
_OFFSETS: Final = ("offset", "lost_offset", "old_offset", "new_offset", "from_offset", "to_offset")
#: Causes that are not known, in words.
_UNKNOWN_CAUSES: Final = {
    ("reason", "unknown"): "by a request or with their topic (the log does not show which)",
    ("kind", "other"): "for a cause that the log does not show",
}
#: What a consumer does that goes on from offsets that were set.
_SET_EFFECTS: Final = {"forward": "skipped", "backward": "repeated"}
#: ``Line.status``.
FIRING: Final = "firing"
RESOLVED: Final = "resolved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line, safe to print: ``time`` as ``line_of`` writes it, ``severity`` as INFO, WARN or ERROR.

    ``status`` is that of a condition, empty for other events. ``is_echo``: the line was printed before.
    """

    GROUP_WIDTH: ClassVar[int] = 14

    time: str
    severity: str
    group: str
    text: str
    status: str = ""
    is_echo: bool = False

    @property
    def label(self) -> str:
        """The severity; OK for the end of a condition, whose event has the severity of its begin."""
        return "OK" if self.status == RESOLVED else self.severity

    def plain(self) -> str:
        """The line for a pipe or a file."""
        return f"{self.time}  {self.label:<5}  {self.group:<{self.GROUP_WIDTH}}  {self.text}"


def line_heading(zone: TimeZone) -> str:
    """The heading above the lines with dates of this zone."""
    return f"{heading('TIME', zone):<23}  {'LEVEL':<5}  {'GROUP':<{Line.GROUP_WIDTH}}  EVENT"


def line_of(event: Mapping[str, Any], zone: TimeZone | None = None) -> Line:
    """The line for one event (a CloudEvent as the sink topic carries it, parsed from JSON).

    The time is hh:mm:ss.mmm in UTC, or with a zone yyyy-mm-dd hh:mm:ss.mmm.
    """
    time = str(event.get("time", ""))
    data = event_data(event)
    late = " (caught up late)" if data.get("catch_up") else ""
    return Line(
        time=clock_time(time) if zone is None else event_time(time, zone),
        severity=safe_text(str(event.get("severitytext", "INFO"))),
        group=safe_text(str(event.get("subject") or data.get("group_id") or "-"), 60),
        text=f"{safe_text(event_name(event).replace('.', ' '))}{late}: {text_of(event)}",
        status=str(data.get("status")) if data.get("status") in (FIRING, RESOLVED) else "",
    )


def page_of(event: Mapping[str, Any], public_url: str) -> str:
    """The page of an event's group at its moment, on the live pages at this address; empty for other events."""
    label, source, at_ms = event.get("subject"), str(event.get("source", "")), timestamp_ms(event.get("time"))
    if not isinstance(label, str) or event_data(event).get("group_id") is None or at_ms is None:
        return ""
    # kafka://CLUSTER/TOPIC
    query = urlencode(
        {"cluster": source.split("/")[2], "at": at_ms} if source.count("/") > 2 else {"at": at_ms}
    )
    return f"{public_url}/groups/{quote(label, safe='')}?{query}"


def text_of(event: Mapping[str, Any]) -> str:
    """The text of an event (as for ``line_of``) without its name, its time and its group; safe to print.

    Others may write to the topic, too: values of other types than the event has are shown as those of an unknown event.
    """
    data = event_data(event)
    try:
        text = TEXTS.get(event_name(event), _unknown_event)(data)
    except Exception:  # which one depends on the value
        text = _unknown_event(data)
    if data.get("suppressed"):
        text += f", and {data['suppressed']} more like it"
    if event_name(event) == OffsetsExpired.NAME and event.get("id"):
        # Who reads this at night needs the way back here, not the page that has it.
        command = f"groupreplay offsets-file --bootstrap-server HOST:PORT {safe_text(str(event['id']))}"
        text += f"; the removed offsets as a file: {command}"
    # The texts show numbers as they are, and a number may be a text here.
    return text if is_safe(text) and len(text) <= _LIMIT else safe_text(text, _LIMIT)


def event_data(event: Mapping[str, Any]) -> Data:
    """The fields of an event, none of a message that is no event."""
    data = event.get("data")
    return data if isinstance(data, Mapping) else {}


def event_name(event: Mapping[str, Any]) -> str:
    """``rebalance.completed`` for the type ``groupreplay.rebalance.completed.v1``."""
    return name_of(str(event.get("type", "unknown")))


def _created(data: Data) -> str:
    if data.get("simple") or data.get("generation") is None:
        return "by an offset commit, without members"
    if data.get("group_type", "classic") != "classic":
        return f"{safe_text(str(data.get('group_type')))} group, epoch {data['generation']}"
    return f"generation {data['generation']}, before the first member's join is complete"


def _emptied(data: Data) -> str:
    return f"the last member has gone, generation {data.get('generation')}"


def _deleted(data: Data) -> str:
    generation = data.get("generation")
    after = "" if generation is None else f", after generation {generation}"
    return f"the group is gone{after}{phrases.requested_by(data)}{phrases.assumed(data)}"


def _converted(data: Data) -> str:
    kinds = [safe_text(str(data.get(field))) for field in ("from_type", "to_type")]
    return f"{kinds[0]} to {kinds[1]}, generation {data.get('generation')}"


def _started(data: Data) -> str:
    if data.get("generation") is None:
        return "seen by the prober; the log shows it when it is over"
    return f"epoch {data['generation']}, trigger {safe_text(str(data.get('trigger')))}"


def _completed(data: Data) -> str:
    count = data.get("member_count", len(data.get("members") or ()))
    parts = [
        f"generation {data.get('generation')}",
        f"{counted(count, 'member')}{_change(data)}",
        f"trigger {safe_text(str(data.get('trigger')))}{phrases.logged(data)}",
    ]
    length = rebalance_length(data)
    parts += [text for text in (length.text(), length.leader_text()) if text]
    if data.get("partitions_moved"):
        parts.append(f"{counted(data['partitions_moved'], 'partition')} moved")
    if data.get("partitions_unassigned"):
        parts.append(f"{counted(data['partitions_unassigned'], 'partition')} without an owner")
    if data.get("skipped_generations"):
        parts.append(phrases.never_completed(data["skipped_generations"]))
    return ", ".join(parts) + phrases.assumed(data)


def _change(data: Data) -> str:
    """`` (+1 -2)``: members that joined and left; empty when there are none or the log does not show them."""
    joined, left = data.get("joined") or (), data.get("left") or ()
    present = {member.get("member_id"): member for member in data.get("members") or ()}
    came = [phrases.member(present[name]) for name in joined[:NAMES_SHOWN] if name in present]
    went = [
        f"{phrases.member(member)} {phrases.spaced(member, 'reason')}"
        for member in (data.get("gone") or ())[:NAMES_SHOWN]
    ]
    signs = [
        f"{sign}{len(names)}{_named(shown, len(names))}"
        for sign, names, shown in (("+", joined, came), ("-", left, went))
        if names
    ]
    return f" ({(', ' if came or went else ' ').join(signs)})" if signs else ""


def _named(shown: Sequence[str], count: int) -> str:
    """The first names, and how many more there are; empty in events of earlier releases."""
    more = f" and {count - len(shown)} more" if count > len(shown) else ""
    return f" {', '.join(shown)}{more}" if shown else ""


def _left(data: Data) -> str:
    reason = safe_text(str(data.get("reason")))
    text = f"{phrases.member(data)}, reason {reason}, last seen {milliseconds(data.get('elapsed_ms'))} before"
    candidates = data.get("candidates") or ()
    if reason == "unknown" and candidates:
        text += f", one of {', '.join(safe_text(str(candidate.get('reason'))) for candidate in candidates)}"
    elif candidates and (candidates[0].get("timeout_ms") is not None or data.get("evidence") == "broker_log"):
        text += f" ({safe_text(str(candidates[0].get('words')))})"
    return text + phrases.assumed(data)


def _updated(data: Data) -> str:
    changed = ", ".join(_new_value(str(name), data) for name in data.get("changed") or ())
    return f"{phrases.member(data)}, new {changed or 'values'}"


def _new_value(name: str, data: Data) -> str:
    """The field, and for a timeout its values."""
    old, new = (data.get(which) or {} for which in ("old", "new"))
    if not name.endswith("_ms") or name not in old or name not in new:
        return safe_text(name)
    return f"{safe_text(name.removesuffix('_ms'))} ({milliseconds(old[name])}, now {milliseconds(new[name])})"


def _replaced(data: Data) -> str:
    instance = safe_text(str(data.get("instance_id")))
    hosts = [str(data.get(field) or "?").removeprefix("/") for field in ("old_host", "new_host")]
    moved = "" if hosts[0] == hosts[1] else f", moved from {safe_text(hosts[0])} to {safe_text(hosts[1])}"
    how = "in a rebalance" if data.get("rebalanced") else "no rebalance needed"
    return f"{instance} came back as a new process, {how}{moved}"


def _offsets(field: str) -> Callable[[Data], str]:
    """``2 partitions, retention: orders-3 at 42, orders-4 at 7``; ``field`` is the field with the reason."""

    def text(data: Data) -> str:
        places = [_place(partition) for partition in (data.get("partitions") or ())[:NAMES_SHOWN]]
        shown = f": {', '.join(places)}" if places else ""
        why = _UNKNOWN_CAUSES.get((field, str(data.get(field)))) or phrases.spaced(data, field)
        return f"{counted(data.get('partition_count', 0), 'partition')}, {why}{shown}"

    return text


def _expired(data: Data) -> str:
    """The same for expired offsets, with the broker's rule and what was assumed."""
    return f"{_offsets('reason')(data)}{phrases.expiry(data)}"


def _removed(data: Data) -> str:
    """The same for deleted offsets: without the retention or the release that was assumed, they may have expired."""
    assumed = phrases.assumed(data)
    either = "; or they have expired" if assumed else ""
    return f"{_offsets('reason')(data)}{phrases.requested_by(data)}{either}{assumed}"


def _place(partition: Data) -> str:
    offsets = [
        "unknown" if partition[name] is None else str(partition[name])
        for name in _OFFSETS
        if name in partition
    ]
    return f"{safe_text(str(partition.get('topic')))}-{partition.get('partition')} at {' -> '.join(offsets)}"


def _set(data: Data) -> str:
    """``2 partitions forward, at most 40 records skipped: orders-3 at 2 -> 42, …``."""
    direction = data.get("direction")
    parts = [counted(data.get("partition_count", 0), "partition")]
    if direction is not None:
        parts[0] += f" {safe_text(str(direction))}"
        done = _SET_EFFECTS.get(str(direction), "skipped or repeated")
        parts.append(f"at most {counted(data.get('offsets_moved', 0), 'record')} {done}")
    if data.get("interval_ms") is not None:
        parts.append(f"repeated every {milliseconds(data['interval_ms'])} and not reported again")
    places = ", ".join(_place(partition) for partition in (data.get("partitions") or ())[:NAMES_SHOWN])
    text = f"{', '.join(parts)}{phrases.requested_by(data)}"
    return f"{text}: {places}" if places else text


def _summary(data: Data) -> str:
    groups = counted(data.get("expired", 0), "group")
    return f"{groups} that do not matter lost offsets to retention in one day"


def _gap(data: Data) -> str:
    count = counted(len(data.get("partitions") or ()), "partition")
    reason = phrases.spaced(data, "reason")
    return f"the log is not the one that was read ({reason}, {count}): the state is built anew"


def _bad_record(data: Data) -> str:
    place = f"{safe_text(str(data.get('topic')))}-{data.get('partition')} offset {data.get('offset')}"
    return f"{place}, {safe_text(str(data.get('reason')))}"


def _quarantined(data: Data) -> str:
    offset = (
        "" if data.get("offset") is None else f" at partition {data.get('partition')} offset {data['offset']}"
    )
    error, place = (safe_text(str(data.get(name))) for name in ("error", "raised_in"))
    return f"{error} in {place}{offset}; nothing more is reported about it until it is tried again (docs/operations.md)"


def _state_damaged(data: Data) -> str:
    damage = safe_text(str(data.get("damage")))
    return f"{damage}; the next records begin a new state with a partial history: check the disk of the checkpoint"


def _unknown_event(data: Data) -> str:
    """An event that this release does not know: its scalar fields, shortened."""
    common = {"cluster_id", "group_id", "group_type", "simple", "evidence", "history", "catch_up"}
    fields = [
        f"{safe_text(str(name))}={safe_text(str(value), 60)}"
        for name, value in data.items()
        if name not in common and isinstance(value, (str, int, float)) and value != ""
    ]
    return " ".join(fields) or "no details"


#: Event -> its text, from the ``data`` of the event.
TEXTS: Final[Mapping[str, Callable[[Data], str]]] = {
    "group.created": _created,
    "group.emptied": _emptied,
    "group.deleted": _deleted,
    "group.converted": _converted,
    "rebalance.started": _started,
    "rebalance.completed": _completed,
    "member.left": _left,
    "member.joined": phrases.member,
    "member.updated": _updated,
    "static.replaced": _replaced,
    "offsets.expired": _expired,
    "offsets.deleted": _removed,
    "offsets.reset": _offsets("direction"),
    "offsets.set": _set,
    "offset.rewound": _offsets("kind"),
    "offsets.summary": _summary,
    IncidentOpened.NAME: Incident.line,
    IncidentResolved.NAME: Incident.line,
    RebalanceCost.NAME: RebalanceCost.line,
    "job.gap": _gap,
    "record.malformed": _bad_record,
    "record.skipped": _bad_record,
    "group.quarantined": _quarantined,
    "group.state_damaged": _state_damaged,
    **{kind.NAME: kind.text for kind in CONDITIONS},
}
