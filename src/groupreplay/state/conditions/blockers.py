"""The rebalance in progress, what keeps it from ending, and the members that do: proven by the log, or suspected.

The log shows every rebalance of a KIP-848, share or streams group from its beginning, and names the members that block
it. It shows a rebalance of a classic group only when it is over; before that, only the prober sees it, and the members
are suspects (``suspects``). A coordinator that moves, a broker that does not answer and a missing round of the prober
neither begin nor end a rebalance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from groupreplay.codecs.kafka_terms import GroupType, MemberPhase, Phase
from groupreplay.state import phrases
from groupreplay.state.conditions.detection import GroupView
from groupreplay.state.conditions.suspects import MOST, candidates, suspects
from groupreplay.state.events.event import Evidence, MemberIdentity, Partitions
from groupreplay.state.phrases import NAMES_SHOWN, Data, first_of, safe_text
from groupreplay.state.replay.topic_names import names
from groupreplay.state.snapshot import modern
from groupreplay.state.snapshot.group_state import BeginBounds
from groupreplay.state.snapshot.members import client_fields
from groupreplay.state.snapshot.modern import Modern, ModernMember
from groupreplay.state.snapshot.partitions import each

#: What a rebalance waits for: members that do not rejoin, the leader's assignment, partitions that are not
#: given up, a member that sends no heartbeat and is not removed, a target assignment that is not made.
StuckReason = Literal["not_joined", "not_synced", "not_revoked", "not_heartbeating", "not_assigned"]


#: The first step of the runbook's section, for each reason.
_NEXT_STEPS: Final = {
    "not_joined": "a thread dump of each member shows which one does not return to poll()",
    "not_synced": "look at the log and the assignor of the leader",
    "not_revoked": "take a thread dump of the first",
    "not_heartbeating": "move the coordinator, whose broker groupreplay coordinator names",
    "not_assigned": "look at the log of the coordinator, whose broker groupreplay coordinator names",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker(MemberIdentity):
    """A member that others provably wait for."""

    revoking: Annotated[Partitions, Meta(description="What it has not given up yet, by topic.")]
    since_ms: Annotated[int | None, Meta(description="When the coordinator asked it to give them up.")]
    fenced_at_ms: Annotated[
        int | None,
        Meta(
            description="When the broker will remove it from the group; null when the log does not show that."
        ),
    ]
    # A condition that is stored without it is of a release that knew no other reason.
    reason: Annotated[
        StuckReason,
        Meta(
            description="not_revoked: others wait for its partitions. not_heartbeating: it has not taken its new "
            "epoch, and the broker has not removed it."
        ),
    ] = "not_revoked"


@dataclass(frozen=True, slots=True)
class Wait:
    """Something that keeps a rebalance from ending: when it began, and the member if it is known.

    ``rebalance_timeout_ms`` is the time that the protocol gives it; None for a target assignment that is not made.
    """

    since_ms: int
    reason: StuckReason
    rebalance_timeout_ms: int | None
    blocker: Blocker | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentRebalance:
    """A rebalance in progress, of any kind of group; ``since_ms`` is when it began, ``since`` the bounds of that."""

    rebalance_id: str | None
    since_ms: int
    since: BeginBounds
    state: str
    evidence: Evidence


def current(view: GroupView) -> CurrentRebalance | None:
    """The rebalance in progress; None when none is visible."""
    group = view.group
    if group.in_progress is not None:
        rebalance = group.in_progress
        return CurrentRebalance(
            rebalance_id=rebalance.rebalance_id,
            since_ms=rebalance.since_ms,
            since=BeginBounds(rebalance.earliest_ms, rebalance.since_ms),
            state=rebalance.phase.value,
            evidence=Evidence.PROBE,
        )
    if group.open_rebalance is not None and group.modern is not None:
        return CurrentRebalance(
            rebalance_id=group.open_rebalance.rebalance_id,
            since_ms=group.open_rebalance.started_ms,
            since=BeginBounds(group.open_rebalance.started_ms, group.open_rebalance.started_ms),
            state=modern.state_of(group.group_type, group.modern),
            evidence=Evidence.LOG,
        )
    return None


def rebalance_timeout_ms(view: GroupView) -> int:
    """The largest rebalance timeout of the members."""
    group = view.group
    members = group.modern.members.values() if group.modern else group.classic.members or group.former
    return max((member.rebalance_timeout_ms for member in members), default=-1)


def session_timeout_ms(view: GroupView) -> int:
    """The largest session timeout in the log, else that of the group."""
    group = view.group
    if group.modern is not None:
        timeouts_ms = [member.classic_session_timeout_ms or 0 for member in group.modern.members.values()]
    else:
        timeouts_ms = [member.session_timeout_ms for member in group.classic.members or group.former]
    return max(timeouts_ms, default=0) or view.session.timeout_ms


def waits(view: GroupView) -> Iterator[Wait]:
    """Everything that the rebalance in progress waits for now."""
    group = view.group
    if group.in_progress is not None:
        reason: StuckReason = "not_joined"
        if group.in_progress.phase is Phase.COMPLETING_REBALANCE:
            reason = "not_synced"
        yield Wait(group.in_progress.since_ms, reason, rebalance_timeout_ms(view))
    elif group.modern is not None and modern.living(group.modern):
        if modern.assigning(group.modern) and group.since_ms is not None:
            # A share group stays Stable while it waits: then the beginning of its rebalance counts.
            began = group.open_rebalance.started_ms if group.open_rebalance else group.since_ms
            since_ms = began if group.group_type is GroupType.SHARE else group.since_ms
            yield Wait(since_ms, "not_assigned", None)
        # Also while a new target is being made: who has not given up partitions still keeps them.
        yield from _revocations(view, group.modern)


def blame(view: GroupView, waits_: Sequence[Wait]) -> dict[str, Any]:
    """The fields of a condition that say what is waited for, first what has lasted longest, and for whom."""
    is_modern = view.group.modern is not None
    suspected, note = (None, None) if is_modern else suspects(view)
    return {
        "reason": waits_[0].reason if waits_ else None,
        "blockers": tuple(wait.blocker for wait in waits_ if wait.blocker is not None) if is_modern else None,
        "suspects": suspected,
        "suspects_note": note,
        "candidates": None if is_modern or suspected else candidates(view),
    }


def _revocations(view: GroupView, group: Modern) -> Iterator[Wait]:
    wanted = _wanted(group)
    for member_id, member in sorted(modern.living(group).items()):
        timeout_ms, behind_ms = member.rebalance_timeout_ms, member.behind_since_ms
        if member.phase is MemberPhase.UNREVOKED and member.phase_since_ms is not None:
            blocker = _blocker(view, member_id, member, group)
            yield Wait(member.phase_since_ms, "not_revoked", timeout_ms, blocker)
        elif behind_ms is not None and member.epoch != modern.AWAY:
            # It has not even asked for its new assignment. Its session timeout ends that, unless the coordinator has
            # lost the timer: it cancels the timer of a member that leaves, also if it cannot write that to the log.
            reason: StuckReason = "not_revoked" if _holds(member, wanted) else "not_heartbeating"
            yield Wait(behind_ms, reason, timeout_ms, _blocker(view, member_id, member, group, reason))


def culprits(data: Data) -> str:
    """The members that block, as far as that is proven or may be suspected."""
    for name, shown, words in (
        ("blockers", _blocker_text, "blocked by"),
        ("suspects", _suspect_text, "suspects:"),
    ):
        members = data.get(name) or ()
        if members:
            return f", {words} {first_of(members, shown, separator='; ')}"
    note = data.get("suspects_note")
    return (f", no suspects: {safe_text(str(note))}" if note else "") + _candidates_text(data)


def next_step(data: Data) -> str:
    """What the runbook says to do first."""
    reason = str(data.get("reason"))
    if reason not in _NEXT_STEPS or (reason == "not_revoked" and not data.get("blockers")):
        return ""
    return f"; next: {_NEXT_STEPS[reason]}"


def _candidates_text(data: Data) -> str:
    members = data.get("candidates") or ()
    if not members:
        return ""
    others = len(members) - NAMES_SHOWN
    least = "at least " if len(members) == MOST else ""
    more = f" and {least}{others} more" if others > 0 else ""
    of = "" if len(members) == 1 else "one of "
    return (
        f", waits for {of}{'; '.join(map(phrases.member, members[:NAMES_SHOWN]))}{more}, or for a new member"
    )


def _blocker_text(member: Data) -> str:
    if member.get("reason") == "not_heartbeating":
        return f"{phrases.member(member)} (sends no heartbeat and is not removed)"
    fenced = member.get("fenced_at_ms")
    at = "" if fenced is None else phrases.clock_time(phrases.timestamp(fenced))
    until = at and f", will be fenced at {at} UTC"
    places = phrases.partitions(member.get("revoking")) or "partitions"
    return f"{phrases.member(member)} (holds {places}{until})"


def _suspect_text(member: Data) -> str:
    return f"{phrases.member(member)} ({phrases.spaced(member, 'reason')})"


def _wanted(group: Modern) -> set[tuple[str, int]]:
    """Partitions that a member waits for: they are in its target assignment, and another member holds them."""
    return {
        partition
        for member in group.members.values()
        if member.phase is MemberPhase.UNRELEASED
        for partition in set(each(member.target or {})) - set(each(member.assigned))
    }


def _holds(member: ModernMember, wanted: set[tuple[str, int]]) -> bool:
    return not wanted.isdisjoint({*each(member.assigned), *each(member.revoking)})


def _blocker(
    view: GroupView,
    member_id: str,
    member: ModernMember,
    group: Modern,
    behind: StuckReason | None = None,
) -> Blocker:
    """``behind``: what a member blocks that has not taken the epoch of the target; None for one that must revoke."""
    topic_names = names(view.offsets, group, view.context.topic_names)
    unrevoked = behind is None
    # The broker has no revocation timer for members that use the classic protocol.
    timed = unrevoked and member.phase_since_ms is not None and member.classic_session_timeout_ms is None
    timed = timed and member.rebalance_timeout_ms > 0
    return Blocker(
        member_id=member_id,
        **client_fields(member),
        revoking={topic_names.get(topic, topic): ranges for topic, ranges in member.revoking.items()},
        since_ms=member.phase_since_ms if unrevoked else member.behind_since_ms,
        fenced_at_ms=(member.phase_since_ms or 0) + member.rebalance_timeout_ms if timed else None,
        reason=behind or "not_revoked",
    )
