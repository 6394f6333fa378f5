"""Applies the prober's answers about a classic group: they begin, continue and end a rebalance in progress.

A classic rebalance in progress writes nothing to the log. A coordinator that moves, a broker that does not answer
and a missing round of probes give no answer, so that they neither begin nor end anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from groupreplay.codecs.kafka_terms import REBALANCING, GroupType, Phase
from groupreplay.state.events.event import Event, Evidence, Trigger
from groupreplay.state.events.group_events import RebalanceStarted
from groupreplay.state.replay import offset_sets
from groupreplay.state.replay.offset_sets import ReportAt
from groupreplay.state.replay.phases import NEXT, PROBED
from groupreplay.state.replay.report import Report
from groupreplay.state.snapshot.group_snapshot import GroupSnapshot, ProbeQueue
from groupreplay.state.snapshot.group_state import (
    BeginBounds,
    GroupState,
    Missed,
    RebalanceInProgress,
    SeenPhase,
)
from groupreplay.state.snapshot.observations import (
    DeletedTopics,
    OwnSettingsAnswer,
    PendingTransactions,
    Probe,
    ProbeAnswer,
)

#: Waiting probes that are kept between two calls; a rebalance that is probed for an hour has fewer.
_MOST_WAITING: Final = 400
#: Characters of ids and hosts in them: an answer has up to 64 KiB of these.
_MOST_CHARACTERS: Final = 2**20
#: Where the prober does not know when it asked before: its default interval.
_USUAL_UNSEEN_MS: Final = 10_000
#: Phases that are remembered of one rebalance; a group that goes from one to the other without end has more.
_MOST_PHASES: Final = 16


def hold(queue: ProbeQueue, probes: Sequence[ProbeAnswer]) -> bool:
    """Let probes wait until the log has been read up to the time at which they were known; whether one is new."""
    applied = queue.applied_ms, queue.applied_offset
    # One append may hold answers of several rounds: they are known at one time.
    new = [probe for probe in probes if (probe.heard_ms, probe.offset) > applied]
    if new:
        queue.add(new)
    return bool(new)


def limit(queue: ProbeQueue) -> None:
    """Drop waiting probes above a limit, because the snapshot must not grow without bounds."""
    if len(queue.waiting) > _MOST_WAITING:
        # The first probe shows when a rebalance began, the last ones show its present state.
        *others, first = _without_repeats(queue.waiting)
        queue.waiting = [*others[:_MOST_WAITING], first]
    size = sum(probe.characters for probe in queue.waiting)
    while size > _MOST_CHARACTERS and len(queue.waiting) > 2:
        # The latest comes first: the earliest after the first probe.
        size -= queue.waiting.pop(-2).characters


def _without_repeats(probes: Sequence[ProbeAnswer]) -> list[ProbeAnswer]:
    """The first and the last probe of every series with one answer; a replay is given all probes at once."""
    answers = [(type(probe), probe.answer) for probe in probes]
    return [
        probe
        for place, probe in enumerate(probes)
        if answers[place - 1 : place] != answers[place : place + 1]
        or answers[place : place + 1] != answers[place + 1 : place + 2]
    ]


def next_probe(queue: ProbeQueue) -> ProbeAnswer:
    """Take the first waiting probe, which is now applied."""
    probe = queue.waiting.pop()
    queue.applied_ms, queue.applied_offset = max(
        (queue.applied_ms, queue.applied_offset), (probe.heard_ms, probe.offset)
    )
    queue.interval_ms = probe.interval_ms
    return probe


def rebalance_begin(snapshot: GroupSnapshot) -> tuple[Phase, int | None]:
    """The state of the group, and since when a rebalance is seen: what an answer may change for other detectors."""
    rebalance = snapshot.group.in_progress
    return snapshot.group.phase, None if rebalance is None else rebalance.since_ms


def apply_notice(
    snapshot: GroupSnapshot,
    answer: DeletedTopics | OwnSettingsAnswer | PendingTransactions,
    report_at: ReportAt,
) -> list[Event]:
    """Apply an answer that says nothing about a rebalance."""
    if isinstance(answer, DeletedTopics):
        return offset_sets.apply_answer(snapshot, answer, report_at)
    if isinstance(answer, PendingTransactions):
        snapshot.transactions = answer if answer.transactions else None
    else:
        snapshot.own_settings = dict(answer.settings)
    return []


def apply_probe(snapshot: GroupSnapshot, probe: Probe, report: Report, *, has_offsets: bool = False) -> None:
    """Apply a probe: a rebalance in progress begins, continues or ends; everything else is read from the log.

    A probe that may not be newer than the group's last record is about the time before that record. A group with
    committed offsets exists, so that ``Dead`` only means that it has no members.
    """
    observed = PROBED.get(probe.state)
    stale = (
        snapshot.group.record_timestamp_ms is not None
        and probe.asked_ms <= snapshot.group.record_timestamp_ms
    )
    if observed is None or stale or snapshot.group.group_type is not GroupType.CLASSIC:
        return
    phase, _ = NEXT[snapshot.group.phase][observed]
    if phase is Phase.DEAD and has_offsets:
        phase = Phase.EMPTY
    if phase in REBALANCING:
        _continue_rebalance(snapshot, probe, phase, report)
    else:
        snapshot.group.in_progress = None
    snapshot.group.phase = phase


def _continue_rebalance(snapshot: GroupSnapshot, probe: Probe, phase: Phase, report: Report) -> None:
    known = snapshot.group.in_progress
    if known is None:
        began = BeginBounds(snapshot.group.record_timestamp_ms)
        began = began.seen(probe.asked_ms, probe.answered_ms, _unseen_ms(probe))
        known = RebalanceInProgress(
            rebalance_id(snapshot, report),
            probe.answered_ms,
            phase,
            unseen_ms=_USUAL_UNSEEN_MS if probe.unseen_ms < 0 else probe.unseen_ms,
            trigger=_shown_trigger(snapshot.group, probe),
            earliest_ms=None if began.earliest_ms is None else min(began.earliest_ms, probe.answered_ms),
        )
        report.emit(
            RebalanceStarted(
                rebalance_id=known.rebalance_id,
                generation=None,
                trigger=known.trigger,
                since_ms=known.since_ms,
                since_ms_earliest=known.earliest_ms,
            ),
            group_type=GroupType.CLASSIC,
            history=snapshot.group.history,
            evidence=Evidence.PROBE,
        )
    ids = [(member.member_id, member.instance_id) for member in probe.members]
    known.seen = tuple(name for pair in ids for name in pair if name is not None)
    if known.seen:
        # A static member has another id after its process was started again.
        missing = [
            member.member_id
            for member in snapshot.group.classic.members
            if member.member_id not in known.seen and (member.instance_id or "") not in known.seen
        ]
        before = Missed(known.phases[-1].last_asked_ms if known.phases else None, probe.answered_ms)
        known.missed = {name: known.missed.get(name, before) for name in missing}
    known.phase = phase
    _note_phase(known, probe, phase)
    snapshot.group.in_progress = known


def _shown_trigger(group: GroupState, probe: Probe) -> Trigger:
    """What the members in the first answer show: who had come before anybody of the last generation went, or gone."""
    if not probe.members or group.record_offset < 0:
        return "unknown"
    old = {member.instance_id or member.member_id for member in group.classic.members}
    now = {member.instance_id or member.member_id for member in probe.members}
    if not old:
        return "first_join"
    if group.orphans:
        # Then a second rebalance follows at once, into which others may come.
        return "cooperative_followup" if now == old else "unknown"
    if now > old:
        return "member_joined"
    return "member_left" if now < old else "unknown"


def _unseen_ms(probe: Probe) -> int | None:
    return probe.unseen_ms if probe.unseen_ms >= 0 else None


def _note_phase(known: RebalanceInProgress, probe: Probe, phase: Phase) -> None:
    last = known.phases[-1] if known.phases else None
    if last is not None and (last.phase, last.broker) == (phase, probe.broker):
        last.last_asked_ms = probe.asked_ms
        return
    # The round before a later phase has an answer, too.
    unseen_ms = _unseen_ms(probe) if last is None and known.earliest_ms is not None else None
    seen = SeenPhase(phase, probe.asked_ms, probe.answered_ms, probe.asked_ms, unseen_ms, probe.broker)
    known.phases = [*known.phases, seen][-_MOST_PHASES:]


def join_bounds_ms(group: GroupState, ended_ms: int, generations: int | None) -> tuple[int, int] | None:
    """The least and the greatest length of the join phase that ended then; None: the answers do not show it.

    ``generations`` is the number of join phases that have ended since the group's last record, None where that is not
    known. Each of them increments the generation (``ClassicGroup.initNextGeneration``).
    """
    if group.in_progress is None or not group.in_progress.phases or generations is None:
        return None
    began, ended, seen_ms = BeginBounds(group.record_timestamp_ms), 0, ended_ms
    former: SeenPhase | None = None
    for phase in group.in_progress.phases:
        if former is not None and former.broker != phase.broker:
            # A coordinator that moves loses the rebalance, and the generations without a record.
            began, ended = BeginBounds(former.last_asked_ms), 0
        former = phase
        if phase.phase is Phase.PREPARING_REBALANCE:
            began = began.seen(phase.asked_ms, phase.answered_ms, phase.unseen_ms)
            seen_ms = phase.last_asked_ms
        elif phase.asked_ms >= ended_ms:
            # It waits for the assignment of this generation.
            if began.latest_ms is None and not ended:
                if phase.unseen_ms is None:
                    return None
                began = began.not_yet(phase.asked_ms - phase.unseen_ms)
            break
        elif phase.last_asked_ms >= ended_ms:
            return None
        else:
            began, ended = began.not_yet(phase.last_asked_ms), ended + 1
    # More have ended than were seen; or fewer, and the clocks of prober and coordinator differ.
    if generations - 1 != ended or began.earliest_ms is None:
        return None
    latest_ms = ended_ms if began.latest_ms is None else began.latest_ms
    # It was asked for in the join phase: if that is after its end, the coordinator's clock is behind by as much.
    return max(0, ended_ms - latest_ms), max(
        0, ended_ms - latest_ms, max(ended_ms, seen_ms) - began.earliest_ms
    )


def rebalance_id(snapshot: GroupSnapshot, report: Report) -> str:
    """The id of the rebalance in progress, or of the one that a record has just ended: the record before it."""
    if snapshot.group.in_progress is not None:
        return snapshot.group.in_progress.rebalance_id
    # Before the group's first record it is the place of the observation itself.
    known = snapshot.group.record_offset >= 0
    partition = snapshot.log.partition if known else report.partition
    return f"{report.context.era}-{partition}-{snapshot.group.record_offset if known else report.offset}"
