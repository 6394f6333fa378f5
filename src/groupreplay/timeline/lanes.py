"""The lanes of a picture: who was in which slot when, and who held which partition when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from groupreplay.state.snapshot.partitions import each, from_ranges
from groupreplay.timeline.document import SHARED
from groupreplay.timeline.membership import Holder, Membership, Place

#: (topic, partition)
TopicPlace = tuple[str, int]


@dataclass(slots=True)
class Stay:
    """A member in a slot; ``until_ms`` None: to the end."""

    member_id: str
    since_ms: int
    until_ms: int | None = None


@dataclass(slots=True)
class SlotLife:
    """A slot with its members, and the number of partitions that it held: (since_ms, until_ms, number)."""

    place: Place
    stays: list[Stay] = field(default_factory=list)
    holdings: list[tuple[int, int | None, int]] = field(default_factory=list)


@dataclass(slots=True)
class Ownership:
    """A slot that owns a partition; ``members`` is their number where several share it, else 1."""

    slot: int
    since_ms: int
    until_ms: int | None = None
    members: int = 1


@dataclass(slots=True)
class Lanes:
    """All slots, owners by partition, and the slot of every member id that was ever seen."""

    slots: list[SlotLife] = field(default_factory=list)
    owners: dict[TopicPlace, list[Ownership]] = field(default_factory=dict)
    slot_of: dict[str, int] = field(default_factory=dict)
    unread: bool = False


def lanes_of(history: Iterable[Membership]) -> Lanes:
    """The lanes of a group.

    A slot goes on with the member of the same instance id, or with one of the same client id and host that comes when
    or after its holder has left. Two members at one time never share a slot.
    """
    writer = _LaneWriter()
    for membership in history:
        writer.apply(membership)
    return writer.lanes


class _LaneWriter:
    def __init__(self) -> None:
        self.lanes = Lanes()
        self._present: dict[str, Holder] = {}
        self._free: dict[Place, list[int]] = defaultdict(list)
        self._sharers: dict[TopicPlace, set[int]] = defaultdict(set)

    def apply(self, now: Membership) -> None:
        """The members after one operation."""
        before, lost, gained = self._present, dict[TopicPlace, int](), dict[TopicPlace, int]()
        for member_id in [one for one in before if one not in now.holders]:
            slot = self._leave(member_id, now.at_ms)
            self._note_count(slot, None, now.at_ms)
            lost |= dict.fromkeys(each(before[member_id].partitions), slot)
        for member_id, holder in now.holders.items():
            old = before.get(member_id)
            if old is holder:
                continue
            slot = self._slot(member_id, holder, now.at_ms, is_new=old is None)
            held, old_held = holder.partitions, old.partitions if old else None
            self.lanes.unread |= held is None
            if old is None or held != old_held:
                self._note_count(slot, held, now.at_ms)
                # A topic whose ranges are the same needs no look at its partitions.
                lost |= dict.fromkeys(each(_without(old_held, held)), slot)
                gained |= dict.fromkeys(each(_without(held, old_held)), slot)
        self._present = dict(now.holders)
        self._move(lost, gained, now)

    def _slot(self, member_id: str, holder: Holder, at_ms: int, *, is_new: bool) -> int:
        if not is_new:
            return self.lanes.slot_of[member_id]
        free = self._free.get(_key(holder.place))
        if free:
            slot = free.pop()
        else:
            slot = len(self.lanes.slots)
            self.lanes.slots.append(SlotLife(holder.place))
        self.lanes.slot_of[member_id] = slot
        self.lanes.slots[slot].stays.append(Stay(member_id, at_ms))
        return slot

    def _leave(self, member_id: str, at_ms: int) -> int:
        slot = self.lanes.slot_of[member_id]
        life = self.lanes.slots[slot]
        life.stays[-1].until_ms = at_ms
        self._free[_key(life.place)].append(slot)
        return slot

    def _note_count(self, slot: int, held: Mapping[str, str] | None, at_ms: int) -> None:
        holdings = self.lanes.slots[slot].holdings
        count = None if held is None else sum(len(from_ranges(ranges)) for ranges in held.values())
        if holdings and holdings[-1][1] is None:
            if holdings[-1][2] == count:
                return
            since_ms, _, number = holdings.pop()
            if since_ms < at_ms:
                holdings.append((since_ms, at_ms, number))
        if count is not None:
            holdings.append((at_ms, None, count))

    def _move(self, lost: dict[TopicPlace, int], gained: dict[TopicPlace, int], now: Membership) -> None:
        if now.shared:
            self._share(now)
            return
        for one, slot in lost.items():
            if one not in gained:
                self._end(one, now.at_ms, slot)
        for one, slot in gained.items():
            self._begin(one, now.at_ms, slot, 1)

    def _share(self, now: Membership) -> None:
        """Partitions of a share group: their number of members, as an owner of its own."""
        sharers: dict[TopicPlace, list[int]] = defaultdict(list)
        for member_id, holder in now.holders.items():
            for one in each(holder.partitions):
                sharers[one].append(self.lanes.slot_of[member_id])
        for one in [one for one in self._sharers if one not in sharers]:
            self._end(one, now.at_ms, None)
            del self._sharers[one]
        for one, slots in sharers.items():
            if self._sharers.get(one) != set(slots):
                self._sharers[one] = set(slots)
                alone = len(slots) == 1
                self._begin(one, now.at_ms, slots[0] if alone else SHARED, len(slots))

    def _begin(self, one: TopicPlace, at_ms: int, slot: int, members: int) -> None:
        spans = self.lanes.owners.setdefault(one, [])
        if spans and spans[-1].until_ms is None:
            last = spans[-1]
            if (last.slot, last.members) == (slot, members):
                return
            self._end(one, at_ms, None)
        elif spans and (spans[-1].until_ms, spans[-1].slot, spans[-1].members) == (at_ms, slot, members):
            spans[-1].until_ms = None
            return
        spans.append(Ownership(slot, at_ms, None, members))

    def _end(self, one: TopicPlace, at_ms: int, slot: int | None) -> None:
        """The partition is free; ``slot``: unless another one has taken it since."""
        spans = self.lanes.owners.get(one)
        if not spans or spans[-1].until_ms is not None or slot not in (None, spans[-1].slot):
            return
        if spans[-1].since_ms >= at_ms:
            spans.pop()
        else:
            spans[-1].until_ms = at_ms


def _key(place: Place) -> Place:
    """Static members are told apart by their instance id alone."""
    return Place(place.instance_id, "", "") if place.instance_id else place


def _without(held: Mapping[str, str] | None, other: Mapping[str, str] | None) -> dict[str, str]:
    """The topics whose ranges differ."""
    return {topic: text for topic, text in (held or {}).items() if (other or {}).get(topic) != text}
