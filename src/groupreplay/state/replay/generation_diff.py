"""Compares two generations of a group: what triggered the rebalance, why a member left, which partitions moved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from groupreplay.state.events.event import MemberPicture, Trigger
from groupreplay.state.snapshot.members import (
    Member,
    Pairing,
    client_fields,
    group_topics,
    settings_fields,
)
from groupreplay.state.snapshot.partitions import by_topic, each

#: Last owners of partitions without an owner: member id -> ranges by topic.
Orphans = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationDiff:
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
    orphans: Orphans = field(default_factory=dict)
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


def trigger(diff: GenerationDiff) -> Trigger:
    """What triggered the rebalance, as far as two generations show it."""
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


@dataclass(frozen=True, slots=True)
class Moves:
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
