"""A clock that was ahead and is back: what it has left behind is forgotten.

A coordinator's clock may be ahead by up to a day without a record that cannot be (``plausible_times``). When a later
record of the group is earlier, everything that is remembered of a later time would hold up the group's conditions for
as long as the clock was ahead. A clock that is behind looks the same, so the same is done.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from groupreplay.state.plausible_times import SETBACK_MS
from groupreplay.state.snapshot.group_snapshot import GroupSnapshot, LogPosition
from groupreplay.state.snapshot.group_state import GroupState
from groupreplay.state.snapshot.members import SlotHistory
from groupreplay.state.snapshot.modern import Modern
from groupreplay.state.snapshot.offsets import Offsets


def is_setback(log: LogPosition, at_ms: int) -> bool:
    """Whether a record of this time was written by a clock that is behind that of the record before it."""
    return at_ms < log.last_timestamp_ms - SETBACK_MS


def set_back(snapshot: GroupSnapshot, offsets: Offsets, at_ms: int) -> None:
    """Cuts every remembered time of the log to ``at_ms``, or forgets it; the conditions are evaluated then.

    Times of the prober stay: it has a clock of its own.
    """
    snapshot.log.clock_ms = snapshot.log.last_timestamp_ms = at_ms
    snapshot.log.setbacks += 1
    snapshot.losses.lost = tuple(
        msgspec.structs.replace(one, at_ms=min(one.at_ms, at_ms)) for one in snapshot.losses.lost
    )
    if snapshot.sets.pace is not None and snapshot.sets.pace.last_ms > at_ms:
        snapshot.sets.pace = None
    snapshot.activity.born_ms = min(snapshot.activity.born_ms, at_ms)
    snapshot.activity.staffed_ms = min(snapshot.activity.staffed_ms, at_ms)
    _cut_group(snapshot.group, at_ms)
    offsets.set_back(at_ms)
    if snapshot.slot_history is not None:
        _forget(snapshot.slot_history, at_ms)
    for active in snapshot.conditions.active.values():
        active.condition = _begun(active.condition, at_ms)
    # Also if no detector waits for a time: a condition may rest on what was forgotten.
    snapshot.conditions.next_evaluation_ms = at_ms


def _earlier(remembered_ms: int | None, at_ms: int) -> int | None:
    return None if remembered_ms is None else min(remembered_ms, at_ms)


def _cut_group(group: GroupState, at_ms: int) -> None:
    group.since_ms = _earlier(group.since_ms, at_ms)
    group.record_timestamp_ms = _earlier(group.record_timestamp_ms, at_ms)
    group.classic = msgspec.structs.replace(
        group.classic,
        emptied_ms=_earlier(group.classic.emptied_ms, at_ms),
        joined_ms=_earlier(group.classic.joined_ms, at_ms),
    )
    if group.in_progress is not None and (group.in_progress.earliest_ms or 0) > at_ms:
        # A time of the log, where that was later than the round before.
        group.in_progress.earliest_ms = None
    if group.open_rebalance is not None:
        started_ms = min(group.open_rebalance.started_ms, at_ms)
        group.open_rebalance = msgspec.structs.replace(group.open_rebalance, started_ms=started_ms)
    if group.modern is not None:
        _cut_modern(group.modern, at_ms)


def _cut_modern(group: Modern, at_ms: int) -> None:
    group.target_timestamp_ms = _earlier(group.target_timestamp_ms, at_ms)
    for member in group.members.values():
        member.phase_since_ms = _earlier(member.phase_since_ms, at_ms)
        member.seen_ms = _earlier(member.seen_ms, at_ms)
        member.behind_since_ms = _earlier(member.behind_since_ms, at_ms)


def _forget(history: SlotHistory, at_ms: int) -> None:
    """What is counted in a window of time is forgotten: cut to one moment, it would look like a burst."""
    for name in history.__struct_fields__:
        moments = getattr(history, name)
        # Also what a condition remembers: whatever has a time of its own.
        if isinstance(moments, list | tuple) and moments and hasattr(moments[0], "at_ms"):
            setattr(history, name, type(moments)(moment for moment in moments if moment.at_ms <= at_ms))
    history.stopped_ms = min(history.stopped_ms, at_ms)
    for slot in history.slots.values():
        slot.returned_ms = _until(slot.returned_ms, at_ms)
        slot.dropped_ms = _until(slot.dropped_ms, at_ms)
        slot.takeovers = tuple(takeover for takeover in slot.takeovers if takeover.at_ms <= at_ms)
        slot.left_ms = _earlier(slot.left_ms, at_ms)
        slot.idle_since_ms = min(slot.idle_since_ms, at_ms)


def _until(times_ms: Iterable[int], at_ms: int) -> tuple[int, ...]:
    return tuple(time_ms for time_ms in times_ms if time_ms <= at_ms)


def _begun(condition: bytes, at_ms: int) -> bytes:
    """A reported condition that began by this moment; its id, which has the time of its report, stays."""
    fields: dict[str, Any] = msgspec.json.decode(condition)
    begun = {name: at_ms for name in ("since_ms", "since_ms_earliest") if (fields.get(name) or 0) > at_ms}
    return msgspec.json.encode({**fields, **begun}) if begun else condition
