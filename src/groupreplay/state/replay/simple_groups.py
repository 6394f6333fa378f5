"""Groups that exist by their offsets alone: such a group begins with a commit, and ends with its last offset."""

from __future__ import annotations

from typing import Final

from groupreplay.codecs.kafka_terms import GroupType, Phase
from groupreplay.state.events.event import Evidence, History
from groupreplay.state.events.group_events import GroupCreated, GroupDeleted
from groupreplay.state.policy.context import Context
from groupreplay.state.replay.classic import forget
from groupreplay.state.replay.phases import NEXT, Observed, TransitionEvent
from groupreplay.state.replay.report import Report
from groupreplay.state.snapshot.group_snapshot import GroupSnapshot
from groupreplay.state.snapshot.group_state import GroupState
from groupreplay.state.snapshot.offsets import Offsets

#: Clean-ups of the broker after which a tombstone that is not there was never written: a coordinator that has just
#: moved begins the interval between two of them anew.
_CLEAN_UPS: Final = 2


def apply_commit(group: GroupState, report: Report) -> bool:
    """An offset commit; one of an unknown group makes a simple group (``OffsetMetadataManager.replay``).

    Returns whether the group's state is another one now.
    """
    before = group.phase
    group.phase, event = NEXT[before][Observed.COMMIT]
    if event is TransitionEvent.CREATED:
        group.history = History.FULL if report.context.is_complete(report.timestamp_ms) else History.PARTIAL
        group.since_ms = report.timestamp_ms
        if group.history is History.FULL:
            fact = GroupCreated(generation=None, since_ms=report.timestamp_ms)
            report.emit(fact, group_type=GroupType.CLASSIC, history=History.FULL, simple=True)
    return group.phase is not before


def nothing_left_ms(snapshot: GroupSnapshot, offsets: Offsets, context: Context) -> int | None:
    """When a simple group whose last offset was removed counts as deleted; None for every other group.

    The coordinator in Scala deletes a group with its last offset, and writes no tombstone of a group that never had a
    generation (``GroupMetadataManager.cleanupGroupMetadata``). The present one writes it with the offsets', or, where a
    request or the deletion of a topic removed them, at the next clean-up.
    """
    group, last_ms = snapshot.group, snapshot.log.last_timestamp_ms
    exists_by_offsets = (
        group.phase is Phase.EMPTY
        and group.group_type is GroupType.CLASSIC
        and group.classic.generation is None
        and group.in_progress is None
        # Of a log that was created again nothing was read yet.
        and snapshot.log.last_offset >= 0
    )
    if len(offsets) or not exists_by_offsets:
        return None
    return last_ms + _CLEAN_UPS * context.assumed_check_interval_ms


def apply_nothing_left(snapshot: GroupSnapshot, report: Report) -> None:
    """The time of ``nothing_left_ms`` has come; the report's cause is the record that removed the last offset."""
    group = snapshot.group
    _, event = NEXT[group.phase][Observed.NOTHING_LEFT]
    if event is TransitionEvent.DELETED:
        since_ms = report.timestamp_ms if report.cause_ms is None else report.cause_ms
        report.emit(
            GroupDeleted(generation=None, since_ms=since_ms, assumed=report.context.assumed_check_interval),
            group_type=group.group_type,
            history=group.history,
            simple=True,
            evidence=Evidence.INFERRED,
        )
    forget(snapshot)
