"""Records that belong to one operation of the coordinator, of classic groups and of the newer kinds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from groupreplay.codecs import GroupMetadataKey, GroupMetadataValue, LegacyOffsetCommitKey, OffsetCommitKey
from groupreplay.codecs.kafka_terms import GroupType, Phase
from groupreplay.state.events.event import Event, History
from groupreplay.state.replay import classic
from groupreplay.state.replay.generation_diff import MembershipChange
from groupreplay.state.replay.group_summary import GroupSummary, is_significant, note_members, summarize
from groupreplay.state.replay.modern_diff import ModernDiff
from groupreplay.state.replay.offset_losses import report_tombstones
from groupreplay.state.replay.report import DiscardingReport, Report
from groupreplay.state.replay.slot_history import learn, session_settings
from groupreplay.state.snapshot import modern
from groupreplay.state.snapshot.group_snapshot import GroupSnapshot
from groupreplay.state.snapshot.group_state import GroupState
from groupreplay.state.snapshot.members import pair
from groupreplay.state.snapshot.modern import Modern
from groupreplay.state.snapshot.observations import GroupRecord
from groupreplay.state.snapshot.offsets import Offsets

#: Key types whose tombstone deletes a group: classic, consumer, share, streams.
_GROUP_KEY_TYPES: Final = (2, 3, 11, 17)

_ReportOf = Callable[[GroupRecord], Report]


def apply_operation(
    snapshot: GroupSnapshot, offsets: Offsets, records: Sequence[GroupRecord], report_of: _ReportOf
) -> list[Event]:
    """Apply the records; ``report_of`` makes the report whose cause is a record."""
    keys = [
        record.key for record in records if isinstance(record.key, OffsetCommitKey | LegacyOffsetCommitKey)
    ]
    deleted = [(key.topic, key.partition) for key in keys]
    events = _delete_offsets(snapshot, offsets, deleted, records, report_of(records[0])) if deleted else []
    group_records = [
        record for record in records if not isinstance(record.key, OffsetCommitKey | LegacyOffsetCommitKey)
    ]
    if group_records:
        events += _apply_group_records(snapshot, offsets, group_records, report_of)
        note_members(snapshot, group_records[-1].timestamp_ms)
    return events


def _delete_offsets(
    snapshot: GroupSnapshot,
    offsets: Offsets,
    deleted: Sequence[tuple[str, int]],
    records: Sequence[GroupRecord],
    report: Report,
) -> list[Event]:
    """Apply the offset tombstones, which an operation writes before the group's own."""
    with_group = any(record.value is None and record.key.KEY_TYPE in _GROUP_KEY_TYPES for record in records)
    significant = is_significant(snapshot, report.rules, report.timestamp_ms)
    report_tombstones(snapshot, offsets, deleted, with_group, report)
    offsets.remove(deleted)
    if with_group and not significant:
        # Short-lived groups, of which there may be thousands, leave nothing in the state.
        snapshot.losses.lost = ()
    return report.events


def _apply_group_records(
    snapshot: GroupSnapshot, offsets: Offsets, records: Sequence[GroupRecord], report_of: _ReportOf
) -> list[Event]:
    if _is_modern(snapshot, records):
        report = report_of(records[-1])
        learn(snapshot, _apply_modern(snapshot, records, offsets, report), report)
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


#: A new group's first epoch: 1, and since 4.3 2.
_FIRST_EPOCHS: Final = (1, 2)


def _is_modern(snapshot: GroupSnapshot, records: Sequence[GroupRecord]) -> bool:
    """Whether an operation concerns a group of the newer kinds, or a conversion from or to one."""
    return snapshot.group.group_type is not GroupType.CLASSIC or any(
        record.key.KEY_TYPE in modern.RECORDS for record in records
    )


def _apply_modern(
    snapshot: GroupSnapshot, records: Sequence[GroupRecord], offsets: Offsets, report: Report
) -> MembershipChange:
    """Apply an operation's records, in log order, and report what it changed."""
    before, history = summarize(snapshot.group), snapshot.group.history
    session = session_settings(snapshot, report.context, report.group_id)
    epochs = [before.epoch]
    strange = False
    for record in records:
        known = snapshot.group.modern
        strange |= known is not None and modern.is_strange(known, record.key, record.value)
        _apply_record(snapshot, record, offsets, report)
        known = snapshot.group.modern
        if known is not None and modern.group_epoch(known) != epochs[-1]:
            epochs.append(modern.group_epoch(known))
    if snapshot.group.modern is not None and not snapshot.group.modern.exists:
        classic.forget(snapshot)
    group = snapshot.group
    after = summarize(group)
    if before.state != after.state or before.kind != after.kind:
        group.since_ms = report.timestamp_ms
    group.history, comparable = _continuity(history, group.modern, before, after, epochs)
    if strange:
        group.history, comparable = History.PARTIAL, False
    group.record_offset, group.record_timestamp_ms = report.offset, report.timestamp_ms
    pairing = pair(before.members, after.members)
    change = ModernDiff(
        group, before, after, pairing, comparable, offsets, report, session, snapshot.slot_history
    ).emit_all()
    if not after.exists:
        group.history = History.PARTIAL
    return change


def _apply_record(snapshot: GroupSnapshot, record: GroupRecord, offsets: Offsets, report: Report) -> None:
    """Apply one record, leniently: the newest value decides the kind, tombstones of another kind are ignored."""
    if isinstance(record.key, GroupMetadataKey):
        if isinstance(record.value, GroupMetadataValue):
            if snapshot.group.group_type is not GroupType.CLASSIC:
                classic.forget(snapshot)
            discarding = DiscardingReport(
                report.group_id, report.context, report.partition, record.offset, record.timestamp_ms
            )
            classic.apply_value(snapshot, record.value, offsets, discarding)
        elif snapshot.group.group_type is GroupType.CLASSIC:
            classic.forget(snapshot)
        return
    kind = modern.RECORDS[record.key.KEY_TYPE][0]
    if record.value is not None and (snapshot.group.group_type is not kind or snapshot.group.modern is None):
        history = snapshot.group.history
        snapshot.group = GroupState(group_type=kind, modern=Modern(), history=history, phase=Phase.EMPTY)
    group = snapshot.group
    if group.group_type is kind and group.modern is not None:
        modern.apply_record(group.modern, record.key, record.value, record.timestamp_ms)


def _continuity(
    history: History,
    group: Modern | None,
    before: GroupSummary,
    after: GroupSummary,
    epochs: Sequence[int | None],
) -> tuple[History, bool]:
    """The history from here on, and whether the members before and after may be compared.

    The log cleaner leaves single records of old operations, so that the state between them may never have existed.
    """
    full = history is History.FULL
    if not before.proven:
        first = _is_first(group, after)
        return (History.FULL if first else History.PARTIAL), first
    if after.exists and before.kind is not after.kind:
        # A conversion writes every member again; a classic record holds the whole group at any time.
        return History.FULL, full or before.kind is GroupType.CLASSIC
    steps = [new - old for old, new in pairwise(epochs) if old is not None and new is not None]
    if any(step > 1 for step in steps):
        # The coordinator writes every epoch.
        return History.PARTIAL, False
    return (History.FULL, True) if 1 in steps else (history, full)


def _is_first(group: Modern | None, after: GroupSummary) -> bool:
    """Whether this is the first operation of a group and complete: one member of its own kind at a first epoch.

    More members, or one without a description, come from a conversion or from operations that were compacted.
    """
    if group is None or after.epoch not in _FIRST_EPOCHS or len(group.members) != 1:
        return False
    return all(
        member.described and member.classic_session_timeout_ms is None for member in group.members.values()
    )
