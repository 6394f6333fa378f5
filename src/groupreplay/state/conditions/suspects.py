"""The members that may block a classic rebalance: an inference, ranked; no suspects without evidence.

DescribeGroups shows a member that has rejoined and a member that has not in the same way, so only commits are
evidence: a member commits when it learns of a rebalance, and a member that is stuck in its work does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta

from groupreplay.codecs.kafka_terms import Phase
from groupreplay.state.conditions.detection import GroupView
from groupreplay.state.events.event import MemberIdentity
from groupreplay.state.snapshot.members import Member, client_fields
from groupreplay.state.snapshot.partitions import each

SuspectReason = Literal["no_commit_since_start", "leader_has_not_synced", "static_member_absent"]

#: So many members are named at most.
MOST: Final = 10

_NO_GENERATION: Final = "no generation of this group is known"
_NO_COMMITS: Final = "no member has committed since the rebalance began, so commits do not show who blocks"
_ALL_COMMIT: Final = "every member has committed since the rebalance began"
_LEADER_GONE: Final = "the leader of the last generation is not in the group any more"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect(MemberIdentity):
    """A member that may be the one the others wait for."""

    reason: SuspectReason
    last_commit_ms: Annotated[int | None, Meta(description="Newest commit of its partitions.")]


#: The fields of conditions.
Suspects: TypeAlias = Annotated[
    tuple[Suspect, ...] | None,
    Meta(description="Classic groups only: members that may block, likeliest first; an inference."),
]
SuspectsNote: TypeAlias = Annotated[str | None, Meta(description="Why there are no suspects.")]
Candidates: TypeAlias = Annotated[
    tuple[MemberIdentity, ...] | None,
    Meta(
        description="Without suspects, while members rejoin: the members of the last generation that are still in the "
        "group, at most ten. The rebalance waits for one of them, or for a member that is new."
    ),
]


def suspects(view: GroupView) -> tuple[tuple[Suspect, ...], str | None]:
    """The suspects, likeliest first, and the reason when there are none."""
    group = view.group
    if group.in_progress is None or not group.classic.members:
        return (), _NO_GENERATION
    seen = set(group.in_progress.seen)
    if group.in_progress.phase is Phase.COMPLETING_REBALANCE:
        leader = [member for member in group.classic.members if member.member_id == group.classic.leader]
        if not leader or not _present(leader[0], seen):
            return (), _LEADER_GONE
        return (_suspect(leader[0], "leader_has_not_synced", _last_commit_ms(view, leader[0])),), None
    return _without_commits(view, seen)


def candidates(view: GroupView) -> tuple[MemberIdentity, ...] | None:
    """The members of whom one has not rejoined, unless a new member is waited for; None outside of that phase.

    The join phase ends when every member of the group has joined, and every new one that was given an id
    (``ClassicGroup.hasAllMembersJoined``, ``hasAllJoined`` in Scala).
    """
    group = view.group
    if group.in_progress is None or group.in_progress.phase is not Phase.PREPARING_REBALANCE:
        return None
    seen = set(group.in_progress.seen)
    present = [member for member in group.classic.members if _present(member, seen)]
    return tuple(
        MemberIdentity(member_id=member.member_id, **client_fields(member)) for member in present[:MOST]
    )


def _without_commits(view: GroupView, seen: set[str]) -> tuple[tuple[Suspect, ...], str | None]:
    """The members of the last generation that have not committed although another member has."""
    group = view.group
    assert group.in_progress is not None
    since_ms = group.in_progress.since_ms - group.in_progress.unseen_ms
    commits = {member.member_id: _last_commit_ms(view, member) for member in group.classic.members}
    if not any(at_ms is not None and at_ms > since_ms for at_ms in commits.values()):
        return (), _NO_COMMITS
    present = [member for member in group.classic.members if _present(member, seen)]
    newest_ms = max(at_ms for at_ms in commits.values() if at_ms is not None)
    quiet = [
        member
        for member in present
        if (at_ms := commits[member.member_id]) is None
        or at_ms <= since_ms
        or _first(at_ms, commits, since_ms)
    ]
    # A member that committed until shortly before is likelier than one that has had nothing to do for hours.
    recent_ms = since_ms - 2 * max(
        (member.rebalance_timeout_ms for member in group.classic.members), default=0
    )

    def rank(member: Member) -> tuple[int, int]:
        at_ms = commits[member.member_id]
        if at_ms is None:
            return (2, 0)
        return (0, at_ms) if recent_ms <= at_ms else (1, -at_ms)

    ranked = [
        _suspect(member, "no_commit_since_start", commits[member.member_id])
        for member in sorted(quiet, key=rank)
        if commits[member.member_id] != newest_ms
    ]
    absent = [
        _suspect(member, "static_member_absent", commits[member.member_id])
        for member in group.classic.members
        if member.instance_id is not None and not _present(member, seen)
    ]
    return tuple([*ranked, *absent][:MOST]), None if ranked or absent else _ALL_COMMIT


def _present(member: Member, seen: set[str]) -> bool:
    """Whether the broker still has it in the group; an answer without members proves nothing."""
    return not seen or member.member_id in seen or member.instance_id in seen


def _first(at_ms: int, commits: dict[str, int | None], since_ms: int) -> bool:
    """Whether a commit is the oldest of several since the rebalance began, which may be before the first probe."""
    since = [other for other in commits.values() if other is not None and other > since_ms]
    return at_ms == min(since) and len(since) > 1


def _last_commit_ms(view: GroupView, member: Member) -> int | None:
    return view.offsets.last_commit_ms(each(member.partitions))


def _suspect(member: Member, reason: SuspectReason, last_commit_ms: int | None) -> Suspect:
    return Suspect(
        member_id=member.member_id,
        **client_fields(member),
        reason=reason,
        last_commit_ms=last_commit_ms,
    )
