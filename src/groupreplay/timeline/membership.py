"""The members of a group after each operation of its coordinator, from its records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from groupreplay.codecs import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    uuid_text,
)
from groupreplay.codecs.kafka_terms import GroupType
from groupreplay.state.policy.redaction import Redaction, redacted
from groupreplay.state.replay.topic_names import by_name
from groupreplay.state.snapshot import modern
from groupreplay.state.snapshot.members import Member, client_fields, read_members
from groupreplay.state.snapshot.modern import Modern, ModernMember
from groupreplay.state.snapshot.observations import GroupRecord
from groupreplay.state.snapshot.partitions import by_topic, each
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
