"""What one operation changed about the members of a group: the source of both the events and the slot history."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from groupreplay.state.events.event import Evidence, Fact, LeaveReason, MemberForm
from groupreplay.state.events.group_events import MemberJoined, MemberLeft, MemberUpdated, StaticReplaced
from groupreplay.state.snapshot.members import Member, client_fields, settings_fields

#: Fields whose change is reported. A static member's new member id and host are ``static.replaced``.
_REPORTED_FIELDS: Final = (
    "member_id",
    "client_id",
    "client_host",
    "rebalance_timeout_ms",
    "session_timeout_ms",
    "topics",
)


@dataclass(frozen=True, slots=True)
class Departure:
    """A member that left; ``elapsed_ms`` is the time since its last sign of life, None when there was none."""

    member: Member
    reason: LeaveReason
    elapsed_ms: int | None
    evidence: Evidence = Evidence.LOG


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipChange:
    """The members that left, that joined and that kept their slot (before, after).

    ``emptied``: the group lost its last member; ``completed``: the members of a generation that this operation
    completed, None when it completed none. Everything is empty when the members before are not known. ``lasted_ms`` is
    how long the rebalance of the completed generation took at most, None where that is not known.
    """

    departures: tuple[Departure, ...] = ()
    joined: tuple[Member, ...] = ()
    kept: tuple[tuple[Member, Member], ...] = ()
    emptied: bool = False
    completed: tuple[Member, ...] | None = None
    lasted_ms: int | None = None

    def facts(self) -> Iterator[tuple[Fact, Evidence]]:
        """The facts about members, in the order of their events."""
        for one in self.departures:
            yield _left(one), one.evidence
        for member in self.joined:
            yield MemberJoined(member_id=member.member_id, **client_fields(member)), Evidence.LOG
        for old, new in self.kept:
            for fact in _changed(old, new, rebalanced=self.completed is not None):
                yield fact, Evidence.LOG


def is_replaced(old: Member, new: Member) -> bool:
    """Whether a member came back to its slot under another member id."""
    return old.member_id != new.member_id


def _left(departure: Departure) -> MemberLeft:
    member = departure.member
    return MemberLeft(
        member_id=member.member_id,
        **client_fields(member),
        reason=departure.reason,
        elapsed_ms=departure.elapsed_ms,
    )


def _changed(old: Member, new: Member, *, rebalanced: bool) -> Iterator[Fact]:
    changed = [name for name in _REPORTED_FIELDS if getattr(old, name) != getattr(new, name)]
    if new.instance_id is not None and is_replaced(old, new):
        yield StaticReplaced(
            instance_id=new.instance_id,
            old_member_id=old.member_id,
            new_member_id=new.member_id,
            old_host=old.client_host,
            new_host=new.client_host,
            rebalanced=rebalanced,
        )
        changed = [name for name in changed if name not in ("member_id", "client_host")]
    if changed:
        yield MemberUpdated(
            member_id=new.member_id,
            **client_fields(new),
            changed=tuple(changed),
            old=_form(old),
            new=_form(new),
        )


def _form(member: Member) -> MemberForm:
    # Only members that use the classic protocol have protocols of their own.
    native = not member.supported_protocols
    return MemberForm(
        member_id=member.member_id, **client_fields(member), **settings_fields(member, native=native)
    )
