"""What one operation changed about the members of a group: the source of both the events and the slot history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from groupreplay.state.events.event import Evidence, Fact, GoneMember, LeaveReason, MemberForm
from groupreplay.state.events.group_events import MemberJoined, MemberLeft, MemberUpdated, StaticReplaced
from groupreplay.state.replay.departures.planned import unplanned
from groupreplay.state.replay.departures.reasons import Finding
from groupreplay.state.snapshot.members import Member, client_fields, settings_fields
from groupreplay.state.snapshot.slot_history import SlotHistory

#: Members that left that the event of a rebalance names.
MOST_GONE: Final = 20

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
    """A member that left; ``elapsed_ms`` is the time since its last sign of life, None when there was none.

    ``unplanned`` is that of ``MemberLeft``; ``awaited``: an answer shows that a classic rebalance waited for it.
    """

    member: Member
    finding: Finding
    elapsed_ms: int | None
    assumed: Mapping[str, int] = field(default_factory=dict)
    unplanned: bool = False
    awaited: bool = False

    @property
    def reason(self) -> LeaveReason:
        """Why it left, as far as that can be stated."""
        return self.finding.reason


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
            yield _left(one), one.finding.evidence
        for member in self.joined:
            yield MemberJoined(member_id=member.member_id, **client_fields(member)), Evidence.LOG
        for old, new in self.kept:
            for fact in _changed(old, new, rebalanced=self.completed is not None):
                yield fact, Evidence.LOG


def judged(
    departures: Sequence[Departure], history: SlotHistory | None, at_ms: int, members: tuple[int, int]
) -> tuple[Departure, ...]:
    """The same, and whether somebody may have planned them; ``members``: how many there were before and are now."""
    if not members[1] and all(one.member.instance_id is not None for one in departures):
        # Static members that are stopped do not leave: together they look as if all had been killed.
        return tuple(departures)
    findings = [(one.finding, one.elapsed_ms) for one in departures]
    verdicts = unplanned(findings, history, at_ms, members)
    return tuple(replace(one, unplanned=is_so) for one, is_so in zip(departures, verdicts, strict=True))


def gone_members(departures: Sequence[Departure]) -> tuple[GoneMember, ...]:
    """Those that left, as the event of a rebalance names them: the first ones."""
    return tuple(
        GoneMember(member_id=one.member.member_id, **client_fields(one.member), reason=one.reason)
        for one in departures[:MOST_GONE]
    )


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
        candidates=departure.finding.candidates,
        assumed=departure.assumed,
        unplanned=departure.unplanned,
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
