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
from groupreplay.state.snapshot.members import Member, rebalance_timeout_ms
from groupreplay.state.snapshot.observations import Probe
from groupreplay.state.snapshot.rebalance import RebalanceInProgress

#: Generation 0 counts as the beginning of what a probe sees only this much later; after that somebody else
#: may have come.
_FIRST_JOIN_MS: Final = 60_000


def apply_probe(saved: GroupSnapshot, probe: Probe, report: Report, *, has_offsets: bool = False) -> None:
    """A live answer: a rebalance in progress begins, goes on or ends; the log knows everything else better.

    An answer that is not newer than the group's last record is about the time before that record. A group with
    committed offsets exists: whether it has members is all that an absence can tell of it.
    """
    seen = PROBED.get(probe.state)
    stale = saved.record_timestamp_ms is not None and probe.taken_ms <= saved.record_timestamp_ms
    if seen is None or stale or saved.group_type is not GroupType.CLASSIC:
        return
    phase, _ = NEXT[saved.phase][seen]
    if phase is Phase.DEAD and has_offsets:
        phase = Phase.EMPTY
    if phase in REBALANCING:
        _goes_on(saved, probe, phase, report)
    else:
        saved.in_progress = None
    saved.phase = phase


def _goes_on(saved: GroupSnapshot, probe: Probe, phase: Phase, report: Report) -> None:
    known = saved.in_progress
    if known is None:
        since_ms = _began_ms(saved, probe.taken_ms)
        known = RebalanceInProgress(rebalance_id(saved, report), since_ms, phase, unseen_ms=probe.unseen_ms)
        report.say(
            RebalanceStarted(rebalance_id=known.rebalance_id, generation=None, trigger="unknown"),
            group_type=GroupType.CLASSIC,
            simple=False,
            history=saved.history,
            evidence=Evidence.PROBE,
        )
    ids = [(one.member_id, one.instance_id) for one in probe.members]
    known.seen = tuple(name for pair in ids for name in pair if name is not None)
    known.phase = phase
    saved.in_progress = known


def _began_ms(saved: GroupSnapshot, taken_ms: int) -> int:
    """When a rebalance began that a probe has just seen: a new group's with its generation 0."""
    first = saved.generation == 0 and not saved.members and saved.since_ms is not None
    if first and saved.since_ms is not None and 0 <= taken_ms - saved.since_ms <= _FIRST_JOIN_MS:
        return saved.since_ms
    return taken_ms


def rebalance_id(saved: GroupSnapshot, report: Report) -> str:
    """Names the rebalance that is in progress, or that a record has just ended: by the record before it."""
    if saved.in_progress is not None:
        return saved.in_progress.rebalance_id
    # Before a group's first record there is nothing to name a rebalance by but what proves it.
    known = saved.record_offset >= 0
    partition = saved.partition if known else report.partition
    return f"{report.context.era}-{partition}-{saved.record_offset if known else report.offset}"


def thrown_out(saved: GroupSnapshot, member: Member, elapsed_ms: int | None, report: Report) -> LeaveReason:
    """Why a member is gone that was silent for longer than a timeout, by who was there at the last probe.

    A session that expires is seen as a member that is missing while the others wait; who is there to the end
    and not in the new generation did not rejoin in time (or its client gave up, which takes as long).
    """
    rebalance = saved.in_progress
    if rebalance is None:
        return "unknown"
    timeout_ms = rebalance_timeout_ms(saved.members) or 0
    there = member.member_id in rebalance.seen or (member.instance_id or "") in rebalance.seen
    # The rebalance was seen up to a round late, and the last commit may be of the moment after the last poll.
    waited_ms = max(report.timestamp_ms - rebalance.since_ms, elapsed_ms or 0) + 2 * saved.probe_interval_ms
    if there and waited_ms >= timeout_ms:
        return "rebalance_timeout"
    if rebalance.seen and not there and (elapsed_ms or 0) >= member.session_timeout_ms:
        return "session_timeout"
    return "unknown"
