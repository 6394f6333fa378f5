"""The rebalance in progress, and the timeouts of the members that take part in it.

The log shows every rebalance of a KIP-848, share or streams group from its beginning. It shows a rebalance of a
classic group only when it is over; before that, only the prober sees it. A coordinator that moves, a broker that does
not answer and a missing round of the prober neither begin nor end a rebalance.
"""

from __future__ import annotations

from dataclasses import dataclass

from groupreplay.codecs.kafka_terms import DEFAULT_SESSION_TIMEOUT_MS
from groupreplay.state.conditions.detection import GroupView
from groupreplay.state.events.event import Evidence
from groupreplay.state.snapshot import modern
from groupreplay.state.snapshot.group_state import BeginBounds


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
        one = group.in_progress
        return CurrentRebalance(
            rebalance_id=one.rebalance_id,
            since_ms=one.since_ms,
            since=BeginBounds(one.earliest_ms, one.since_ms),
            state=one.phase.value,
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
    known = group.modern.members.values() if group.modern else group.classic.members or group.former
    return max((one.rebalance_timeout_ms for one in known), default=-1)


def session_timeout_ms(view: GroupView) -> int:
    """The largest session timeout in the log, else the broker's default."""
    group = view.group
    if group.modern is not None:
        given = [one.classic_session_timeout_ms or 0 for one in group.modern.members.values()]
    else:
        given = [one.session_timeout_ms for one in group.classic.members or group.former]
    return max(given, default=0) or DEFAULT_SESSION_TIMEOUT_MS
