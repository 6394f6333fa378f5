"""A classic group, replayed: what each of its records changes, and what that says.

Knows the records of key type 2 and what the coordinator means by them (``GroupMetadataManager.replay``,
docs/design.md); must not know bytes, batches, timers or how events are written. Every record is a full
picture of the group, so a record is compared with the one before it, never added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from groupreplay.codecs import GroupMetadataValue
from groupreplay.state.events.event import Evidence, History
from groupreplay.state.events.group_events import GroupCreated, GroupDeleted, GroupEmptied, RebalanceCompleted
from groupreplay.state.kafka_terms import GroupType, Phase
from groupreplay.state.replay.generation_diff import (
    GenerationDiff,
    Moves,
    changes,
    joined,
    leave_reason,
    left,
    moves,
    owners,
    picture,
    shortest_timeout_ms,
    trigger,
)
from groupreplay.state.replay.phases import NEXT, Seen, TransitionEvent
from groupreplay.state.replay.probing import rebalance_id, thrown_out
from groupreplay.state.replay.report import Report
from groupreplay.state.snapshot.group_snapshot import GroupSnapshot
from groupreplay.state.snapshot.group_state import ClassicGeneration, GroupState
from groupreplay.state.snapshot.members import Member, group_topics, pair, read_members
from groupreplay.state.snapshot.offsets import Offsets
from groupreplay.state.snapshot.partitions import each

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


def _step(group: GroupState, generation: int, members: Sequence[Member]) -> _Step:
    previous = group.classic.generation
    if previous is None or generation < previous:
        # Nothing known, or a deletion and a new beginning that compaction has swallowed. A static member may
        # have been replaced under this generation since, in a record that took the place of the first one.
        replaced = any(member.instance_id is not None for member in members)
        first = generation in _FIRST_GENERATIONS and not replaced
        return _Step(None, History.FULL if first else History.PARTIAL)
    if generation == previous + 1:
        return _Step(previous, History.FULL)
    return _Step(previous, group.history)


def apply_value(snapshot: GroupSnapshot, value: GroupMetadataValue, offsets: Offsets, report: Report) -> None:
    """Replace what is known of the group by the record, and report the difference."""
    group = snapshot.group
    members = read_members(value)
    seen = Seen.NEW_GENERATION if members else Seen.NO_MEMBERS
    if members and group.classic.members and value.generation == group.classic.generation:
        seen = Seen.SAME_GENERATION
    phase, said = NEXT[group.phase][seen]
    step = _step(group, value.generation, members)
    before = group.classic.members
    moved = None
    if said is TransitionEvent.COMPLETED:
        moved = _completed(snapshot, value, members, step, offsets, report)
    elif said is TransitionEvent.REPLACED:
        for change in changes(pair(before, members)):
            report.say(change, group_type=GroupType.CLASSIC, simple=False, history=group.history)
    elif said is TransitionEvent.EMPTIED and before:
        _emptied(snapshot, value, step, offsets, report)
    elif said is TransitionEvent.CREATED and value.generation == 0:
        fact = GroupCreated(generation=value.generation, since_ms=_since(value, report))
        report.say(fact, group_type=GroupType.CLASSIC, simple=False, history=step.history)
    _remember(group, value, members, phase, step, report)
    if said is TransitionEvent.COMPLETED:
        group.orphans = moved.orphans if moved else {}


def _since(value: GroupMetadataValue, report: Report) -> int:
    known = value.current_state_timestamp_ms != _NO_TIMESTAMP
    return value.current_state_timestamp_ms if known else report.timestamp_ms


def _remember(
    group: GroupState,
    value: GroupMetadataValue,
    members: tuple[Member, ...],
    phase: Phase,
    step: _Step,
    report: Report,
) -> None:
    if not members:
        group.since_ms = _since(value, report)
        group.former = group.classic.members or group.former
    else:
        # In a record with members the timestamp is the beginning of CompletingRebalance; Stable began when
        # the record was written, or earlier when the record only replaces a static member.
        if value.generation != group.classic.generation or not group.classic.members:
            group.since_ms = report.timestamp_ms
        group.former = ()
    if group.classic.generation != value.generation:
        group.history = step.history
    group.phase = phase
    group.group_type = GroupType.CLASSIC
    written_ms = value.current_state_timestamp_ms
    group.classic = ClassicGeneration(
        generation=value.generation,
        protocol_type=value.protocol_type or None,
        protocol=value.protocol,
        leader=value.leader if value.leader or not members else members[0].member_id,
        members=members,
        emptied_ms=written_ms if not members and written_ms != _NO_TIMESTAMP else None,
    )
    group.record_offset = report.offset
    group.record_timestamp_ms = report.timestamp_ms
    if members:
        group.in_progress = None
    elif group.in_progress is not None:
        # Members came and went; whether others still try to form a generation, the next probe will say.
        group.phase = group.in_progress.phase


def _completed(
    snapshot: GroupSnapshot,
    value: GroupMetadataValue,
    members: tuple[Member, ...],
    step: _Step,
    offsets: Offsets,
    report: Report,
) -> Moves | None:
    group = snapshot.group
    known = group.classic.members or group.former
    round_ = GenerationDiff(
        old=group.classic.members,
        new=members,
        pairing=pair(group.classic.members, members),
        protocol_type=value.protocol_type,
        last_owners=owners(known, group.orphans),
        owners_known=group.history is History.FULL or step.previous is None,
        first=not group.classic.members,
    )
    moved = moves(round_, pair(known, members), group_topics(members, value.protocol_type))
    # A first record with a static member in it may be its replacement, long after the rebalance.
    doubtful = not step.comparable and any(member.instance_id for member in members)
    since = None if value.current_state_timestamp_ms == _NO_TIMESTAMP else value.current_state_timestamp_ms
    pairing = round_.pairing if step.comparable else None
    fact = RebalanceCompleted(
        rebalance_id=rebalance_id(snapshot, report),
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
        join_ms=_join_ms(group, since),
        duration_ms=None,
        duration_upper_bound_ms=_upper_bound(group, step, since),
        partitions_moved=moved.moved if moved and pairing else None,
        partitions_unassigned=moved.unassigned if moved and pairing else None,
    )
    evidence = Evidence.INFERRED if doubtful else Evidence.LOG
    report.say(fact, group_type=GroupType.CLASSIC, simple=False, history=step.history, evidence=evidence)
    if pairing:
        _departures(snapshot, pairing.left, since, step.history, False, offsets, report)
        for fact_of_member in [*map(joined, pairing.joined), *changes(pairing)]:
            report.say(fact_of_member, group_type=GroupType.CLASSIC, simple=False, history=step.history)
    return moved


def _join_ms(group: GroupState, since_ms: int | None) -> int | None:
    if group.in_progress is None or since_ms is None:
        return None
    return max(0, since_ms - group.in_progress.since_ms)


def _skipped(step: _Step, generation: int) -> int | None:
    if not step.comparable or step.previous is None:
        return None
    return generation - step.previous - 1


def _upper_bound(group: GroupState, step: _Step, since_ms: int | None) -> int | None:
    if not step.comparable or step.previous is None or since_ms is None or group.record_timestamp_ms is None:
        return None
    return max(0, since_ms - group.record_timestamp_ms)


def _emptied(
    snapshot: GroupSnapshot, value: GroupMetadataValue, step: _Step, offsets: Offsets, report: Report
) -> None:
    group = snapshot.group
    since_ms = _since(value, report)
    fact = GroupEmptied(generation=value.generation, since_ms=since_ms)
    report.say(fact, group_type=GroupType.CLASSIC, simple=False, history=step.history)
    _departures(snapshot, group.classic.members, since_ms, step.history, True, offsets, report)


def _departures(
    snapshot: GroupSnapshot,
    gone: tuple[Member, ...],
    join_end_ms: int | None,
    history: History,
    emptied: bool,
    offsets: Offsets,
    report: Report,
) -> None:
    group = snapshot.group
    end_ms = report.timestamp_ms if join_end_ms is None else join_end_ms
    for member in gone:
        commit_ms = offsets.last_commit_ms(each(member.partitions))
        signs = [time for time in (group.record_timestamp_ms, commit_ms) if time is not None]
        elapsed_ms = max(0, end_ms - max(signs)) if signs else None
        reason = leave_reason(emptied, elapsed_ms, shortest_timeout_ms(member, group.classic.members))
        evidence = Evidence.LOG
        if reason == "unknown" and group.in_progress is not None:
            reason, evidence = thrown_out(snapshot, member, elapsed_ms, report), Evidence.PROBE
        fact = left(member, reason, elapsed_ms)
        report.say(fact, group_type=GroupType.CLASSIC, simple=False, history=history, evidence=evidence)


def apply_tombstone(snapshot: GroupSnapshot, report: Report) -> None:
    """Forget the group; its committed offsets have tombstones of their own and stay until then."""
    group = snapshot.group
    phase, said = NEXT[group.phase][Seen.TOMBSTONE]
    if said is TransitionEvent.DELETED:
        fact = GroupDeleted(generation=group.classic.generation, since_ms=report.timestamp_ms)
        report.say(fact, group_type=group.group_type, simple=group.simple, history=group.history)
    forget(snapshot)
    group.phase = phase


def forget(snapshot: GroupSnapshot) -> None:
    """Forget the group, but not its place in the log, its offsets and what it did before."""
    snapshot.group = GroupState()


def apply_commit(group: GroupState, report: Report) -> None:
    """An offset commit; one of an unknown group makes a simple group (``OffsetMetadataManager.replay``)."""
    phase, said = NEXT[group.phase][Seen.COMMIT]
    if said is TransitionEvent.CREATED:
        complete_since_ms = report.context.complete_since_ms
        proven = complete_since_ms is not None and report.timestamp_ms >= complete_since_ms
        group.history = History.FULL if proven else History.PARTIAL
        group.since_ms = report.timestamp_ms
        if proven:
            fact = GroupCreated(generation=None, since_ms=report.timestamp_ms)
            report.say(fact, group_type=GroupType.CLASSIC, simple=True, history=History.FULL)
    group.phase = phase
