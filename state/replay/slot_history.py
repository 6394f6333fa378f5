"""What a group did lately, as far as conditions about members and rounds need it: learned from facts.

Bounded: what is older than KEPT_MS is forgotten at the next operation, and every list has a cap. Facts that are
switched off, or from before the job's first start, are learned all the same. Must not know numbers of rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

import msgspec

from groupreplay.state.events.event import Fact, History
from groupreplay.state.events.group_events import (
    GroupEmptied,
    MemberJoined,
    MemberLeft,
    MemberUpdated,
    RebalanceCompleted,
    StaticReplaced,
)
from groupreplay.state.kafka_terms import GroupType, Phase
from groupreplay.state.snapshot import modern
from groupreplay.state.snapshot.slot_history import Mark, Slot, SlotHistory, Takeover

if TYPE_CHECKING:
    from groupreplay.state.replay.report import Report
    from groupreplay.state.snapshot.group_snapshot import GroupSnapshot
    from groupreplay.state.snapshot.group_state import GroupState

#: No rule can look back further.
KEPT_MS: Final = 2 * 3_600_000
#: Times of one kind kept of one slot: no rule can count further.
MOST_TIMES: Final = 32
_MOST_SLOTS: Final = 400
_MOST_MARKS: Final = 300
#: Timeouts are told by the time that has passed, which is never exact.
_LEAST_SLACK_MS: Final = 10_000
_MINUTE_MS: Final = 60_000


def learn(snapshot: GroupSnapshot, report: Report) -> None:
    """Take over what one operation's facts say; a group that is gone leaves nothing."""
    if snapshot.group.phase is Phase.DEAD:
        snapshot.slot_history = None
        return
    if snapshot.slot_history is None:
        snapshot.slot_history = SlotHistory()
    habits, at_ms = snapshot.slot_history, report.timestamp_ms
    _forget(habits, at_ms - KEPT_MS)
    lesson = _Lesson(
        snapshot,
        habits,
        at_ms,
        _shared_places(snapshot.group, report.facts),
        *timeouts(snapshot.group),
        report.context.probing,
    )
    # A round is told before its members; what they have now is counted when it is known who they are.
    facts = sorted(report.facts, key=lambda fact: isinstance(fact, RebalanceCompleted))
    changed = [lesson.take(fact) for fact in facts]
    slots = tuple(sorted({crc32(name.encode()) for name in changed if name is not None}))
    generations = _generations(snapshot.group, habits)
    if generations or slots:
        habits.marks.append(Mark(at_ms, generations, slots))


def learn_probe(snapshot: GroupSnapshot, taken_ms: int) -> None:
    """Count an answer of the prober while a rebalance is in progress."""
    if snapshot.slot_history is not None and snapshot.group.in_progress is not None:
        minute = taken_ms // _MINUTE_MS
        counts = snapshot.slot_history.unsettled
        counts[minute] = counts.get(minute, 0) + 1


def unsettled(habits: SlotHistory, since_ms: int) -> int:
    """How many answers of the prober were not Stable, to the minute."""
    return sum(count for minute, count in habits.unsettled.items() if minute >= since_ms // _MINUTE_MS)


def timeouts(group: GroupState) -> tuple[int, int]:
    """The members' largest rebalance timeout (-1: unknown) and largest session timeout (0: unknown)."""
    former = [
        (one.rebalance_timeout_ms, one.session_timeout_ms) for one in group.classic.members or group.former
    ]
    known = former
    if group.modern is not None:
        known = [
            (one.rebalance_timeout_ms, one.classic_session_timeout_ms or 0)
            for one in modern.living(group.modern).values()
        ] or former
    return max((one for one, _ in known), default=-1), max((one for _, one in known), default=0)


def _forget(habits: SlotHistory, until_ms: int) -> None:
    habits.marks = [mark for mark in habits.marks if mark.at_ms > until_ms][-_MOST_MARKS:]
    habits.unsettled = {
        minute: count for minute, count in habits.unsettled.items() if minute > until_ms // _MINUTE_MS
    }
    for name, slot in list(habits.slots.items()):
        slot.returned_ms = _recent(slot.returned_ms, until_ms)
        slot.dropped_ms = _recent(slot.dropped_ms, until_ms)
        slot.takeovers = tuple(one for one in slot.takeovers if one.at_ms > until_ms)[-MOST_TIMES:]
        away = slot.left_ms is not None and slot.left_ms > until_ms
        if not (away or slot.returned_ms or slot.dropped_ms or slot.takeovers or slot.idle_rounds):
            del habits.slots[name]
    for name in list(habits.slots)[: max(0, len(habits.slots) - _MOST_SLOTS)]:
        # The oldest first: a slot moves to the end when something happens to it.
        del habits.slots[name]


def _recent(times_ms: tuple[int, ...], until_ms: int) -> tuple[int, ...]:
    return tuple(at_ms for at_ms in times_ms if at_ms > until_ms)[-MOST_TIMES:]


def _generations(group: GroupState, habits: SlotHistory) -> int:
    """Generations made since the last operation, those of a Connect group's new configuration left out."""
    former, habits.number = habits.number, group.epoch
    if group.history is not History.FULL or former is None or habits.number is None:
        return 0
    made = habits.number - former
    offsets = [one.worker.config_offset for one in group.classic.members if one.worker is not None]
    if made > 0 and offsets:
        # The round after it moves the tasks that the first one has only taken away.
        former_offset, habits.config_offset = habits.config_offset, max(offsets)
        moved = former_offset not in (-1, habits.config_offset)
        follows, habits.configured = habits.configured, moved
        if moved or follows:
            return 0
    return max(0, made)


def _place(client_id: str, client_host: str) -> str:
    return f"{client_id}@{client_host}"


def _holders(group: GroupState) -> Iterable[tuple[str, Any]]:
    """(member id, member) of all that are in the group."""
    if group.modern is not None:
        return modern.living(group.modern).items()
    return ((one.member_id, one) for one in group.classic.members)


def _shared_places(group: GroupState, facts: Iterable[Fact]) -> frozenset[str]:
    """Places of several dynamic members, those that have just left among them: they make no slot."""
    here = [_place(one.client_id, one.client_host) for _, one in _holders(group) if one.instance_id is None]
    gone = [
        _place(one.client_id, one.client_host)
        for one in facts
        if isinstance(one, MemberLeft) and one.instance_id is None
    ]
    return frozenset(place for place, count in Counter(here + gone).items() if count > 1)


@dataclass(frozen=True, slots=True)
class _Lesson:
    """The facts of one operation, one after the other."""

    snapshot: GroupSnapshot
    habits: SlotHistory
    at_ms: int
    shared: frozenset[str]
    rebalance_timeout_ms: int
    session_timeout_ms: int
    probing: bool

    def take(self, fact: Fact) -> str | None:
        """Remember a fact; the name of the slot that it says has changed."""
        return _LESSONS[type(fact)](self, fact) if type(fact) in _LESSONS else None

    def _name(self, member: Any) -> str:
        """What makes the slot of a member, or of a fact about one, as a hash: ids may be very long."""
        place = _place(member.client_id, member.client_host)
        if member.instance_id is not None:
            made = f"i{member.instance_id}"
        else:
            made = f"m{member.member_id}" if place in self.shared else f"p{place}"
        return blake2b(made.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()

    def _slot(self, member: Any) -> tuple[str, Slot, Slot | None]:
        """(name, slot with this holder, the slot as it was); the one that was touched last comes last."""
        name = self._name(member)
        former = self.habits.slots.pop(name, None)
        holder = (member.member_id, member.client_id, member.client_host, member.instance_id)
        slot = Slot(*holder) if former is None else former
        before = None if former is None else msgspec.structs.replace(former)
        slot.member_id, slot.client_id, slot.client_host, slot.instance_id = holder
        self.habits.slots[name] = slot
        return name, slot, before

    def joined(self, fact: MemberJoined) -> str:
        """A slot is taken; it returns when it was left before by another member id."""
        name, slot, before = self._slot(fact)
        if before is not None and before.left_ms is not None and before.member_id != fact.member_id:
            slot.returned_ms += (self.at_ms,)
        slot.left_ms = None
        return name

    def left(self, fact: MemberLeft) -> str:
        """A slot is free; perhaps its holder was thrown out for being late."""
        name, slot, _ = self._slot(fact)
        slot.left_ms, slot.idle_rounds = self.at_ms, 0
        if self._timed_out(fact):
            slot.dropped_ms += (self.at_ms,)
            slot.rebalance_timeout_ms = self.rebalance_timeout_ms
        return name

    def _timed_out(self, fact: MemberLeft) -> bool:
        """At about the rebalance timeout after its last sign, and not at about the session timeout."""
        if fact.reason in ("rebalance_timeout", "left", "session_timeout"):
            return fact.reason == "rebalance_timeout"
        if fact.elapsed_ms is None or self.rebalance_timeout_ms <= 0 or self._would_have_been_seen():
            return False
        slack_ms = max(_LEAST_SLACK_MS, self.session_timeout_ms // 4)
        late = 0.9 * self.rebalance_timeout_ms <= fact.elapsed_ms <= self.rebalance_timeout_ms + slack_ms
        silent = 0.9 * self.session_timeout_ms <= fact.elapsed_ms <= self.session_timeout_ms + slack_ms
        return late and not silent

    def _would_have_been_seen(self) -> bool:
        """A prober asks often enough to see every rebalance that somebody is too late for, so it would be told."""
        classic = self.snapshot.group.group_type is GroupType.CLASSIC
        return self.probing and classic and self.rebalance_timeout_ms >= 3 * self.snapshot.probes.interval_ms

    def updated(self, fact: MemberUpdated) -> str | None:
        """A dynamic member with a new member id in its old slot was started again."""
        if "member_id" not in fact.changed:
            return None
        name, slot, _ = self._slot(fact)
        slot.returned_ms += (self.at_ms,)
        slot.left_ms = None
        return name

    def replaced(self, fact: StaticReplaced) -> str | None:
        """A static member came back, perhaps at another place."""
        member = dict(_holders(self.snapshot.group)).get(fact.new_member_id)
        if member is None:
            return None
        client_id = member.client_id
        holder = MemberJoined(
            member_id=fact.new_member_id,
            client_id=client_id,
            client_host=fact.new_host,
            instance_id=fact.instance_id,
        )
        name, slot, before = self._slot(holder)
        # The old client id is in no fact: what was last remembered of the slot, else it was the same.
        old_client_id = before.client_id if before is not None else client_id
        old, new = _place(old_client_id, fact.old_host), _place(client_id, fact.new_host)
        slot.takeovers += (Takeover(self.at_ms, old, new),)
        slot.returned_ms += (self.at_ms,)
        slot.left_ms = None
        return name

    def completed(self, fact: RebalanceCompleted) -> None:
        """Count the rounds of members that got nothing; where assignments cannot be read, nobody is idle."""
        seen = set()
        for member in fact.members:
            if member.partitions == {}:
                name, slot, before = self._slot(member)
                slot.left_ms = None
                slot.idle_since_ms = before.idle_since_ms if before and before.idle_rounds else self.at_ms
                slot.idle_rounds += 1
                seen.add(name)
        for name, slot in self.habits.slots.items():
            if name not in seen:
                slot.idle_rounds = 0

    def emptied(self, fact: GroupEmptied) -> None:
        """Nobody is idle where nobody is."""
        for slot in self.habits.slots.values():
            slot.idle_rounds = 0


#: A fact -> what is learned from it.
_LESSONS: Final[Mapping[type[Fact], Callable[[_Lesson, Any], str | None]]] = {
    MemberJoined: _Lesson.joined,
    MemberLeft: _Lesson.left,
    MemberUpdated: _Lesson.updated,
    StaticReplaced: _Lesson.replaced,
    RebalanceCompleted: _Lesson.completed,
    GroupEmptied: _Lesson.emptied,
}
