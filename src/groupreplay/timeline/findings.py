"""What the events of a group say: generations, conditions, changed offsets, members that are named, and holes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from groupreplay.codecs.kafka_terms import GroupType
from groupreplay.state import phrases
from groupreplay.state.phrases import rebalance_length
from groupreplay.state.replay.departures import BY_ITSELF
from groupreplay.timeline.document import (
    Blame,
    ConditionBar,
    EventRow,
    GenerationFlag,
    Hole,
    LaneMark,
    OffsetChange,
    SlotLane,
    StateBar,
)
from groupreplay.timeline.event_reading import ReadEvent, whole, words
from groupreplay.timeline.facts import SAME_MOMENT_MS, GapFinder, worst
from groupreplay.timeline.lanes import Lanes
from groupreplay.timeline.states import StateSpan
from groupreplay.timeline.stop_cost import Backlog, rebalance_cost

#: The index of an event's row, None if it has none.
RowOf = Callable[[ReadEvent], "int | None"]
#: The slot of a member id in the document, None if it has none.
SlotOf = Callable[[str], "int | None"]
TextOf = Callable[[Mapping[str, Any]], str]

#: Fields with the offset before and after, in the order in which they are looked for.
_OLD: Final = ("old_offset", "lost_offset", "from_offset", "previous_offset")
_NEW: Final = ("new_offset", "to_offset")


def generation_flags(
    events: Sequence[ReadEvent], row_of: RowOf, slot_of: SlotOf, backlog: Backlog | None = None
) -> list[GenerationFlag]:
    """The completed rebalances, in order; each with its cost where the ``backlog`` is known."""
    flags, before_ms = list[GenerationFlag](), None
    for event in events:
        if event.name == "rebalance.completed":
            flags.append(_flag(event, before_ms, row_of, slot_of, backlog))
        if event.name == "rebalance.started":
            # Of a classic group it is that of the first one, whose number nothing shows.
            earliest_ms = event.number("since_ms_earliest")
            before_ms = before_ms if earliest_ms is None else earliest_ms
        elif event.number("generation") is not None and not event.text("condition_id"):
            before_ms = event.time_ms
    return flags


def _flag(
    event: ReadEvent, before_ms: int | None, row_of: RowOf, slot_of: SlotOf, backlog: Backlog | None
) -> GenerationFlag:
    length = rebalance_length(event.data)
    leader, skipped = length.slow_leader, event.number("skipped_generations") or 0
    begun_ms = event.time_ms - (length.sync_ms or 0)
    return GenerationFlag(
        at_ms=event.time_ms,
        generation=event.number("generation") or 0,
        trigger=event.text("trigger") or "unknown",
        members=event.number("member_count") or 0,
        joined=len(event.items("joined")),
        left=len(event.items("left")),
        moved=event.number("partitions_moved"),
        unassigned=event.number("partitions_unassigned"),
        skipped=skipped,
        failed=(min(before_ms, begun_ms), begun_ms) if skipped and before_ms is not None else None,
        duration_ms=event.number("duration_ms"),
        duration_upper_bound_ms=event.number("duration_upper_bound_ms"),
        least_ms=length.least_ms,
        most_ms=length.most_ms,
        took=length.text(),
        join_ms_min=event.number("join_ms_min"),
        join_ms_max=event.number("join_ms_max"),
        sync_ms=length.sync_ms,
        slow_leader=None if leader is None else phrases.member(leader),
        leader_slot=None if leader is None else slot_of(words(leader.get("member_id"))),
        event=row_of(event),
        cost=rebalance_cost(backlog, event.time_ms, event.data) if backlog else None,
    )


def condition_bars(
    events: Sequence[ReadEvent], row_of: RowOf, text_of: TextOf
) -> list[tuple[ConditionBar, ReadEvent]]:
    """The conditions in the order of their begin, each with the event that says most: the last one while it held."""
    by_id: dict[str, list[ReadEvent]] = {}
    for event in events:
        if event.text("condition_id"):
            by_id.setdefault(event.text("condition_id"), []).append(event)
    bars = [_condition_bar(told, row_of, text_of) for told in by_id.values()]
    return sorted(bars, key=lambda one: (one[0].since_ms, one[0].name))


def _condition_bar(
    told: Sequence[ReadEvent], row_of: RowOf, text_of: TextOf
) -> tuple[ConditionBar, ReadEvent]:
    first, last = told[0], told[-1]
    best = _says_most(told)
    since_ms = first.number("since_ms")
    bar = ConditionBar(
        name=first.name,
        condition_id=first.text("condition_id"),
        severity=worst([event.severity for event in told]),
        since_ms=first.time_ms if since_ms is None else min(since_ms, first.time_ms),
        until_ms=last.time_ms if last.text("status") == "resolved" else None,
        subject=phrases.subject(best.data),
        text=text_of(best.body),
        runbook=best.text("runbook"),
        events=tuple(row for event in told if (row := row_of(event)) is not None),
    )
    return bar, best


def _says_most(told: Sequence[ReadEvent]) -> ReadEvent:
    """The last event of the state in which the group was longest, while the condition held.

    A rebalance that waited for a member for minutes ends with a moment in its sync phase, whose suspect is the leader.
    Of a condition that is over it is the event whose blockers were waited for longest: the last one goes alone.
    """
    firing = [event for event in told if event.text("status") != "resolved"]
    if not firing:  # a history that begins inside, or has the newest events only
        return told[-1]
    lasted_ms = Counter[str]()
    for event, after in zip(firing, (*firing[1:], told[-1]), strict=True):
        begin_ms = (event.number("since_ms") or event.time_ms) if event is firing[0] else event.time_ms
        lasted_ms[event.text("state")] += after.time_ms - begin_ms
    state = max(lasted_ms, key=lasted_ms.__getitem__, default="")
    latest_first = [event for event in reversed(firing) if event.text("state") == state]
    if told[-1].text("status") != "resolved":
        return latest_first[0]
    return max(latest_first, key=lambda event: _waited_ms(event, told))


def _waited_ms(event: ReadEvent, told: Sequence[ReadEvent]) -> int:
    """For how long the condition had the blockers of this event, all together; 0 without any."""
    total_ms = 0
    for blocker in event.mappings("blockers"):
        last = max(place for place, other in enumerate(told) if _blocker_id(blocker) in _blocker_ids(other))
        until_ms = told[min(last + 1, len(told) - 1)].time_ms
        total_ms += max(0, until_ms - (whole(blocker.get("since_ms")) or event.time_ms))
    return total_ms


def _blocker_ids(event: ReadEvent) -> list[str]:
    return list(map(_blocker_id, event.mappings("blockers")))


def _blocker_id(blocker: Mapping[str, Any]) -> str:
    return words(blocker.get("member_id"))


def offset_changes(events: Sequence[ReadEvent], row_of: RowOf) -> list[OffsetChange]:
    """Offsets that were set, reset, lost or went back, one by one; also those of events of later releases."""
    return [
        OffsetChange(
            at_ms=event.time_ms,
            name=event.name,
            topic=words(partition.get("topic")),
            partition=whole(partition.get("partition")) or 0,
            old=_first(partition, (*_OLD, *(() if _first(partition, _NEW) is not None else ("offset",)))),
            new=_first(partition, _NEW),
            severity=event.severity,
            event=row_of(event),
        )
        for event in events
        if event.name.startswith(("offset.", "offsets.")) and not event.text("condition_id")
        for partition in event.mappings("partitions")
        if words(partition.get("topic"))
    ]


def _first(one: Mapping[str, Any], names: Sequence[str]) -> int | None:
    return next((value for name in names if (value := whole(one.get(name))) is not None), None)


def slot_of_event(event: ReadEvent, lanes: Lanes) -> int | None:
    """The slot of the member that an event is about; None if it is about the group or an unknown member."""
    for field in ("member_id", "new_member_id", "old_member_id"):
        if (slot := lanes.slot_of.get(event.text(field))) is not None:
            return slot
    return _slot_of_instance(event.text("instance_id"), lanes)


def _slot_of_instance(instance_id: str, lanes: Lanes) -> int | None:
    slots = range(len(lanes.slots))
    return next(
        (slot for slot in slots if instance_id and lanes.slots[slot].place.instance_id == instance_id), None
    )


def lane_marks(events: Sequence[ReadEvent], lanes: Lanes, row_of: RowOf) -> dict[int, list[LaneMark]]:
    """Slot -> the events about its members."""
    marks: dict[int, list[LaneMark]] = {}
    for event in events:
        slot = slot_of_event(event, lanes)
        if slot is not None:
            mark = LaneMark(at_ms=event.time_ms, name=event.name, event=row_of(event))
            marks.setdefault(slot, []).append(mark)
    return marks


def blames(
    conditions: Sequence[tuple[ConditionBar, ReadEvent]], events: Sequence[ReadEvent], lanes: Lanes
) -> dict[int, list[Blame]]:
    """Slot -> the conditions that name its holder: as a member that blocks, that is suspected, or as their subject."""
    found: dict[int, list[Blame]] = {}
    for number, (bar, event) in enumerate(conditions):
        for slot, proven, why in _named(bar, event, events, lanes):
            blame = Blame(
                since_ms=bar.since_ms,
                until_ms=bar.until_ms,
                proven=proven,
                condition=number,
                text=f"{bar.name.replace('.', ' ')}: {why}",
            )
            found.setdefault(slot, []).append(blame)
    return found


def _named(
    bar: ConditionBar, event: ReadEvent, events: Sequence[ReadEvent], lanes: Lanes
) -> Iterator[tuple[int, bool, str]]:
    own = slot_of_event(event, lanes)
    if own is not None:
        yield own, event.text("evidence") == "log", "it is the subject"
        return
    blockers = [
        slot for blocker in event.mappings("blockers") if (slot := _slot_in(blocker, lanes)) is not None
    ]
    for slot in dict.fromkeys(blockers):
        yield slot, True, "the others wait for it"
    if not blockers and (suspected := culprit(bar, event, events, lanes)) is not None:
        slot, reason = suspected
        yield slot, False, f"{_SUSPECTED.get(reason, 'the others may wait for it')}, inferred"


#: It was no suspect: it had committed when it learned of the rebalance, and then it did not rejoin.
_REMOVED: Final = "removed"
#: What a suspect did, by the reason of ``Suspect``.
_SUSPECTED: Final[Mapping[str, str]] = {
    "no_commit_since_start": "it did not rejoin",
    "leader_has_not_synced": "it leads the group and did not sync",
    "static_member_absent": "it is a static member that is absent",
    _REMOVED: "the coordinator removed it because it did not rejoin",
}


def culprit(
    bar: ConditionBar, event: ReadEvent, events: Sequence[ReadEvent], lanes: Lanes
) -> tuple[int, str] | None:
    """The slot that a classic rebalance most likely waited for, and why it is suspected.

    The suspect that was gone when the rebalance ended, and had not left on purpose; else who was removed then because
    it had not rejoined; else the first one.
    """
    suspects = [
        (slot, words(suspect.get("reason")))
        for suspect in event.mappings("suspects")
        if (slot := _slot_in(suspect, lanes)) is not None
    ]
    removed = {
        slot: left.text("reason")
        for left in events
        if left.name == "member.left"
        and left.text("reason") in BY_ITSELF
        and bar.until_ms is not None
        and abs(left.time_ms - bar.until_ms) <= SAME_MOMENT_MS
        and (slot := lanes.slot_of.get(left.text("member_id"))) is not None
    }
    named = [suspect for suspect in suspects if suspect[0] in removed]
    if not named and event.text("reason") == "not_joined":
        named = [(slot, _REMOVED) for slot, reason in removed.items() if reason == "rebalance_timeout"]
    return next(iter(named or suspects), None)


def _slot_in(member: Mapping[str, Any], lanes: Lanes) -> int | None:
    slot = lanes.slot_of.get(words(member.get("member_id")))
    return _slot_of_instance(words(member.get("instance_id")), lanes) if slot is None else slot


def holes(events: Sequence[ReadEvent], since_ms: int) -> list[Hole]:
    """Times of which the log has no records any more; what lies before ``since_ms`` has no length."""
    found, gaps, before_ms = list[Hole](), GapFinder(), since_ms
    for event in events:
        if gap := gaps.before(event.name, event.data):
            found.append(Hole(since_ms=min(before_ms, event.time_ms), until_ms=event.time_ms, text=gap))
        if not event.text("condition_id"):
            before_ms = event.time_ms
    return found


def assumed_numbers(events: Sequence[ReadEvent]) -> dict[str, int]:
    """The numbers that these events assume."""
    return {
        words(name): number
        for event in events
        for name, value in event.mapping("assumed").items()
        if (number := whole(value)) is not None
    }


def event_rows(
    kept: Sequence[ReadEvent],
    whole_bodies: Mapping[int, Mapping[str, Any]],
    lanes: Lanes,
    slots: Sequence[SlotLane],
    renumbered: Mapping[int, int],
    text_of: TextOf,
) -> list[EventRow]:
    """The rows of these events; ``whole_bodies`` by the event's index, ``renumbered`` the slots of the document."""
    repeats = Counter(tenure.event for lane in slots for tenure in lane.tenures if tenure.repeats)
    rows = []
    for number, event in enumerate(kept):
        cause, slot = event.cause, slot_of_event(event, lanes)
        rows.append(
            EventRow(
                id=event.id,
                time_ms=event.time_ms,
                name=event.name,
                severity=event.severity,
                text=_row_text(event, text_of) + _repeated(repeats[number]),
                topic=words(cause.get("topic")) or None,
                partition=whole(cause.get("partition")),
                offset=whole(cause.get("offset")),
                slot=None if slot is None else renumbered.get(slot),
                repeats=repeats[number],
                assumed=assumed_numbers([event]),
                cut=event.index not in whole_bodies,
                body=whole_bodies.get(event.index),
            )
        )
    return rows


def _row_text(event: ReadEvent, text_of: TextOf) -> str:
    """The event's text, with the numbers that it assumes."""
    text, assumed = text_of(event.body), phrases.assumed(event.data)
    return text if assumed in text else text + assumed


def _repeated(count: int) -> str:
    return f"; {count} more like it within a minute, without an event" if count else ""


def group_type(events: Sequence[ReadEvent], states: Sequence[StateBar | StateSpan]) -> str:
    """The type of the group at the end."""
    if states:
        return states[-1].group_type
    return events[-1].text("group_type") if events else GroupType.CLASSIC.value


def runbook_page(events: Sequence[ReadEvent]) -> str:
    """The page that the events link to; empty: they link to none."""
    return next((page for event in events if (page := event.text("runbook").partition("#")[0])), "")
