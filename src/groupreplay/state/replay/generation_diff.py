"""Compares two generations of a group: what triggered the rebalance, why a member left, which partitions moved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from groupreplay.state.events.event import (
    Evidence,
    Fact,
    GoneMember,
    LeaveReason,
    MemberForm,
    MemberPicture,
    Trigger,
)
from groupreplay.state.events.group_events import MemberJoined, MemberLeft, MemberUpdated, StaticReplaced
from groupreplay.state.replay.departure_reasons import STAMP_LAG_MS, Finding
from groupreplay.state.replay.departures import unplanned
from groupreplay.state.snapshot.members import (
    Member,
    Pairing,
    SlotHistory,
    client_fields,
    group_topics,
    settings_fields,
)
from groupreplay.state.snapshot.partitions import by_topic, each

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


class Departure(msgspec.Struct, frozen=True):
    """A member that left; ``elapsed_ms`` is the time since its last sign of life, None when there was none.

    ``unplanned`` is that of ``MemberLeft``; ``awaited``: an answer shows that a classic rebalance waited for it;
    ``closed``: a record has that its client was closed, as that of a static member of a newer kind of group.
    """

    member: Member
    finding: Finding
    elapsed_ms: int | None
    assumed: Mapping[str, int] = {}
    unplanned: bool = False
    awaited: bool = False
    closed: bool = False

    @property
    def reason(self) -> LeaveReason:
        """Why it left, as far as that can be stated."""
        return self.finding.reason

    def is_by_rebalance(self, began_ms: int | None) -> bool:
        """Whether the rebalance removed it, and was not begun by that; ``began_ms``: by when it had begun, if known."""
        if self.reason == "rebalance_timeout":
            return True
        earliest_ms = next(
            (
                candidate.earliest_ms
                for candidate in self.finding.candidates
                if candidate.reason == self.reason
            ),
            None,
        )
        return began_ms is not None and earliest_ms is not None and earliest_ms - STAMP_LAG_MS > began_ms


class MembershipChange(msgspec.Struct, frozen=True, kw_only=True):
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
        for departure in self.departures:
            yield _left(departure), departure.finding.evidence
        for member in self.joined:
            yield MemberJoined(member_id=member.member_id, **client_fields(member)), Evidence.LOG
        for old, new in self.kept:
            for fact in _changed(old, new, rebalanced=self.completed is not None):
                yield fact, Evidence.LOG


def judged(
    departures: Sequence[Departure], history: SlotHistory | None, at_ms: int, members: tuple[int, int]
) -> tuple[Departure, ...]:
    """The same, and whether somebody may have planned them; ``members``: how many there were before and are now."""
    if not members[1] and all(departure.member.instance_id is not None for departure in departures):
        # Static members that are stopped do not leave: together they look as if all had been killed.
        return tuple(departures)
    findings = [(departure.finding, departure.elapsed_ms) for departure in departures]
    verdicts = unplanned(findings, history, at_ms, members)
    return tuple(
        msgspec.structs.replace(one, unplanned=is_so and not one.closed)
        for one, is_so in zip(departures, verdicts, strict=True)
    )


def gone_members(departures: Sequence[Departure]) -> tuple[GoneMember, ...]:
    """Those that left, as the event of a rebalance names them: the first ones."""
    return tuple(
        GoneMember(
            member_id=departure.member.member_id, **client_fields(departure.member), reason=departure.reason
        )
        for departure in departures[:MOST_GONE]
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


#: Last owners of partitions without an owner: member id -> ranges by topic.
Orphans = Mapping[str, Mapping[str, str]]


class GenerationDiff(msgspec.Struct, frozen=True, kw_only=True):
    """Two generations of one group, side by side. ``old`` is empty after an Empty record.

    ``last_owners`` is the last known owner (member id) of every partition. ``owners_known``: every former owner is
    known; a partition without an owner where the log begins may have had one earlier. ``first``: no member is known
    before this generation. ``orphans`` had no owner in the generation before. ``shown`` is what the prober's first
    answer shows; ``is_whole``: no generation lies between the two, and every member's subscription is readable.
    """

    old: Sequence[Member]
    new: Sequence[Member]
    pairing: Pairing
    protocol_type: str | None
    last_owners: Mapping[tuple[str, int], str]
    owners_known: bool
    first: bool
    orphans: Orphans = {}
    shown: Trigger = "unknown"
    is_whole: bool = False


def _subscription_changed(diff: GenerationDiff) -> bool:
    old = group_topics(diff.old, diff.protocol_type)
    return old is not None and old != group_topics(diff.new, diff.protocol_type)


def _metadata_changed(diff: GenerationDiff) -> bool:
    # A partition that never had an owner; one without an owner now may be revoked in a cooperative rebalance. Behind a
    # conversion the former owners may be known by topic id only.
    subscribed = group_topics(diff.old, diff.protocol_type)
    named = subscribed is not None and all(topic in subscribed for topic, _ in diff.last_owners)
    return diff.owners_known and named and any(one not in diff.last_owners for one in owners(diff.new, {}))


def _replaced(diff: GenerationDiff, *, static: bool) -> bool:
    replaced = [new for old, new in diff.pairing.kept if old.member_id != new.member_id]
    return any((new.instance_id is not None) is static for new in replaced)


def _came_and_went(diff: GenerationDiff) -> bool:
    return bool(diff.pairing.joined and diff.pairing.left) or _replaced(diff, static=False)


def _follows_up(diff: GenerationDiff) -> bool:
    """Whether partitions that members of the generation before had to give up have an owner now (KIP-429)."""
    present = {member.member_id for member in diff.old}
    waiting = {owned for owner, topics in diff.orphans.items() if owner in present for owned in each(topics)}
    return not waiting.isdisjoint(owners(diff.new, {}))


def _nothing_else(diff: GenerationDiff) -> bool:
    """Whether both generations are the same in everything: of the members, only the leader may rejoin as it was."""
    readable = group_topics(diff.old, diff.protocol_type) is not None
    return (
        diff.is_whole and readable and not diff.orphans and set(owners(diff.new, {})) == set(diff.last_owners)
    )


#: The first that holds is the trigger. Of several changes the records do not show which one was first.
_TRIGGERS: Final[Sequence[tuple[Trigger, Callable[[GenerationDiff], bool]]]] = (
    ("first_join", lambda diff: diff.first),
    ("cooperative_followup", lambda diff: diff.shown == "cooperative_followup" and _follows_up(diff)),
    ("member_joined", lambda diff: diff.shown == "member_joined"),
    ("member_left", lambda diff: diff.shown == "member_left"),
    ("members_changed", _came_and_went),
    ("member_joined", lambda diff: bool(diff.pairing.joined)),
    ("member_left", lambda diff: bool(diff.pairing.left)),
    ("static_member_replaced", lambda diff: _replaced(diff, static=True)),
    ("subscription_changed", _subscription_changed),
    ("cooperative_followup", _follows_up),
    ("metadata_changed", _metadata_changed),
    ("leader_rejoined", _nothing_else),
)


def trigger(
    diff: GenerationDiff, departures: Sequence[Departure] = (), began_ms: int | None = None
) -> Trigger:
    """What triggered the rebalance, as far as two generations show it; ``began_ms``: by when it had begun."""
    removed = {departure.member.member_id for departure in departures if departure.is_by_rebalance(began_ms)}
    if removed:
        old, left = (
            tuple(member for member in members if member.member_id not in removed)
            for members in (diff.old, diff.pairing.left)
        )
        pairing = msgspec.structs.replace(diff.pairing, left=left)
        diff = msgspec.structs.replace(diff, old=old, pairing=pairing, is_whole=False)
    return next((name for name, holds in _TRIGGERS if holds(diff)), "unknown")


def owners(members: Sequence[Member], orphans: Orphans) -> dict[tuple[str, int], str]:
    """The last known owner (member id) of every partition; present owners replace those of ``orphans``."""
    last = {owned: member_id for member_id, topics in orphans.items() for owned in each(topics)}
    last.update((owned, member.member_id) for member in members for owned in each(member.partitions))
    return last


def by_owner(owned: Mapping[tuple[str, int], str]) -> dict[str, dict[str, str]]:
    """Member id -> ranges by topic."""
    held: dict[str, list[tuple[str, int]]] = {}
    for place, owner in owned.items():
        held.setdefault(owner, []).append(place)
    return {owner: by_topic(places) for owner, places in held.items()}


class Moves(msgspec.Struct, frozen=True):
    """How many partitions moved, None where that is unknown; ``orphans`` is for the next generation."""

    moved: int | None
    unassigned: int | None
    orphans: dict[str, dict[str, str]]


def moves(diff: GenerationDiff, former: Pairing, topics: frozenset[str] | None) -> Moves | None:
    """Count partitions with another owner than before; None when assignments cannot be read.

    ``former`` pairs the last members that owned partitions with the new ones: a restarted member in the same slot
    is the same owner. ``topics`` are those whose partitions need an owner, None when unknown.
    """
    if topics is None or any(member.partitions is None for member in diff.new):
        return None
    renamed = {old.member_id: new.member_id for old, new in former.kept}
    last = {owned: renamed.get(owner, owner) for owned, owner in diff.last_owners.items()}
    now = owners(diff.new, {})
    free = {owned: owner for owned, owner in last.items() if owned not in now and owned[0] in topics}
    traced = diff.owners_known or all(owned in last for owned in now)
    return Moves(
        moved=sum(last.get(owned, owner) != owner for owned, owner in now.items()) if traced else None,
        unassigned=len(free) if diff.owners_known else None,
        orphans=by_owner(free),
    )


def member_picture(member: Member, *, native: bool = False) -> MemberPicture:
    """A member as events show it; ``native`` as for ``settings_fields``."""
    return MemberPicture(
        member_id=member.member_id,
        **client_fields(member),
        **settings_fields(member, native=native),
        partitions=member.partitions,
    )
