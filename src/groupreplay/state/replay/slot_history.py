"""What the slots of a group did lately, as far as conditions about members and rebalances need it.

The history is bounded: what is older than KEPT_MS is dropped at the next operation, and every list has a limit.
It does not depend on which events are switched off.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING, Final
from zlib import crc32

import msgspec

from groupreplay.codecs.kafka_terms import GroupType, Phase
from groupreplay.state.events.event import History
from groupreplay.state.policy.context import SessionSettings
from groupreplay.state.replay.departures import TOO_SLOW, remember
from groupreplay.state.replay.generation_diff import Departure, MembershipChange, is_replaced
from groupreplay.state.snapshot import modern
from groupreplay.state.snapshot.members import Mark, Member, Slot, SlotHistory, Takeover, shared_places
from groupreplay.state.snapshot.modern import ModernMember
from groupreplay.state.stored_form import bounded_text

if TYPE_CHECKING:
    from groupreplay.state.policy.context import Context
    from groupreplay.state.replay.report import Report
    from groupreplay.state.snapshot.group_snapshot import GroupSnapshot
    from groupreplay.state.snapshot.group_state import GroupState

#: No threshold can be longer.
KEPT_MS: Final = 2 * 3_600_000
#: Times of one kind kept of one slot: no threshold can be higher.
MOST_TIMES: Final = 32
_MOST_SLOTS: Final = 400
_MOST_MARKS: Final = 300
#: Rebalances of which the length is remembered.
_MOST_DURATIONS: Final = 100
#: A timeout is inferred from the elapsed time, which is never exact.
_LEAST_SLACK_MS: Final = 10_000
_MINUTE_MS: Final = 60_000


def learn(snapshot: GroupSnapshot, change: MembershipChange, report: Report) -> None:
    """Add one operation's change of the members; a group that does not exist any more has no history."""
    group = snapshot.group
    if group.phase is Phase.DEAD:
        snapshot.slot_history = None
        return
    if snapshot.slot_history is None:
        snapshot.slot_history = SlotHistory()
    history, at_ms = snapshot.slot_history, report.timestamp_ms
    _forget(history, at_ms - KEPT_MS)
    rebalance_ms, session_ms = timeouts(group)
    # Then the prober asks often enough to see every rebalance in which a member is too late.
    probed = report.context.probing and rebalance_ms >= 3 * snapshot.probes.interval_ms
    probed &= group.group_type is GroupType.CLASSIC
    lesson = _Lesson(history, at_ms, _shared_places(group, change), rebalance_ms, session_ms, probed)
    changed = lesson.learn(change)
    stopped = any(departure.reason == "left" for departure in change.departures)
    remember(
        history,
        at_ms,
        _members(group),
        stopped=stopped or any(is_replaced(old, new) for old, new in change.kept),
    )
    if change.lasted_ms is not None:
        history.durations_ms = (*history.durations_ms, change.lasted_ms)[-_MOST_DURATIONS:]
    slots = tuple(sorted({crc32(name.encode()) for name in changed}))
    generations = _generations(group, history)
    if generations or slots:
        history.marks.append(Mark(at_ms, generations, slots))


def learn_probe(snapshot: GroupSnapshot, taken_ms: int) -> None:
    """Count a probe while a rebalance is in progress."""
    if snapshot.slot_history is not None and snapshot.group.in_progress is not None:
        minute = taken_ms // _MINUTE_MS
        counts = snapshot.slot_history.unsettled
        counts[minute] = counts.get(minute, 0) + 1


def unsettled(history: SlotHistory, since_ms: int) -> int:
    """The number of probes since then, to the minute, that did not show Stable."""
    return sum(count for minute, count in history.unsettled.items() if minute >= since_ms // _MINUTE_MS)


def session_settings(snapshot: GroupSnapshot, context: Context, group_id: str) -> SessionSettings:
    """The session of members without one of their own."""
    return context.session_of(snapshot.group.group_type.value, group_id, snapshot.own_settings)


def timeouts(group: GroupState) -> tuple[int, int]:
    """The members' largest rebalance timeout (-1: unknown) and largest session timeout (0: unknown)."""
    if group.modern is not None and (living := modern.living(group.modern)):
        known = [
            (member.rebalance_timeout_ms, member.classic_session_timeout_ms or 0)
            for member in living.values()
        ]
    else:
        known = [
            (member.rebalance_timeout_ms, member.session_timeout_ms)
            for member in group.classic.members or group.former
        ]
    return max([-1, *[rebalance for rebalance, _ in known]]), max([0, *[session for _, session in known]])


def _members(group: GroupState) -> int:
    return len(group.classic.members if group.modern is None else modern.living(group.modern))


def _forget(history: SlotHistory, until_ms: int) -> None:
    # All of them: after a clock that went back, the oldest are not in front.
    history.marks = [mark for mark in history.marks if mark.at_ms > until_ms][-_MOST_MARKS:]
    history.unsettled = {
        minute: count for minute, count in history.unsettled.items() if minute > until_ms // _MINUTE_MS
    }
    for name, slot in list(history.slots.items()):
        # Most slots have none of these, and a storm has many slots.
        if slot.returned_ms:
            slot.returned_ms = _newer(slot.returned_ms, until_ms)
        if slot.dropped_ms:
            slot.dropped_ms = _newer(slot.dropped_ms, until_ms)
        if slot.takeovers:
            recent = tuple(takeover for takeover in slot.takeovers if takeover.at_ms > until_ms)
            slot.takeovers = recent[-MOST_TIMES:]
        away = slot.left_ms is not None and slot.left_ms > until_ms
        if not (away or slot.returned_ms or slot.dropped_ms or slot.takeovers or slot.idle_rounds):
            del history.slots[name]
    for name in list(history.slots)[: max(0, len(history.slots) - _MOST_SLOTS)]:
        # The oldest first: a slot moves to the end when something happens to it.
        del history.slots[name]


def _newer(times_ms: tuple[int, ...], until_ms: int) -> tuple[int, ...]:
    return tuple(at_ms for at_ms in times_ms if at_ms > until_ms)[-MOST_TIMES:]


def _generations(group: GroupState, history: SlotHistory) -> int:
    """Generations since the last operation, without those of a new configuration of a Connect group."""
    former, history.number = history.number, group.epoch
    if group.history is not History.FULL or former is None or history.number is None:
        return 0
    made = history.number - former
    offsets = [member.worker.config_offset for member in group.classic.members if member.worker is not None]
    if made > 0 and offsets:
        # The generation after it assigns the tasks that this one has only revoked.
        former_offset, history.config_offset = history.config_offset, max(offsets)
        moved = former_offset not in (-1, history.config_offset)
        follows, history.configured = history.configured, moved
        if moved or follows:
            return 0
    return max(0, made)


def _place(client_id: str, client_host: str) -> str:
    return f"{client_id}@{client_host}"


def _shared_places(group: GroupState, change: MembershipChange) -> frozenset[str]:
    """Places of several dynamic members, including those that have just left: such a place is no slot."""
    present: Iterable[Member | ModernMember] = group.classic.members
    if group.modern is not None:
        present = modern.living(group.modern).values()
    members = [*present, *(departure.member for departure in change.departures)]
    dynamic = (member for member in members if member.instance_id is None)
    _, shared = shared_places(_place(member.client_id, member.client_host) for member in dynamic)
    return frozenset(shared)


class _Lesson(msgspec.Struct, frozen=True):
    """What one operation adds to the history. ``probed``: the prober would have seen who was too late."""

    history: SlotHistory
    at_ms: int
    shared: frozenset[str]
    rebalance_timeout_ms: int
    session_timeout_ms: int
    probed: bool

    def learn(self, change: MembershipChange) -> list[str]:
        """The names of the slots that changed hands."""
        changed = [
            *map(self._leave, change.departures),
            *map(self._join, change.joined),
            *(self._return(old, new) for old, new in change.kept if is_replaced(old, new)),
        ]
        if change.emptied:
            self._end_idle_generations(except_for=())
        if change.completed is not None:
            # Last: how many generations a member was idle is counted for the slot that it has now.
            self._count_idle_generations(change.completed)
        return changed

    def _name(self, member: Member) -> str:
        """The slot of a member, as a hash: ids may be very long."""
        place = _place(member.client_id, member.client_host)
        if member.instance_id is not None:
            name = f"i{member.instance_id}"
        else:
            name = f"m{member.member_id}" if place in self.shared else f"p{place}"
        return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()

    def _slot(self, member: Member) -> tuple[str, Slot, Slot | None]:
        """(name, slot with this holder, the slot as it was); the slot that changed last is the last one."""
        name = self._name(member)
        former = self.history.slots.pop(name, None)
        # Bounded, because a slot outlives the record of its holder.
        instance_id = None if member.instance_id is None else bounded_text(member.instance_id)
        holder = (
            bounded_text(member.member_id),
            bounded_text(member.client_id),
            bounded_text(member.client_host),
            instance_id,
        )
        slot = Slot(*holder) if former is None else former
        before = None if former is None else msgspec.structs.replace(former)
        slot.member_id, slot.client_id, slot.client_host, slot.instance_id = holder
        self.history.slots[name] = slot
        return name, slot, before

    def _join(self, member: Member) -> str:
        """A slot has a holder; it returned when another member id had left it before."""
        name, slot, before = self._slot(member)
        if before is not None and before.left_ms is not None and before.member_id != slot.member_id:
            slot.returned_ms += (self.at_ms,)
        slot.left_ms = None
        return name

    def _leave(self, departure: Departure) -> str:
        """A slot has no holder; the broker may have removed the holder for being late."""
        name, slot, _ = self._slot(departure.member)
        slot.left_ms, slot.idle_rounds = self.at_ms, 0
        if self._timed_out(departure):
            slot.dropped_ms += (self.at_ms,)
            slot.rebalance_timeout_ms = self.rebalance_timeout_ms
        return name

    def _timed_out(self, departure: Departure) -> bool:
        """Whether it was too slow: the broker removed it, or its client gave up, which takes as long.

        Where the reason is unknown: it left about one rebalance timeout after its last sign, and not about one session
        timeout.
        """
        if departure.reason != "unknown":
            return departure.reason in TOO_SLOW
        likely = {candidate.reason for candidate in departure.finding.candidates if candidate.likely}
        if departure.awaited and not likely.isdisjoint(TOO_SLOW):
            # It happens again and again before anything is said.
            return True
        elapsed_ms = departure.elapsed_ms
        if elapsed_ms is None or self.rebalance_timeout_ms <= 0 or self.probed:
            return False
        slack_ms = max(_LEAST_SLACK_MS, self.session_timeout_ms // 4)
        late = 0.9 * self.rebalance_timeout_ms <= elapsed_ms <= self.rebalance_timeout_ms + slack_ms
        silent = 0.9 * self.session_timeout_ms <= elapsed_ms <= self.session_timeout_ms + slack_ms
        return late and not silent

    def _return(self, old: Member, new: Member) -> str:
        """A member came back under a new member id; a static one perhaps at another place."""
        name, slot, before = self._slot(new)
        if new.instance_id is not None:
            # The first takeover of a slot counts as one by the same client id.
            client_id = slot.client_id if before is None else before.client_id
            places = (
                _place(client_id, bounded_text(old.client_host)),
                _place(slot.client_id, slot.client_host),
            )
            slot.takeovers += (Takeover(self.at_ms, *places),)
        slot.returned_ms += (self.at_ms,)
        slot.left_ms = None
        return name

    def _count_idle_generations(self, members: Iterable[Member]) -> None:
        """Count generations of members without a partition; a member with an unreadable assignment is not idle."""
        idle = set()
        for member in members:
            if member.partitions == {}:
                name, slot, before = self._slot(member)
                slot.left_ms = None
                slot.idle_since_ms = before.idle_since_ms if before and before.idle_rounds else self.at_ms
                slot.idle_rounds += 1
                idle.add(name)
        self._end_idle_generations(except_for=idle)

    def _end_idle_generations(self, *, except_for: Collection[str]) -> None:
        for name, slot in self.history.slots.items():
            if name not in except_for:
                slot.idle_rounds = 0
