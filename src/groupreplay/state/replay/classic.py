"""Applies the records of a classic group (key type 2) as ``GroupMetadataManager.replay`` does.

Every record holds the whole group, so that a record is compared with the one before; nothing is added up.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from groupreplay.codecs import GroupMetadataValue
from groupreplay.codecs.kafka_terms import GroupType, Phase
from groupreplay.state.events.event import Evidence, Fact, History
from groupreplay.state.events.group_events import GroupCreated, GroupDeleted, GroupEmptied, RebalanceCompleted
from groupreplay.state.plausible_times import written_ms
from groupreplay.state.replay import generation_diff, logged
from groupreplay.state.replay.departure_reasons import why
from groupreplay.state.replay.departures import JoinPhase
from groupreplay.state.replay.generation_diff import Departure, GenerationDiff, MembershipChange, Moves
from groupreplay.state.replay.phases import NEXT, Observed, TransitionEvent
from groupreplay.state.replay.probing import join_bounds_ms, rebalance_id
from groupreplay.state.replay.report import Report
from groupreplay.state.snapshot.group_snapshot import GroupSnapshot
from groupreplay.state.snapshot.group_state import ClassicGeneration, GroupState
from groupreplay.state.snapshot.members import (
    EarlierTopics,
    Member,
    Pairing,
    earlier_topics,
    group_topics,
    pair,
    read_members,
    rebalance_timeout_ms,
    slowest_member,
)
from groupreplay.state.snapshot.offsets import Offsets

#: The coordinator writes generation 0 when a group is first asked for; the older one began with generation 1.
_FIRST_GENERATIONS = (0, 1)


class GenerationStep(msgspec.Struct, frozen=True):
    """The step from the last known generation (``previous``, None when unknown) to that of the record."""

    previous: int | None
    history: History

    @property
    def comparable(self) -> bool:
        """Whether the members before this record are known."""
        return self.history is History.FULL

    def is_doubtful(self, members: Sequence[Member]) -> bool:
        """Whether the record may be the replacement of a static member, long after the rebalance of its generation."""
        return not self.comparable and any(member.instance_id is not None for member in members)

    def skipped(self, generation: int) -> int | None:
        """How many generations lie between; None when that is not known."""
        return None if not self.comparable or self.previous is None else generation - self.previous - 1


def step_of(
    previous: int | None, history: History, generation: int, members: Sequence[Member]
) -> GenerationStep:
    """The step from what is known (the last generation, and whether nothing before it is missing) to a record."""
    if previous is None or generation < previous:
        # Nothing known, or a deletion and a new beginning that compaction has swallowed. A static member may
        # have been replaced under this generation since, in a record that took the place of the first one.
        replaced = any(member.instance_id is not None for member in members)
        first = generation in _FIRST_GENERATIONS and not replaced
        return GenerationStep(None, History.FULL if first else History.PARTIAL)
    if generation == previous + 1:
        return GenerationStep(previous, History.FULL)
    return GenerationStep(previous, history)


def apply_value(
    snapshot: GroupSnapshot, value: GroupMetadataValue, offsets: Offsets, report: Report
) -> MembershipChange:
    """Replace what is known of the group by the record, and report the difference."""
    group, members = snapshot.group, read_members(value)
    observed = Observed.NEW_GENERATION if members else Observed.NO_MEMBERS
    if members and group.classic.members and value.generation == group.classic.generation:
        observed = Observed.SAME_GENERATION
    phase, event = NEXT[group.phase][observed]
    step = step_of(group.classic.generation, group.history, value.generation, members)
    record = _Record(snapshot, value, members, step, offsets, report)
    change, orphans = MembershipChange(), group.orphans
    if event is TransitionEvent.COMPLETED:
        change, orphans = record.complete_generation()
    elif event is TransitionEvent.REPLACED:
        change = MembershipChange(kept=pair(group.classic.members, members).kept)
        record.emit_members(change, group.history)
    elif event is TransitionEvent.EMPTIED and group.classic.members:
        change = record.empty_group()
    elif event is TransitionEvent.CREATED and value.generation == 0:
        record.emit(GroupCreated(generation=value.generation, since_ms=record.since_ms))
    _remember(group, record, phase)
    group.orphans = orphans
    return change


class _Record(msgspec.Struct, frozen=True):
    """A record with a value, and what is known before it is applied."""

    snapshot: GroupSnapshot
    value: GroupMetadataValue
    members: tuple[Member, ...]
    step: GenerationStep
    offsets: Offsets
    report: Report

    @property
    def written_ms(self) -> int | None:
        """The timestamp of the group's state in the record, None when the record has none."""
        return written_ms(self.value.current_state_timestamp_ms, self.report.timestamp_ms)

    @property
    def since_ms(self) -> int:
        """The beginning of the group's state, if it has no members."""
        return self.report.timestamp_ms if self.written_ms is None else self.written_ms

    def emit(self, fact: Fact, evidence: Evidence = Evidence.LOG) -> None:
        """Emit a fact about the group."""
        self.report.emit(fact, group_type=GroupType.CLASSIC, history=self.step.history, evidence=evidence)

    def emit_members(self, change: MembershipChange, history: History) -> None:
        """Emit the facts about its members."""
        if self.report.is_silent:
            return
        for fact, evidence in change.facts():
            self.report.emit(fact, group_type=GroupType.CLASSIC, history=history, evidence=evidence)

    def complete_generation(self) -> tuple[MembershipChange, dict[str, dict[str, str]]]:
        """The record completes a rebalance; also the partitions without an owner from now on."""
        group, members, step = self.snapshot.group, self.members, self.step
        known, pairing = group.classic.members or group.former, pair(group.classic.members, members)
        diff = GenerationDiff(
            old=group.classic.members,
            new=members,
            pairing=pairing,
            protocol_type=self.value.protocol_type,
            last_owners=generation_diff.owners(known, group.orphans),
            owners_known=group.history is History.FULL or step.previous is None,
            first=not group.classic.members,
            orphans=group.orphans,
            shown="unknown" if group.in_progress is None else group.in_progress.trigger,
            is_whole=step.skipped(self.value.generation) == 0,
        )
        former = pairing if known is group.classic.members else pair(known, members)
        moved = generation_diff.moves(diff, former, group_topics(members, self.value.protocol_type))
        comparable = pairing if step.comparable else Pairing((), (), ())
        departures = self._departures(comparable.left)
        if not self.report.is_silent:
            self._emit_completed(diff, moved, departures)
        change = MembershipChange(
            departures=departures,
            joined=comparable.joined,
            kept=comparable.kept,
            completed=members,
            lasted_ms=self._lasted_ms(),
        )
        self.emit_members(change, step.history)
        return change, moved.orphans if moved else {}

    def _emit_completed(
        self, diff: GenerationDiff, moved: Moves | None, departures: Sequence[Departure]
    ) -> None:
        doubtful = self.step.is_doubtful(self.members)
        evidence = Evidence.INFERRED if doubtful else Evidence.LOG
        completed = logged.rebalance(self._completed(diff, moved, doubtful, departures), self.report)
        if completed.join_ms_max is not None:
            evidence = Evidence.BROKER_LOG if completed.logged else Evidence.PROBE
        self.emit(completed, evidence)

    def _completed(
        self, diff: GenerationDiff, moved: Moves | None, doubtful: bool, departures: Sequence[Departure]
    ) -> RebalanceCompleted:
        value, step, written_ms = self.value, self.step, self.written_ms
        pairing = diff.pairing if step.comparable else None
        join_ms_min, join_ms_max = self._join_bounds_ms() or (None, None)
        began_ms = None if join_ms_min is None or written_ms is None else written_ms - join_ms_min
        slowest = slowest_member(self.members)
        return RebalanceCompleted(
            rebalance_id=rebalance_id(self.snapshot, self.report),
            generation=value.generation,
            previous_generation=step.previous,
            skipped_generations=step.skipped(value.generation),
            protocol_type=value.protocol_type or None,
            protocol=value.protocol,
            previous_protocol=self.snapshot.group.classic.protocol,
            leader=value.leader or self.members[0].member_id,
            previous_leader=self.snapshot.group.classic.leader,
            rebalance_timeout_ms=rebalance_timeout_ms(self.members),
            rebalance_timeout_member=slowest.member_id if slowest else None,
            members=tuple(map(generation_diff.member_picture, self.members)),
            member_count=len(self.members),
            joined=tuple(member.member_id for member in pairing.joined) if pairing else None,
            left=tuple(member.member_id for member in pairing.left) if pairing else None,
            kept=tuple(new.member_id for _, new in pairing.kept) if pairing else None,
            gone=generation_diff.gone_members(departures),
            trigger=generation_diff.trigger(diff, departures, began_ms) if pairing else "unknown",
            sync_ms=None if doubtful else _elapsed_ms(written_ms, self.report.timestamp_ms),
            join_ms_min=join_ms_min,
            join_ms_max=join_ms_max,
            duration_ms=None,
            duration_upper_bound_ms=self._upper_bound_ms(),
            silent_ms=self._silent_ms(),
            partitions_moved=moved.moved if moved and pairing else None,
            partitions_unassigned=moved.unassigned if moved and pairing else None,
        )

    def _join_bounds_ms(self) -> tuple[int, int] | None:
        if self.written_ms is None or not self.step.comparable:
            return None
        # Without a record before it, the group began with generation 0.
        generations = self.value.generation - (self.step.previous or 0)
        return join_bounds_ms(self.snapshot.group, self.written_ms, generations)

    def _lasted_ms(self) -> int | None:
        """How long the rebalance took at most: the prober finds each one that is longer than its interval."""
        group, probes = self.snapshot.group, self.snapshot.probes
        if group.in_progress is not None:
            return _elapsed_ms(group.in_progress.earliest_ms, self.report.timestamp_ms)
        before_ms = group.record_timestamp_ms if self.report.context.probing else None
        lasted_ms = _elapsed_ms(before_ms, self.report.timestamp_ms)
        return None if lasted_ms is None else min(lasted_ms, max(0, probes.interval_ms))

    def _upper_bound_ms(self) -> int | None:
        if not self.step.comparable or self.step.previous is None:
            return None
        return _elapsed_ms(self.snapshot.group.record_timestamp_ms, self.written_ms)

    def _silent_ms(self) -> int | None:
        bound_ms, last_ms = self._upper_bound_ms(), self.offsets.newest_commit_ms()
        silent_ms = _elapsed_ms(last_ms, self.written_ms)
        return None if bound_ms is None or silent_ms is None else min(bound_ms, silent_ms)

    def empty_group(self) -> MembershipChange:
        """The record has no members, the one before had."""
        members = self.snapshot.group.classic.members
        self.emit(GroupEmptied(generation=self.value.generation, since_ms=self.since_ms))
        change = MembershipChange(departures=self._departures(members), emptied=True)
        self.emit_members(change, self.step.history)
        return change

    def _departures(self, left: Sequence[Member]) -> tuple[Departure, ...]:
        phase = JoinPhase(self.snapshot, self.offsets, self.members, self.since_ms)
        found = [(member, phase.leaving(member)) for member in left]
        # The rebalance, or the group, had waited for each up to ``since_ms``.
        departures = [
            Departure(
                member,
                logged.departure(why(one), member.member_id, self.report),
                _elapsed_ms(one.heard_ms, self.since_ms),
                awaited=phase.is_awaited(member),
            )
            for member, one in found
        ]
        before, history = len(self.snapshot.group.classic.members), self.snapshot.slot_history
        return generation_diff.judged(
            departures, history, self.report.timestamp_ms, (before, len(self.members))
        )


def _elapsed_ms(start_ms: int | None, end_ms: int | None) -> int | None:
    return None if start_ms is None or end_ms is None else max(0, end_ms - start_ms)


def _remember(group: GroupState, record: _Record, phase: Phase) -> None:
    value, members, report = record.value, record.members, record.report
    if not members:
        group.since_ms = record.since_ms
        group.former = group.classic.members or group.former
    else:
        # In a record with members the timestamp is the beginning of CompletingRebalance; Stable began when
        # the record was written, or earlier when the record only replaces a static member.
        if value.generation != group.classic.generation or not group.classic.members:
            group.since_ms = report.timestamp_ms
        group.former = ()
    if group.classic.generation != value.generation:
        group.history = record.step.history
    group.phase, group.group_type = phase, GroupType.CLASSIC
    group.classic = ClassicGeneration(
        generation=value.generation,
        protocol_type=value.protocol_type or None,
        protocol=value.protocol,
        leader=value.leader if value.leader or not members else members[0].member_id,
        members=members,
        emptied_ms=None if members else record.written_ms,
        earlier=_earlier_topics(group.classic, record) if members else None,
        joined_ms=record.written_ms if members else None,
    )
    group.record_offset = report.offset
    group.record_timestamp_ms = report.timestamp_ms
    if members:
        group.in_progress = None
    elif group.in_progress is not None:
        # Members came and left; the next probe shows whether others still try to form a generation.
        group.phase = group.in_progress.phase
        group.in_progress.phases = []
        group.in_progress.trigger = "unknown"


def _earlier_topics(known: ClassicGeneration, record: _Record) -> EarlierTopics | None:
    """Other subscriptions that the record's generation has had: those of members that it replaces."""
    value, members = record.value, record.members
    if not known.members or known.generation != value.generation:
        return EarlierTopics(unknown=True) if _took_a_place(record) else None
    return earlier_topics(
        known.earlier,
        group_topics(known.members, known.protocol_type),
        group_topics(members, value.protocol_type),
    )


def _took_a_place(record: _Record) -> bool:
    """Whether a static member was replaced in this record, and compaction has removed the generation's first one.

    The leader's sync, in which a generation is first written, comes within the rebalance timeout. A replacement has the
    time at which the group became Stable.
    """
    since_ms, most_ms = record.written_ms, rebalance_timeout_ms(record.members)
    if since_ms is None or most_ms is None:
        return False
    is_static = any(member.instance_id for member in record.members)
    return is_static and record.report.timestamp_ms - since_ms > most_ms


def apply_tombstone(snapshot: GroupSnapshot, report: Report) -> None:
    """Forget the group; its committed offsets have tombstones of their own and stay until then."""
    group = snapshot.group
    _, event = NEXT[group.phase][Observed.TOMBSTONE]
    if event is TransitionEvent.DELETED:
        asked = logged.requesters(report, logged.REMOVALS["group_deleted"])
        generation, at_ms = group.classic.generation, report.timestamp_ms
        fact = GroupDeleted(generation=generation, since_ms=at_ms, requested_by=asked)
        report.emit(fact, group_type=group.group_type, history=group.history, simple=group.simple)
    forget(snapshot)


def forget(snapshot: GroupSnapshot) -> None:
    """Forget the group, but not its place in the log, its offsets, what it did before and whether that is known.

    Who has seen the end of a group misses nothing of it: the end of a condition comes after it.
    """
    snapshot.group = GroupState(history=snapshot.group.history)
    # Kafka keeps them, but between two calls nothing is kept of a group that is gone.
    snapshot.own_settings = None
