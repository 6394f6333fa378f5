"""The changes of a group's members that the log has: each with the members that are there after it.

A classic group has one for each generation. In a consumer group (KIP-848) each member joins and leaves by a record of
its own, so each has a change at that time, with the partitions of the assignment before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from groupreplay.codecs.kafka_terms import GroupType
from groupreplay.state.snapshot.partitions import each
from groupreplay.timeline.commit_times import Place
from groupreplay.timeline.event_reading import ReadEvent, whole


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedMember:
    """A member as the log has it after a change."""

    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None
    session_timeout_ms: int | None
    rebalance_timeout_ms: int | None
    topics: tuple[str, ...]
    places: frozenset[Place]


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """The members with their assignment, or (``members`` empty) the group without members.

    ``at_ms``: its record; ``joined_ms``: the end of its join phase. ``silent_ms``: from the group's last commit to
    that; None: not known.
    """

    at_ms: int
    joined_ms: int
    protocol: str
    silent_ms: int | None
    members: Mapping[str, RecordedMember]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """A static member whose process was started again without a rebalance."""

    at_ms: int
    old_member_id: str
    new_member_id: str


Change: TypeAlias = Generation | Replacement

#: The events of a new assignment, in a group of either protocol.
_ASSIGNED: Final = frozenset({"rebalance.completed", "group.emptied"})
#: In a consumer group also these.
_OF_MEMBERS: Final = frozenset({"member.joined", "member.left"})


@dataclass(slots=True)
class ChangeReader:
    """Reads the changes of one group, event by event, in order."""

    #: The members after the last change; None: not known.
    _members: Mapping[str, RecordedMember] | None = None
    #: What ``member.joined`` lacks: each member as the first assignment has it.
    _assigned: dict[str, RecordedMember] = field(default_factory=dict)

    @classmethod
    def of(cls, events: Iterable[ReadEvent]) -> ChangeReader:
        """The reader of these events."""
        assigned = dict[str, RecordedMember]()
        for event in events:
            if event.name == "rebalance.completed":
                for member in _members(event):
                    assigned.setdefault(member.member_id, replace(member, places=frozenset()))
        return cls(_assigned=assigned)

    def forget(self) -> None:
        """The members are not known any more, until the next assignment."""
        self._members = None

    def read(self, event: ReadEvent) -> Change | None:
        """The change of an event; None: it is none."""
        if event.name == "static.replaced":
            return self._replacement(event)
        if event.name in _ASSIGNED:
            return self._generation(event)
        if event.name in _OF_MEMBERS and event.text("group_type") == GroupType.CONSUMER.value:
            return self._member_change(event)
        return None

    def _replacement(self, event: ReadEvent) -> Replacement:
        old, new = event.text("old_member_id"), event.text("new_member_id")
        self._members = replaced(self._members or {}, old, new)
        return Replacement(at_ms=event.time_ms, old_member_id=old, new_member_id=new)

    def _generation(self, event: ReadEvent) -> Generation:
        self._members = {member.member_id: member for member in _members(event)}
        return Generation(
            at_ms=event.time_ms,
            joined_ms=event.time_ms - (event.number("sync_ms") or 0),
            protocol=event.text("protocol"),
            silent_ms=event.number("silent_ms"),
            members=self._members,
        )

    def _member_change(self, event: ReadEvent) -> Generation | None:
        if self._members is None:
            return None
        member_id, members = event.text("member_id"), {**self._members}
        if event.name == "member.left":
            members.pop(member_id, None)
        else:
            members[member_id] = self._assigned.get(member_id) or _member(event.data)
        self._members = members
        return Generation(
            at_ms=event.time_ms, joined_ms=event.time_ms, protocol="", silent_ms=None, members=members
        )


def replaced(
    members: Mapping[str, RecordedMember], old_member_id: str, new_member_id: str
) -> dict[str, RecordedMember]:
    """The members with another process of a static one."""
    changed = {**members}
    if (member := changed.pop(old_member_id, None)) is not None:
        changed[new_member_id] = replace(member, member_id=new_member_id)
    return changed


def _members(event: ReadEvent) -> Iterator[RecordedMember]:
    """Those of an assignment; a group without members has none."""
    return map(_member, event.mappings("members") if event.name == "rebalance.completed" else ())


def _member(picture: Mapping[str, Any]) -> RecordedMember:
    return RecordedMember(
        member_id=picture["member_id"],
        client_id=picture["client_id"],
        client_host=picture["client_host"],
        instance_id=picture["instance_id"],
        session_timeout_ms=whole(picture.get("session_timeout_ms")),
        rebalance_timeout_ms=whole(picture.get("rebalance_timeout_ms")),
        topics=tuple(picture.get("topics") or ()),
        places=frozenset(each(picture.get("partitions"))),
    )
