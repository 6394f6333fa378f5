"""The members of a group after each operation of its coordinator, and the lanes that they make in time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from groupreplay.codecs import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    uuid_text,
)
from groupreplay.codecs.kafka_terms import GroupType
from groupreplay.state.policy.context import Redaction, redacted
from groupreplay.state.replay.topic_names import by_name
from groupreplay.state.snapshot import modern
from groupreplay.state.snapshot.members import Member, client_fields, read_members
from groupreplay.state.snapshot.modern import Modern, ModernMember
from groupreplay.state.snapshot.observations import GroupRecord
from groupreplay.state.snapshot.partitions import by_topic, each, from_ranges
from groupreplay.timeline.document import SHARED
from groupreplay.timeline.states import operations


class Place(NamedTuple):
    """What tells the slot of a member."""

    instance_id: str | None
    client_id: str
    client_host: str


@dataclass(frozen=True, slots=True)
class Holder:
    """A member and what it holds, as ranges by topic; None where its assignment cannot be read."""

    place: Place
    partitions: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class Membership:
    """The members after an operation, by member id. ``shared``: several members hold the same partition."""

    at_ms: int
    offset: int
    holders: Mapping[str, Holder]
    shared: bool = False


def memberships(
    records: Sequence[GroupRecord], topic_names: Mapping[str, str], redaction: Redaction | None = None
) -> Iterator[Membership]:
    """The members after each operation that may have changed them.

    A classic member holds its assignment, one of the newer kinds also what it has not revoked yet. ``topic_names`` (id
    to name) names the topics of the newer kinds, and ``redaction`` hides the names of members.
    """
    from_commits = {
        uuid_text(record.value.topic_id): record.key.topic
        for record in records
        if isinstance(record.key, OffsetCommitKey) and isinstance(record.value, OffsetCommitValue)
    }
    reader = _MembershipReader({**topic_names, **from_commits}, redaction)
    for operation in operations(records):
        if reader.apply(operation):
            yield reader.membership(operation[-1])


class _MembershipReader:
    """The group so far: a classic group's members, or those of a group of a newer kind."""

    def __init__(self, topic_names: Mapping[str, str], redaction: Redaction | None) -> None:
        self._names = topic_names
        self._redaction = redaction
        self._classic: tuple[Member, ...] = ()
        self._modern: Modern | None = None
        self._kind = GroupType.CLASSIC
        self._known: dict[str, tuple[object, tuple[str, Holder]]] = {}

    def apply(self, records: Sequence[GroupRecord]) -> bool:
        """Apply an operation; returns whether it had a record of the group."""
        applied = False
        for record in records:
            if record.key.KEY_TYPE in modern.RECORDS:
                applied |= self._apply_modern(record)
            elif isinstance(record.key, GroupMetadataKey):
                value = record.value
                self._classic = read_members(value) if isinstance(value, GroupMetadataValue) else ()
                if value is not None:
                    self._modern = None
                applied = True
        return applied

    def _apply_modern(self, record: GroupRecord) -> bool:
        kind = modern.RECORDS[record.key.KEY_TYPE][0]
        if record.value is not None and (self._modern is None or self._kind is not kind):
            self._modern, self._kind, self._classic = Modern(), kind, ()
        if self._modern is None or self._kind is not kind:
            return False
        modern.apply_record(self._modern, record.key, record.value, record.timestamp_ms)
        return True

    def membership(self, last: GroupRecord) -> Membership:
        """The members now; ``last`` is the last record of the operation."""
        if self._modern is None:
            seen = {member.member_id: (member, member) for member in self._classic}
            found = [self._holder(name, state, member) for name, (state, member) in seen.items()]
            return Membership(last.timestamp_ms, last.offset, dict(found))
        names = {**self._names, **self._modern.topic_names}
        living = modern.living(self._modern) if self._modern.exists else {}
        found = [self._modern_holder(name, member, names) for name, member in living.items()]
        return Membership(last.timestamp_ms, last.offset, dict(found), shared=self._kind is GroupType.SHARE)

    def _modern_holder(
        self, member_id: str, member: ModernMember, names: Mapping[str, str]
    ) -> tuple[str, Holder]:
        held = {
            topic: text
            for part in (member.revoking, member.assigned)
            for topic, text in by_name(part, names).items()
        }
        if member.revoking:
            held = by_topic([*each(by_name(member.revoking, names)), *each(by_name(member.assigned, names))])
        return self._holder(member_id, tuple(sorted(held.items())), member, held)

    def _holder(
        self,
        member_id: str,
        state: object,
        member: Member | ModernMember,
        held: Mapping[str, str] | None = None,
    ) -> tuple[str, Holder]:
        """The member's id and it as a holder; the same object as before if nothing changed."""
        known = self._known.get(member_id)
        if known is not None and known[0] == state:
            return known[1]
        hidden = redacted({"member_id": member_id, **client_fields(member)}, self._redaction)
        place = Place(hidden["instance_id"] or None, hidden["client_id"], hidden["client_host"])
        holder = Holder(place, member.partitions if isinstance(member, Member) else held)
        self._known[member_id] = state, (hidden["member_id"], holder)
        return hidden["member_id"], holder


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
                self._begin(one, now.at_ms, slots[0] if len(slots) == 1 else SHARED, len(slots))

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
