"""Applies one broker operation: records with adjacent offsets and one timestamp, after its last one was read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from groupreplay.codecs import GroupMetadataValue, LegacyOffsetCommitKey, OffsetCommitKey
from groupreplay.state.events.event import Event
from groupreplay.state.replay import classic, group_activity, modern_operation
from groupreplay.state.replay.membership_change import MembershipChange
from groupreplay.state.replay.offset_changes import losses
from groupreplay.state.replay.report import Report
from groupreplay.state.replay.slot_history import learn
from groupreplay.state.snapshot.group_snapshot import GroupSnapshot
from groupreplay.state.snapshot.observations import GroupRecord
from groupreplay.state.snapshot.offsets import Offsets

#: Key types whose tombstone deletes a group: classic, consumer, share, streams.
_GROUP_KEY_TYPES: Final = (2, 3, 11, 17)

_ReportOf = Callable[[GroupRecord], Report]


def apply_operation(
    snapshot: GroupSnapshot, offsets: Offsets, records: Sequence[GroupRecord], report_of: _ReportOf
) -> list[Event]:
    """Apply the records; ``report_of`` makes the report whose cause is a record."""
    keys = [one.key for one in records if isinstance(one.key, OffsetCommitKey | LegacyOffsetCommitKey)]
    deleted = [(key.topic, key.partition) for key in keys]
    events = _delete_offsets(snapshot, offsets, deleted, records, report_of(records[0])) if deleted else []
    group_records = [
        one for one in records if not isinstance(one.key, OffsetCommitKey | LegacyOffsetCommitKey)
    ]
    if group_records:
        events += _apply_group_records(snapshot, offsets, group_records, report_of)
        group_activity.note_members(snapshot, group_records[-1].timestamp_ms)
    return events


def _delete_offsets(
    snapshot: GroupSnapshot,
    offsets: Offsets,
    deleted: Sequence[tuple[str, int]],
    records: Sequence[GroupRecord],
    report: Report,
) -> list[Event]:
    """Apply the offset tombstones, which an operation writes before the group's own."""
    with_group = any(one.value is None and one.key.KEY_TYPE in _GROUP_KEY_TYPES for one in records)
    significant = group_activity.is_significant(snapshot, report.rules, report.timestamp_ms)
    losses.report_tombstones(snapshot, offsets, deleted, with_group, report)
    offsets.remove(deleted)
    if with_group and not significant:
        # Short-lived groups, of which there may be thousands, leave nothing in the state.
        snapshot.losses.lost = ()
    return report.events


def _apply_group_records(
    snapshot: GroupSnapshot, offsets: Offsets, records: Sequence[GroupRecord], report_of: _ReportOf
) -> list[Event]:
    if modern_operation.is_modern(snapshot, records):
        report = report_of(records[-1])
        learn(snapshot, modern_operation.apply(snapshot, records, offsets, report), report)
        return report.events
    events: list[Event] = []
    for record in records:
        report, change = report_of(record), MembershipChange()
        if isinstance(record.value, GroupMetadataValue):
            change = classic.apply_value(snapshot, record.value, offsets, report)
        else:
            classic.apply_tombstone(snapshot, report)
        learn(snapshot, change, report)
        events += report.events
    return events
