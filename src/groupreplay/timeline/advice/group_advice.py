"""The advice on one group: all kinds in their order, what this history is too short for, and the bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from groupreplay.state.phrases import milliseconds
from groupreplay.timeline.advice import offsets, protocols, restarts, timeouts, work
from groupreplay.timeline.advice.deployments import deployments
from groupreplay.timeline.advice.finding import NEEDED_MS, Finding, GroupAdvice, Kind, Unsaid
from groupreplay.timeline.advice.inputs import AdviceInput

#: Findings of one group.
MOST_FINDINGS: Final = 5
_Finder: TypeAlias = Callable[[AdviceInput], Iterator[Finding]]
#: What finds each kind. The order is that of findings that save no stop.
FINDERS: Final[Mapping[Kind, _Finder]] = {
    Kind.OFFSETS_AT_RISK: offsets.offsets_at_risk,
    Kind.STATIC_MEMBERSHIP: restarts.static_membership,
    Kind.INCREMENTAL_REBALANCES: protocols.incremental_rebalances,
    Kind.SESSION_TIMEOUT: timeouts.session_timeout,
    Kind.MAX_POLL_INTERVAL: timeouts.max_poll_interval,
    Kind.REBALANCE_TIMEOUT: timeouts.rebalance_timeout,
    Kind.RANDOM_INSTANCE_IDS: restarts.random_instance_ids,
    Kind.TWO_WAVES: restarts.two_waves,
    Kind.SLOW_LEADER: work.slow_leader,
    Kind.MEMBERS_WITHOUT_WORK: work.members_without_work,
    Kind.UNEVEN_ASSIGNMENT: work.uneven_assignment,
    Kind.DIFFERING_MEMBERS: work.differing_members,
    Kind.FREQUENT_COMMITS: offsets.frequent_commits,
    Kind.UNUSED_GROUP: offsets.unused_group,
}


def group_advice(history: AdviceInput) -> GroupAdvice:
    """The advice on a group: lost offsets first, then what saves the longest stops, then the rest."""
    known_ms = history.until_ms - history.complete_ms
    findings, unsaid = list[Finding](), list[Unsaid]()
    for kind, find in FINDERS.items():
        # What has happened, or is counted elsewhere, needs no longer history.
        if known_ms < NEEDED_MS[kind] and not _is_shown(kind, history):
            unsaid.append(Unsaid(kind=kind, text=_too_short(history, NEEDED_MS[kind])))
        else:
            findings += find(history)
    findings.sort(key=lambda each: (each.kind is not Kind.OFFSETS_AT_RISK, -each.order_ms))
    return GroupAdvice(
        group_id=history.group_id,
        type=history.group_type,
        since_ms=history.complete_ms,
        until_ms=history.until_ms,
        findings=tuple(findings[:MOST_FINDINGS]),
        left_out=max(len(findings) - MOST_FINDINGS, 0),
        unsaid=tuple(unsaid),
        deployments=tuple(each for each in deployments(history) if each.since_ms >= history.complete_ms),
    )


def _is_shown(kind: Kind, history: AdviceInput) -> bool:
    if kind is Kind.OFFSETS_AT_RISK:
        return bool(history.named("offsets.expired"))
    return kind is Kind.UNUSED_GROUP and history.use.unused_ms is not None


def _too_short(history: AdviceInput, needed_ms: int) -> str:
    known_ms = history.until_ms - history.complete_ms
    is_compacted = history.since_ms < history.known_ms == history.complete_ms
    why = ", because compaction has removed records of the time before" if is_compacted else ""
    return f"it needs {milliseconds(needed_ms)}, and {milliseconds(known_ms)} are known{why}"
