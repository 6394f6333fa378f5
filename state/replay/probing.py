"""Answers of the prober about a classic group: what they begin, carry on and end, and what they tell of the gone.

A rebalance of a classic group in progress writes nothing to the log. A coordinator that moves, a broker that is
silent and a round that is missing give no answer, so they neither begin nor end anything. Must not know
records, timers or how answers were got.
"""

from __future__ import annotations

from typing import Final

from groupreplay.state.events.event import Evidence, LeaveReason
from groupreplay.state.events.group_events import RebalanceStarted
from groupreplay.state.kafka_terms import REBALANCING, GroupType, Phase
from groupreplay.state.replay.phases import NEXT, PROBED
from groupreplay.state.replay.report import Report
from groupreplay.state.snapshot.group_snapshot import GroupSnapshot
from groupreplay.state.snapshot.group_state import GroupState, RebalanceInProgress
from groupreplay.state.snapshot.members import Member, rebalance_timeout_ms
from groupreplay.state.snapshot.observations import Probe

#: Generation 0 counts as the beginning of what a probe sees only this much later; after that somebody else
#: may have come.
_FIRST_JOIN_MS: Final = 60_000


def apply_probe(snapshot: GroupSnapshot, probe: Probe, report: Report, *, has_offsets: bool = False) -> None:
    """A live answer: a rebalance in progress begins, goes on or ends; the log knows everything else better.

    An answer that is not newer than the group's last record is about the time before that record. A group with
    committed offsets exists: whether it has members is all that an absence can tell of it.
    """
    seen = PROBED.get(probe.state)
    stale = (
        snapshot.group.record_timestamp_ms is not None
        and probe.taken_ms <= snapshot.group.record_timestamp_ms
    )
    if seen is None or stale or snapshot.group.group_type is not GroupType.CLASSIC:
        return
    phase, _ = NEXT[snapshot.group.phase][seen]
    if phase is Phase.DEAD and has_offsets:
        phase = Phase.EMPTY
    if phase in REBALANCING:
        _goes_on(snapshot, probe, phase, report)
    else:
        snapshot.group.in_progress = None
    snapshot.group.phase = phase


def _goes_on(snapshot: GroupSnapshot, probe: Probe, phase: Phase, report: Report) -> None:
    known = snapshot.group.in_progress
    if known is None:
        since_ms = _began_ms(snapshot.group, probe.taken_ms)
        known = RebalanceInProgress(
            rebalance_id(snapshot, report), since_ms, phase, unseen_ms=probe.unseen_ms
        )
        report.say(
            RebalanceStarted(rebalance_id=known.rebalance_id, generation=None, trigger="unknown"),
            group_type=GroupType.CLASSIC,
            simple=False,
            history=snapshot.group.history,
            evidence=Evidence.PROBE,
        )
    ids = [(one.member_id, one.instance_id) for one in probe.members]
    known.seen = tuple(name for pair in ids for name in pair if name is not None)
    known.phase = phase
    snapshot.group.in_progress = known


def _began_ms(group: GroupState, taken_ms: int) -> int:
    """When a rebalance began that a probe has just seen: a new group's with its generation 0."""
    first = group.classic.generation == 0 and not group.classic.members and group.since_ms is not None
    if first and group.since_ms is not None and 0 <= taken_ms - group.since_ms <= _FIRST_JOIN_MS:
        return group.since_ms
    return taken_ms


def rebalance_id(snapshot: GroupSnapshot, report: Report) -> str:
    """Names the rebalance that is in progress, or that a record has just ended: by the record before it."""
    if snapshot.group.in_progress is not None:
        return snapshot.group.in_progress.rebalance_id
    # Before a group's first record there is nothing to name a rebalance by but what proves it.
    known = snapshot.group.record_offset >= 0
    partition = snapshot.log.partition if known else report.partition
    return f"{report.context.era}-{partition}-{snapshot.group.record_offset if known else report.offset}"


def thrown_out(
    snapshot: GroupSnapshot, member: Member, elapsed_ms: int | None, report: Report
) -> LeaveReason:
    """Why a member is gone that was silent for longer than a timeout, by who was there at the last probe.

    A session that expires is seen as a member that is missing while the others wait; who is there to the end
    and not in the new generation did not rejoin in time (or its client gave up, which takes as long).
    """
    rebalance = snapshot.group.in_progress
    if rebalance is None:
        return "unknown"
    timeout_ms = rebalance_timeout_ms(snapshot.group.classic.members) or 0
    there = member.member_id in rebalance.seen or (member.instance_id or "") in rebalance.seen
    # The rebalance was seen up to a round late, and the last commit may be of the moment after the last poll.
    waited_ms = (
        max(report.timestamp_ms - rebalance.since_ms, elapsed_ms or 0) + 2 * snapshot.probes.interval_ms
    )
    if there and waited_ms >= timeout_ms:
        return "rebalance_timeout"
    if rebalance.seen and not there and (elapsed_ms or 0) >= member.session_timeout_ms:
        return "session_timeout"
    return "unknown"
