"""Offsets that are set while the group has no members: which, in which direction, once per occasion.

The coordinator refuses the commits of members that it does not know, and accepts a commit without a member only while
the group is Empty (``ClassicGroup.validateOffsetCommit``, ``ConsumerGroup.validateOffsetCommit``). So a commit into
an Empty group comes from outside: from ``kafka-consumer-groups.sh --reset-offsets``, from the Admin API, or from a
consumer that uses ``assign()`` under the same group id. A group that never had members has a program of its own that
commits; there only a commit that differs from the others counts.

Sets within ten seconds of the first one are one occasion, because scripts set one topic after the other. A program
that sets offsets again and again is reported until its pace is known, then no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from groupreplay.state.events.event import Evidence, History, Severity
from groupreplay.state.events.offset_events import OffsetsSet, SetDirection, SetPartition
from groupreplay.state.policy.rules import severity_of_moves
from groupreplay.state.replay import logged, offset_deletions, offset_losses
from groupreplay.state.replay.group_summary import has_members, is_significant
from groupreplay.state.snapshot.losses import OffsetSets, SetOccasion, SetPace, SetRange

if TYPE_CHECKING:
    from groupreplay.state.events.event import Event
    from groupreplay.state.policy.context import Context
    from groupreplay.state.replay.report import Report
    from groupreplay.state.snapshot.group_snapshot import GroupSnapshot
    from groupreplay.state.snapshot.group_state import GroupState
    from groupreplay.state.snapshot.observations import CommitRun, DeletedTopics
    from groupreplay.state.snapshot.offsets import Applied, Offsets


#: Makes the report whose cause is the record of this offset and time.
ReportAt: TypeAlias = "Callable[[int, int], Report]"


def apply_commits(snapshot: GroupSnapshot, offsets: Offsets, run: CommitRun, context: Context) -> Applied:
    """Apply the commits, and hold what is more than progress."""
    from_outside = takes_sets(snapshot, run.first_ms, context)
    steps_from = emptied_at(snapshot.group) if from_outside else None
    applied = offsets.apply(run, snapshot.group.epoch, steps_from=steps_from)
    if from_outside and (len(applied.steps) or len(run.steps) or applied.new_rows):
        hold_sets(snapshot, run, applied)
    if snapshot.losses.lost or (not from_outside and (applied.fallen or len(run.steps))):
        offset_losses.hold_changes(snapshot, run, applied, rewinds=not from_outside)
    return applied


def due_ms(snapshot: GroupSnapshot) -> int | None:
    """When the next occasion is over; None without one."""
    held = snapshot.losses
    due = (offset_losses.due_ms(held), offset_deletions.due_ms(held), sets_due_ms(snapshot.sets))
    return min((one for one in due if one is not None), default=None)


def report_over(snapshot: GroupSnapshot, at_ms: int, report_at: ReportAt) -> list[Event]:
    """Report the occasions that are over at this moment."""
    events: list[Event] = []
    for unclear in offset_deletions.take_over(snapshot.losses, at_ms):
        report = report_at(unclear.log_offset, unclear.at_ms)
        offset_deletions.report_deletion(snapshot, unclear, confirmed=False, report=report)
        events += report.events
    for changes in offset_losses.take_occasions(snapshot, at_ms):
        report = report_at(changes[0].log_offset, changes[0].timestamp_ms)
        offset_losses.report_changes(snapshot, changes, report)
        events += report.events
    for occasion in take_occasions(snapshot.sets, at_ms):
        report = report_at(occasion.log_offset, occasion.since_ms)
        report_sets(snapshot, occasion, report)
        events += report.events
    return events


def report_all(snapshot: GroupSnapshot, report_at: ReportAt) -> list[Event]:
    """Report what waits, although its occasion may not be over."""
    events: list[Event] = []
    while (at_ms := due_ms(snapshot)) is not None:
        events += report_over(snapshot, at_ms, report_at)
    return events


def apply_answer(snapshot: GroupSnapshot, answer: DeletedTopics, report_at: ReportAt) -> list[Event]:
    """Report the deletions that the prober's answer explains: it has found these topics gone."""
    events: list[Event] = []
    for unclear in offset_deletions.take_answered(snapshot.losses, answer.topics, answer.taken_ms):
        report = report_at(unclear.log_offset, unclear.at_ms)
        offset_deletions.report_deletion(snapshot, unclear, confirmed=True, report=report)
        events += report.events
    return events


#: An occasion ends so long after its first set.
OCCASION_MS: Final = 10_000
#: Two gaps are one pace if neither is more than so many times the other.
_SAME_PACE: Final = 2
#: A known pace may have gaps that are so many times longer: a mirror sets only what has changed.
_LONGEST_GAP: Final = 4
_LEAST_GAP_MS: Final = 15 * 60_000


class _PossibleSet(NamedTuple):
    """A commit that may be a set; ``from_offset`` None: no offset is known before it."""

    log_offset: int
    at_ms: int
    topic: str
    partition: int
    from_offset: int | None
    to_offset: int


def takes_sets(snapshot: GroupSnapshot, at_ms: int, context: Context) -> bool:
    """Whether commits at this time come from outside the group, because it has no members.

    In a compacted log the records of its members may come later. Only a record of a classic group has all of them.
    """
    group = snapshot.group
    if has_members(group):
        return False
    is_known = group.history is History.FULL or context.is_complete(at_ms)
    return is_known or not (group.simple or group.modern is not None)


def emptied_at(group: GroupState) -> int:
    """Where in the log the group lost its members: every change of an offset from before is a set. -1: it had none.

    No time would do: the clock of whoever commits may be behind that of the broker, which writes the group's record.
    """
    return -1 if group.simple else group.record_offset


def hold_sets(snapshot: GroupSnapshot, run: CommitRun, applied: Applied) -> None:
    """Let the sets in a run of commits wait for the end of their occasion; ``applied`` is the result of applying it."""
    lost = {(one.topic, one.partition) for one in snapshot.losses.lost}
    first = {*run.rows["first_log_offset"].tolist()} if lost else set[int]()
    for step in sorted(_steps(run, applied, by_program=snapshot.group.simple)):
        # The first commit after a loss is reported as ``offsets.reset``.
        if step.log_offset not in first or (step.topic, step.partition) not in lost:
            _add(snapshot.sets, step, snapshot.group.epoch, recreated=step.topic in applied.recreated)


def _steps(run: CommitRun, applied: Applied, *, by_program: bool) -> Iterator[_PossibleSet]:
    """``by_program``: the group never had members, and a program of its own commits."""
    topic, partition = run.rows["topic"], run.rows["partition"]
    steps = np.concatenate([applied.steps, run.steps])
    if by_program:
        by_tool = (steps["old_leader_epoch"] >= 0) & (steps["leader_epoch"] < 0)
        steps = steps[by_tool | (steps["new_offset"] < steps["old_offset"])]
    for row, old, new, log_offset, at_ms, _, _ in steps.tolist():
        yield _PossibleSet(log_offset, at_ms, run.topics[topic[row]], int(partition[row]), old, new)
    for row in () if by_program else applied.new_rows:
        one = run.rows[row]
        place = (int(one["first_log_offset"]), int(one["first_timestamp_ms"]))
        yield _PossibleSet(
            *place, run.topics[one["topic"]], int(one["partition"]), None, int(one["first_offset"])
        )


def _add(sets: OffsetSets, step: _PossibleSet, generation: int | None, *, recreated: bool) -> None:
    if not sets.waiting or step.at_ms >= sets.waiting[-1].since_ms + OCCASION_MS:
        sets.waiting.append(SetOccasion(step.at_ms, step.log_offset, generation))
    of_topic = sets.waiting[-1].ranges.setdefault(step.topic, {})
    before = of_topic.get(step.partition)
    first = SetRange(step.from_offset, step.to_offset, recreated)
    of_topic[step.partition] = first if before is None else before.up_to(step.to_offset, recreated)


def sets_due_ms(sets: OffsetSets) -> int | None:
    """When the first occasion is over; None without one."""
    return sets.waiting[0].since_ms + OCCASION_MS if sets.waiting else None


def take_occasions(sets: OffsetSets, at_ms: int) -> list[SetOccasion]:
    """Remove the occasions that are over at this moment."""
    over = list(takewhile(lambda one: one.since_ms + OCCASION_MS <= at_ms, sets.waiting))
    del sets.waiting[: len(over)]
    return over


def report_sets(snapshot: GroupSnapshot, occasion: SetOccasion, report: Report) -> None:
    """Report an occasion, unless the sets go on at a pace that was reported."""
    partitions = tuple(_partitions(occasion))
    if not partitions:
        return
    direction = _direction(partitions)
    before, pace = snapshot.sets.pace, _next_pace(snapshot.sets.pace, occasion, direction)
    snapshot.sets.pace = pace
    if pace.steady and before is not None and before.steady:
        return
    group = snapshot.group
    comparable = _comparable(partitions)
    moved = [abs(one.to_offset - one.from_offset) for one in comparable]
    report.emit(
        OffsetsSet(
            partitions=partitions,
            partition_count=len(partitions),
            direction=direction,
            offsets_moved=sum(moved) if moved else None,
            interval_ms=pace.gap_ms if pace.steady else None,
            requested_by=logged.requesters(report, logged.SETS),
        ),
        group_type=group.group_type,
        simple=group.simple,
        history=group.history,
        evidence=Evidence.INFERRED if group.simple else Evidence.LOG,
        severity=Severity.INFO if pace.steady else _severity(snapshot, comparable, report),
    )


def _severity(snapshot: GroupSnapshot, moves: list[_Moved], report: Report) -> Severity:
    """By the consequence; a group that had members before and matters is warned at least."""
    simple = snapshot.group.simple
    # Of a group that never had members it is inferred that somebody else has set them.
    found = severity_of_moves(moves, report.rules, most=Severity.WARN if simple else Severity.ERROR)
    matters = not simple and is_significant(snapshot, report.rules, report.timestamp_ms)
    return max(found, Severity.WARN if matters else Severity.INFO)


def _partitions(occasion: SetOccasion) -> Iterator[SetPartition]:
    """Without those that are in the end where they were."""
    for topic, ranges in sorted(occasion.ranges.items()):
        for partition, one in sorted(ranges.items()):
            if one.from_offset != one.to_offset:
                yield SetPartition(
                    topic=topic,
                    partition=partition,
                    from_offset=one.from_offset,
                    to_offset=one.to_offset,
                    topic_recreated=one.recreated,
                )


class _Moved(NamedTuple):
    from_offset: int
    to_offset: int


def _comparable(partitions: Iterable[SetPartition]) -> list[_Moved]:
    """Those of which both offsets count the same records."""
    return [
        _Moved(partition.from_offset, partition.to_offset)
        for partition in partitions
        if partition.from_offset is not None and not partition.topic_recreated
    ]


def _direction(partitions: Iterable[SetPartition]) -> SetDirection | None:
    found = {"forward" if one.to_offset > one.from_offset else "backward" for one in _comparable(partitions)}
    if len(found) > 1:
        return "mixed"
    if not found:
        return None
    return "forward" if "forward" in found else "backward"


def _next_pace(before: SetPace | None, occasion: SetOccasion, direction: SetDirection | None) -> SetPace:
    """The pace with this occasion: steady from the third one on, as long as nothing else changes."""
    first = SetPace(occasion.generation, occasion.since_ms, direction)
    if before is None or (before.generation, before.direction) != (occasion.generation, direction):
        return first
    gap_ms = max(1, occasion.since_ms - before.last_ms)
    if before.steady and before.gap_ms is not None:
        goes_on = gap_ms <= max(_LONGEST_GAP * before.gap_ms, _LEAST_GAP_MS)
        return first.at_pace(before.gap_ms, steady=True) if goes_on else first
    similar = (
        before.gap_ms is not None
        and gap_ms <= _SAME_PACE * before.gap_ms
        and before.gap_ms <= _SAME_PACE * gap_ms
    )
    return first.at_pace(gap_ms, steady=similar)
