"""A classic group, replayed: what each of its records changes, and what that says.

Knows the records of key type 2 and what the coordinator means by them (``GroupMetadataManager.replay``,
docs/design.md); must not know bytes, batches, timers or how events are written. Every record is a full
picture of the group, so a record is compared with the one before it, never added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from groupreplay.codecs import GroupMetadataValue
from groupreplay.state.events import (
    Evidence,
    GroupCreated,
    GroupDeleted,
    GroupEmptied,
    GroupType,
    History,
    LeaveReason,
    RebalanceCompleted,
    RebalanceStarted,
)
from groupreplay.state.members import Member, pair, read_members, rebalance_timeout_ms
from groupreplay.state.observations import Probe
from groupreplay.state.offsets import Offsets
from groupreplay.state.partitions import each
from groupreplay.state.phases import NEXT, PROBED, REBALANCING, Phase, Said, Seen
from groupreplay.state.rebalances import InProgress, began_ms
from groupreplay.state.report import Report
from groupreplay.state.rounds import (
    Moves,
    Round,
    changes,
    joined,
    leave_reason,
    left,
    moves,
    owners,
    picture,
    trigger,
)
from groupreplay.state.saved import Saved

#: The coordinator writes generation 0 when a group is first asked for; the older one began with generation 1.
_FIRST_GENERATIONS = (0, 1)
_NO_TIMESTAMP = -1


@dataclass(frozen=True, slots=True)
class _Step:
    """From the last known generation to this record's. ``previous`` is None when none is known."""

    previous: int | None
    history: History

    @property
    def comparable(self) -> bool:
        """Whether the members before this record are known."""
        return self.history is History.FULL


def _step(saved: Saved, generation: int, members: Sequence[Member]) -> _Step:
    previous = saved.generation
    if previous is None or generation < previous:
        # Nothing known, or a deletion and a new beginning that compaction has swallowed. A static member may
        # have been replaced under this generation since, in a record that took the place of the first one.
        replaced = any(member.instance_id is not None for member in members)
        first = generation in _FIRST_GENERATIONS and not replaced
        return _Step(None, History.FULL if first else History.PARTIAL)
    if generation == previous + 1:
        return _Step(previous, History.FULL)
    return _Step(previous, saved.history)


def apply_value(saved: Saved, value: GroupMetadataValue, offsets: Offsets, report: Report) -> None:
    """Replace what is known of the group by the record, and report the difference."""
    members = read_members(value)
    seen = Seen.NEW_GENERATION if members else Seen.NO_MEMBERS
    if members and saved.members and value.generation == saved.generation:
        seen = Seen.SAME_GENERATION
    phase, said = NEXT[saved.phase][seen]
    step = _step(saved, value.generation, members)
    before = saved.members
    moved = None
    if said is Said.COMPLETED:
        moved = _completed(saved, value, members, step, offsets, report)
    elif said is Said.REPLACED:
        for change in changes(pair(before, members)):
            report.say(change, group_type=GroupType.CLASSIC, simple=False, history=saved.history)
    elif said is Said.EMPTIED and before:
        _emptied(saved, value, step, offsets, report)
    elif said is Said.CREATED and value.generation == 0:
        fact = GroupCreated(generation=value.generation, since_ms=_since(value, report))
        report.say(fact, group_type=GroupType.CLASSIC, simple=False, history=step.history)
    _remember(saved, value, members, phase, step, report)
    if said is Said.COMPLETED:
        saved.orphans = moved.orphans if moved else {}


def _since(value: GroupMetadataValue, report: Report) -> int:
    known = value.current_state_timestamp_ms != _NO_TIMESTAMP
    return value.current_state_timestamp_ms if known else report.timestamp_ms


def _remember(
    saved: Saved,
    value: GroupMetadataValue,
    members: tuple[Member, ...],
    phase: Phase,
    step: _Step,
    report: Report,
) -> None:
    if not members:
        saved.since_ms = _since(value, report)
        saved.former = saved.members or saved.former
    else:
        # In a record with members the timestamp is the beginning of CompletingRebalance; Stable began when
        # the record was written, or earlier when the record only replaces a static member.
        if value.generation != saved.generation or not saved.members:
            saved.since_ms = report.timestamp_ms
        saved.former = ()
    if saved.generation != value.generation:
        saved.history = step.history
    saved.phase = phase
    saved.group_type = GroupType.CLASSIC
    saved.generation = value.generation
    saved.protocol_type = value.protocol_type or None
    saved.protocol = value.protocol
    saved.leader = value.leader if value.leader or not members else members[0].member_id
    saved.members = members
    saved.record_offset = report.offset
    saved.record_timestamp_ms = report.timestamp_ms
    if members:
        saved.in_progress = None
    elif saved.in_progress is not None:
        # Members came and went; whether others still try to form a generation, the next probe will say.
        saved.phase = saved.in_progress.phase


def _completed(
    saved: Saved,
    value: GroupMetadataValue,
    members: tuple[Member, ...],
    step: _Step,
    offsets: Offsets,
    report: Report,
) -> Moves | None:
    known = saved.members or saved.former
    round_ = Round(
        old=saved.members,
        new=members,
        pairing=pair(saved.members, members),
        protocol_type=value.protocol_type,
        last_owners=owners(known, saved.orphans),
        owners_known=saved.history is History.FULL or step.previous is None,
        first=not saved.members,
    )
    moved = moves(round_, pair(known, members))
    # A first record with a static member in it may be its replacement, long after the rebalance.
    doubtful = not step.comparable and any(member.instance_id for member in members)
    since = None if value.current_state_timestamp_ms == _NO_TIMESTAMP else value.current_state_timestamp_ms
    pairing = round_.pairing if step.comparable else None
    fact = RebalanceCompleted(
        rebalance_id=_rebalance_id(saved, report),
        generation=value.generation,
        previous_generation=step.previous,
        skipped_generations=_skipped(step, value.generation),
        protocol_type=value.protocol_type or None,
        protocol=value.protocol,
        leader=value.leader or members[0].member_id,
        members=tuple(picture(member) for member in members),
        member_count=len(members),
        joined=tuple(member.member_id for member in pairing.joined) if pairing else None,
        left=tuple(member.member_id for member in pairing.left) if pairing else None,
        kept=tuple(new.member_id for _, new in pairing.kept) if pairing else None,
        trigger=trigger(round_) if pairing else "unknown",
        sync_ms=None if since is None or doubtful else max(0, report.timestamp_ms - since),
        join_ms=_join_ms(saved, since),
        duration_ms=None,
        duration_upper_bound_ms=_upper_bound(saved, step, since),
        partitions_moved=moved.moved if moved and pairing else None,
        partitions_unassigned=moved.unassigned if moved and pairing else None,
    )
    evidence = Evidence.INFERRED if doubtful else Evidence.LOG
    report.say(fact, group_type=GroupType.CLASSIC, simple=False, history=step.history, evidence=evidence)
    if pairing:
        _departures(saved, pairing.left, since, step.history, False, offsets, report)
        for fact_of_member in [*map(joined, pairing.joined), *changes(pairing)]:
            report.say(fact_of_member, group_type=GroupType.CLASSIC, simple=False, history=step.history)
    return moved


def _rebalance_id(saved: Saved, report: Report) -> str:
    if saved.in_progress is not None:
        return saved.in_progress.rebalance_id
    # Before a group's first record there is nothing to name a rebalance by but what proves it.
    partition = saved.partition if saved.record_offset >= 0 else report.partition
    offset = saved.record_offset if saved.record_offset >= 0 else report.offset
    return f"{report.context.era}-{partition}-{offset}"


def _join_ms(saved: Saved, since_ms: int | None) -> int | None:
    if saved.in_progress is None or since_ms is None:
        return None
    return max(0, since_ms - saved.in_progress.since_ms)


def _skipped(step: _Step, generation: int) -> int | None:
    if not step.comparable or step.previous is None:
        return None
    return generation - step.previous - 1


def _upper_bound(saved: Saved, step: _Step, since_ms: int | None) -> int | None:
    if not step.comparable or step.previous is None or since_ms is None or saved.record_timestamp_ms is None:
        return None
    return max(0, since_ms - saved.record_timestamp_ms)


def _emptied(saved: Saved, value: GroupMetadataValue, step: _Step, offsets: Offsets, report: Report) -> None:
    since_ms = _since(value, report)
    fact = GroupEmptied(generation=value.generation, since_ms=since_ms)
    report.say(fact, group_type=GroupType.CLASSIC, simple=False, history=step.history)
    _departures(saved, saved.members, since_ms, step.history, True, offsets, report)


def _departures(
    saved: Saved,
    gone: tuple[Member, ...],
    join_end_ms: int | None,
    history: History,
    emptied: bool,
    offsets: Offsets,
    report: Report,
) -> None:
    end_ms = report.timestamp_ms if join_end_ms is None else join_end_ms
    for member in gone:
        commit_ms = offsets.last_commit_ms(each(member.partitions))
        signs = [time for time in (saved.record_timestamp_ms, commit_ms) if time is not None]
        elapsed_ms = max(0, end_ms - max(signs)) if signs else None
        reason = leave_reason(member, saved.members, emptied, elapsed_ms)
        evidence = Evidence.LOG
        if reason == "unknown" and saved.in_progress is not None:
            reason, evidence = (
                _thrown_out(saved.in_progress, member, saved.members, elapsed_ms, report),
                Evidence.PROBE,
            )
        fact = left(member, reason, elapsed_ms)
        report.say(fact, group_type=GroupType.CLASSIC, simple=False, history=history, evidence=evidence)


def _thrown_out(
    rebalance: InProgress,
    member: Member,
    members: Sequence[Member],
    elapsed_ms: int | None,
    report: Report,
) -> LeaveReason:
    """Why a member is gone that was silent for longer than a timeout, by who was still there at the last probe.

    A session that expires is seen as a member that is missing while the others wait; who is there to the end
    and not in the new generation did not rejoin in time (or its client gave up, which takes as long).
    """
    timeout_ms = rebalance_timeout_ms(members) or 0
    there = member.member_id in rebalance.seen or (member.instance_id or "") in rebalance.seen
    waited_ms = report.timestamp_ms - rebalance.since_ms + 2 * report.context.probe_interval_ms
    if there and max(waited_ms, elapsed_ms or 0) >= timeout_ms:
        return "rebalance_timeout"
    if rebalance.seen and not there and (elapsed_ms or 0) >= member.session_timeout_ms:
        return "session_timeout"
    return "unknown"


def apply_probe(saved: Saved, probe: Probe, report: Report) -> None:
    """A live answer: a rebalance in progress begins, goes on or ends; the log knows everything else better.

    An answer that is not newer than the group's last record is about the time before that record.
    """
    seen = PROBED.get(probe.state)
    stale = saved.record_timestamp_ms is not None and probe.taken_ms <= saved.record_timestamp_ms
    if seen is None or stale or saved.group_type is not GroupType.CLASSIC:
        return
    phase, _ = NEXT[saved.phase][seen]
    if phase in REBALANCING:
        _goes_on(saved, probe, phase, report)
    elif saved.in_progress is not None:
        saved.in_progress = None
    saved.phase = phase


def _goes_on(saved: Saved, probe: Probe, phase: Phase, report: Report) -> None:
    known = saved.in_progress
    if known is None:
        since_ms = began_ms(saved.since_ms, saved.generation, bool(saved.members), probe.taken_ms)
        place = _rebalance_id(saved, report)
        known = InProgress(place, since_ms, phase, probe.taken_ms)
        fact = RebalanceStarted(rebalance_id=place, generation=None, trigger="unknown")
        report.say(
            fact,
            group_type=GroupType.CLASSIC,
            simple=False,
            history=saved.history,
            evidence=Evidence.PROBE,
        )
    if phase is Phase.COMPLETING_REBALANCE and known.phase is not phase:
        known.completing_ms = probe.taken_ms
    ids = [(one.member_id, one.instance_id) for one in probe.members]
    known.seen = tuple(name for pair_ in ids for name in pair_ if name is not None)
    known.phase, known.probed_ms = phase, probe.taken_ms
    saved.in_progress = known


def apply_tombstone(saved: Saved, report: Report) -> None:
    """Forget the group; its committed offsets have tombstones of their own and stay until then."""
    phase, said = NEXT[saved.phase][Seen.TOMBSTONE]
    if said is Said.DELETED:
        fact = GroupDeleted(generation=saved.generation, since_ms=report.timestamp_ms)
        report.say(fact, group_type=saved.group_type, simple=saved.simple, history=saved.history)
    forget(saved)
    saved.phase = phase


def forget(saved: Saved) -> None:
    """Everything about the group but its place in the log, its offsets and what was written of it."""
    blank = Saved()
    for name in (
        "phase",
        "group_type",
        "history",
        "generation",
        "protocol_type",
        "protocol",
        "leader",
        "since_ms",
        "record_offset",
        "record_timestamp_ms",
        "members",
        "former",
        "orphans",
        "modern",
        "round",
        "completed_epoch",
        "in_progress",
    ):
        setattr(saved, name, getattr(blank, name))


def apply_commit(saved: Saved, report: Report) -> None:
    """An offset commit; one of an unknown group makes a simple group (``OffsetMetadataManager.replay``)."""
    phase, said = NEXT[saved.phase][Seen.COMMIT]
    if said is Said.CREATED:
        complete_since_ms = report.context.complete_since_ms
        proven = complete_since_ms is not None and report.timestamp_ms >= complete_since_ms
        saved.history = History.FULL if proven else History.PARTIAL
        saved.since_ms = report.timestamp_ms
        if proven:
            fact = GroupCreated(generation=None, since_ms=report.timestamp_ms)
            report.say(fact, group_type=GroupType.CLASSIC, simple=True, history=History.FULL)
    saved.phase = phase
