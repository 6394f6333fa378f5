"""Applies runs of commits to the offsets, and reports what was more than progress when its occasion is over."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from groupreplay.state.replay.offset_changes import deletions, losses, sets

if TYPE_CHECKING:
    from groupreplay.state.events.event import Event
    from groupreplay.state.policy.context import Context
    from groupreplay.state.replay.report import Report
    from groupreplay.state.snapshot.group_snapshot import GroupSnapshot
    from groupreplay.state.snapshot.observations import CommitRun, DeletedTopics
    from groupreplay.state.snapshot.offsets import Applied, Offsets

#: Makes the report whose cause is the record of this offset and time.
ReportAt: TypeAlias = "Callable[[int, int], Report]"


def apply_commits(snapshot: GroupSnapshot, offsets: Offsets, run: CommitRun, context: Context) -> Applied:
    """Apply the commits, and hold what is more than progress."""
    from_outside = sets.takes_sets(snapshot, run.first_ms, context)
    steps_from = sets.emptied_at(snapshot.group) if from_outside else None
    applied = offsets.apply(run, snapshot.group.epoch, steps_from=steps_from)
    if from_outside and (len(applied.steps) or len(run.steps) or applied.new_rows):
        sets.hold_sets(snapshot, run, applied)
    if snapshot.losses.lost or (not from_outside and (applied.fallen or len(run.steps))):
        losses.hold_changes(snapshot, run, applied, rewinds=not from_outside)
    return applied


def due_ms(snapshot: GroupSnapshot) -> int | None:
    """When the next occasion is over; None without one."""
    held = snapshot.losses
    due = (losses.due_ms(held), deletions.due_ms(held), sets.due_ms(snapshot.sets))
    return min((one for one in due if one is not None), default=None)


def report_over(snapshot: GroupSnapshot, at_ms: int, report_at: ReportAt) -> list[Event]:
    """Report the occasions that are over at this moment."""
    events: list[Event] = []
    for unclear in deletions.take_over(snapshot.losses, at_ms):
        report = report_at(unclear.log_offset, unclear.at_ms)
        deletions.report_deletion(snapshot, unclear, confirmed=False, report=report)
        events += report.events
    for changes in losses.take_occasions(snapshot, at_ms):
        report = report_at(changes[0].log_offset, changes[0].timestamp_ms)
        losses.report_changes(snapshot, changes, report)
        events += report.events
    for occasion in sets.take_occasions(snapshot.sets, at_ms):
        report = report_at(occasion.log_offset, occasion.since_ms)
        sets.report_sets(snapshot, occasion, report)
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
    for unclear in deletions.take_answered(snapshot.losses, answer.topics, answer.taken_ms):
        report = report_at(unclear.log_offset, unclear.at_ms)
        deletions.report_deletion(snapshot, unclear, confirmed=True, report=report)
        events += report.events
    return events
