"""What the brokers' own logs add to a fact: the reason of a rebalance and its length, of a departure, of a removal.

A line proves what the times in the records only bound. It changes no event's id, and it adds no event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from groupreplay.state.events.event import Evidence, LeaveCandidate, LeaveReason, Requester, Trigger
from groupreplay.state.events.group_events import RebalanceCompleted
from groupreplay.state.policy.broker_log import LoggedEpoch, LoggedPhase
from groupreplay.state.replay.departure_reasons import Finding
from groupreplay.state.replay.report import Report
from groupreplay.state.snapshot.members import Member

#: What one word of the coordinator means in detail: the two generations show which it was.
_DETAILS: Final[Mapping[Trigger, frozenset[Trigger]]] = {
    "member_joined": frozenset({"first_join"}),
    "metadata_changed": frozenset({"subscription_changed", "cooperative_followup"}),
    "leader_rejoined": frozenset({"subscription_changed", "cooperative_followup", "metadata_changed"}),
}
#: Requests that remove offsets, or set them, by the reason of a loss.
REMOVALS: Final[Mapping[str, tuple[str, ...]]] = {
    "group_deleted": ("DeleteGroups",),
    "admin": ("OffsetDelete",),
    "unknown": ("OffsetDelete",),
}
SETS: Final = ("OffsetCommit", "TxnOffsetCommit")


def rebalance(completed: RebalanceCompleted, report: Report) -> RebalanceCompleted:
    """The same with what its coordinator logged about it; unchanged if that is not known."""
    group_log = report.context.broker_log.of(report.group_id)
    found = group_log.rebalance(completed.generation, completed.previous_generation, completed.leader or "")
    if found is None:
        return completed
    first, last, is_whole = found.phases[0], found.phases[-1], found.is_whole
    lasted_ms = max(0, last.ended_ms - first.began_ms)
    return replace(
        completed,
        trigger=_trigger(first, completed.trigger) if is_whole else completed.trigger,
        join_ms_min=last.length_ms,
        join_ms_max=last.length_ms,
        duration_ms=lasted_ms + completed.sync_ms if is_whole and completed.sync_ms is not None else None,
        logged=tuple(phase.reason for phase in found.phases),
    )


def _trigger(phase: LoggedPhase, shown: Trigger) -> Trigger:
    if phase.trigger == "member_joined" and phase.generation == 1:
        return "first_join"
    return _refined(phase.trigger, shown)


def _refined(said: Trigger | None, shown: Trigger) -> Trigger:
    return shown if said is None or shown in _DETAILS.get(said, ()) else said


def epochs(report: Report, first: int, last: int, members: Sequence[Member]) -> tuple[LoggedEpoch, ...]:
    """What raised these epochs of a group with these members, as its coordinator logged it; empty if in doubt."""
    group_log = report.context.broker_log.of(report.group_id)
    # Usually there is no log, and a large group has many members.
    return group_log.raised(first, last, [one.member_id for one in members]) if group_log.epochs else ()


def epoch_trigger(steps: Sequence[LoggedEpoch], shown: Trigger) -> Trigger:
    """What the first of these steps shows, else what the records show."""
    return _refined(steps[0].trigger, shown) if steps else shown


def departure(finding: Finding, member_id: str, report: Report) -> Finding:
    """Why a member left, with what its coordinator logged; the same if there is no line about the member.

    A LeaveGroup without a reason of the client leaves two: the times may exclude one of them.
    """
    logged = report.context.broker_log.of(report.group_id).departures.get(member_id)
    if logged is None:
        return finding
    kept = tuple(one for one in finding.candidates if one.reason in logged.reasons)
    if not kept:
        # The times exclude what was logged: they are of another clock, or were assumed.
        kept = tuple(_without_sum(reason) for reason in sorted(logged.reasons))
    if len(kept) == 1:
        return Finding(
            kept[0].reason, (replace(kept[0], likely=True, words=logged.words),), Evidence.BROKER_LOG
        )
    likely = [one for one in kept if one.likely]
    if len(likely) == 1:
        return Finding(likely[0].reason, kept, Evidence.INFERRED)
    return Finding("unknown", kept, Evidence.LOG)


def _without_sum(reason: LeaveReason) -> LeaveCandidate:
    return LeaveCandidate(
        reason=reason, timeout_ms=None, since_ms=None, earliest_ms=None, likely=False, words=""
    )


def requesters(report: Report, requests: tuple[str, ...]) -> tuple[Requester, ...]:
    """Who sent one of these requests about the group."""
    found = report.context.broker_log.of(report.group_id).requesters
    senders = frozenset[Requester]().union(*(found.get(name, ()) for name in requests))
    return tuple(sorted(senders, key=lambda sender: (sender.principal, sender.client_host)))
