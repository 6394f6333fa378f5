"""One call for one key, without Spark: restores the state, applies records and deadlines, returns the messages."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from groupreplay.state import Group
from groupreplay.state.events.event import Event
from groupreplay.state.job.bad_records import BadRecords
from groupreplay.state.job_watch import JobWatch
from groupreplay.state.policy.context import Context
from groupreplay.state.snapshot import group_snapshot
from groupreplay.state.snapshot.observations import CommitRun, GroupRecord, Observations
from groupreplay.state.stored_form import DamagedStateError, SnapshotError
from groupreplay.streaming.contract.messages import OutputRow
from groupreplay.streaming.engine import quarantine
from groupreplay.streaming.engine.json_messages import (
    bad_records_row,
    conditions_row,
    dead_letter_row,
    event_row,
    job_state_row,
    state_row,
)
from groupreplay.streaming.engine.wire import (
    BAD_RECORDS_TAG,
    DOCUMENT_REQUESTS,
    DOCUMENT_WANTED,
    GROUP_TAG,
    JOB_TAG,
    unpack_bad_records,
    unpack_group,
    unpack_job,
)

log = logging.getLogger(__name__)

#: The driver gets the job's state with every change of a condition, and at least once in this time of heartbeats.
_JOB_STATE_MS: Final = 600_000
#: A larger state is not written: a broker would refuse the message. It takes thousands of silent partitions.
_MOST_STATE_BYTES: Final = 512 * 1024
#: A row of Spark's state ends at 2 GiB, and the JVM holds several copies of it. It takes four million partitions.
_MOST_BLOB_BYTES: Final = 256 << 20


class StateTooLargeError(Exception):
    """A state that may be more than Spark can store: the group is quarantined, as for any exception of its call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvanceResult:
    """The outcome of one call.

    ``blob`` is the state to keep (None: there never was one); ``changed``: it must be written; ``removable``: it may
    be removed; ``deadline_ms``: the latest time of the next call.
    """

    blob: bytes | None
    changed: bool = False
    removable: bool = False
    deadline_ms: int | None = None
    rows: list[OutputRow]


def advance(
    key: bytes,
    blob: bytes | None,
    packed: Sequence[bytes],
    *,
    now_ms: int,
    recorded_ms: int | None,
    context: Context,
) -> AdvanceResult:
    """Applies the output of ``pack`` for one tagged key to the state ``blob``; pure.

    Deadlines up to ``now_ms`` take effect; 0 for none. ``recorded_ms`` is the time of emission in the events; None
    stands for the time of each event. An exception quarantines the key, and a damaged blob begins its state anew (see
    ``quarantine``).

    Raises:
        SnapshotError: the blob was written by a release that this one cannot read.
        MemoryError, OSError: this machine's fault; the task fails and is tried again.
    """
    try:
        return _advance_or_set_aside(key, blob, packed, now_ms, recorded_ms, context)
    except DamagedStateError as error:
        note, row = quarantine.begin_anew(key, packed, error, recorded_ms, now_ms, context)
    result = _advance_or_set_aside(key, note, packed, now_ms, recorded_ms, context)
    return replace(result, changed=True, rows=[row, *result.rows])


def _advance_or_set_aside(
    key: bytes,
    blob: bytes | None,
    packed: Sequence[bytes],
    now_ms: int,
    recorded_ms: int | None,
    context: Context,
) -> AdvanceResult:
    held = quarantine.read(blob)
    if held is not None:
        # A request for the document is no reason to begin again: an empty state would say that the group is deleted.
        if DOCUMENT_REQUESTS.issuperset(packed) or not held.is_due(context):
            held.note(packed)
            return AdvanceResult(blob=quarantine.write(held), changed=bool(packed), rows=[])
        blob = group_snapshot.begun_anew(context.era) if key.startswith(GROUP_TAG) else None
    applying = _Applying()
    try:
        result = _advance(key, blob, packed, now_ms, recorded_ms, context, applying)
    except (MemoryError, OSError):
        raise
    except Exception as error:
        # Of a state that this call has begun it is a defect like any other.
        if isinstance(error, SnapshotError) and blob is not None and held is None:
            raise
        blob, rows = quarantine.set_aside(key, packed, error, applying.item, recorded_ms, now_ms, context)
        return AdvanceResult(blob=blob, changed=True, rows=rows)
    return result if held is None else replace(result, changed=True)


@dataclass(slots=True)
class _Applying:
    """The group whose call is under way, to name the record that raised an exception."""

    group: Group | None = None

    @property
    def item(self) -> CommitRun | GroupRecord | None:
        """The record or run of commits that it was applying."""
        return None if self.group is None else self.group.applying


def _advance(
    key: bytes,
    blob: bytes | None,
    packed: Sequence[bytes],
    now_ms: int,
    recorded_ms: int | None,
    context: Context,
    applying: _Applying,
) -> AdvanceResult:
    if key.startswith(GROUP_TAG):
        group_id = key[len(GROUP_TAG) :].decode()
        group = Group(group_id, context) if blob is None else Group.from_snapshot(group_id, context, blob)
        applying.group = group
        return _advance_group(group, blob, packed, now_ms, recorded_ms, context)
    if key.startswith(BAD_RECORDS_TAG):
        partition = int(key[len(BAD_RECORDS_TAG) :])
        return _advance_bad_records(partition, blob, packed, recorded_ms, context)
    if key == JOB_TAG:
        return _advance_job(blob, packed, recorded_ms, context)
    return AdvanceResult(blob=blob, rows=[])


def _advance_group(
    group: Group,
    blob: bytes | None,
    packed: Sequence[bytes],
    now_ms: int,
    recorded_ms: int | None,
    context: Context,
) -> AdvanceResult:
    events: list[Event] = []
    if packed:
        observations = unpack_group(packed)
        if observations.whole is not None and group.lacks(observations.whole[0]):
            group = rebuilt(group.group_id, context, observations.whole[1])
            log.warning(
                "the state of group %r, which was damaged, is built anew from the log", group.group_id[:100]
            )
        events = group.apply(observations, now_ms, recorded_ms)
        # The driver asks only when the log has been read to its end once: before, a group may merely be unread.
        if observations.in_topic is not None and now_ms > 0:
            group.note_topic(in_topic=observations.in_topic)
    else:
        events = group.expire(now_ms, recorded_ms)
    rows = _event_rows(events, recorded_ms, context)
    document = group.take_document()
    if document is not None:
        rows.append(state_row(group.group_id, document, context))
    # After take_document: the snapshot holds the digest of the last document that was taken.
    return AdvanceResult(
        blob=_snapshot(group) if group.changed else blob,
        changed=group.changed,
        removable=group.gone,
        deadline_ms=group.next_deadline_ms(),
        rows=rows,
    )


def _snapshot(group: Group) -> bytes:
    blob = group.snapshot()
    if len(blob) > _MOST_BLOB_BYTES:
        log.error(
            "the state of group %r has %d bytes, more than Spark is given", group.group_id[:100], len(blob)
        )
        raise StateTooLargeError
    return blob


def rebuilt(group_id: str, context: Context, records: Observations) -> Group:
    """The group after all records that the log holds of it, which may have been compacted; no event is emitted."""
    lost = group_snapshot.GroupSnapshot(group_snapshot.LogPosition(era=context.era, begun_anew=True))
    read = Group(group_id, context, lost)
    read.apply(records, 0)
    # What waits for the end of the last record's timestamp.
    read.expire(lost.log.last_timestamp_ms + 1)
    lost.log.begun_anew = False
    group = Group.from_snapshot(group_id, context, read.snapshot())
    group.changed = True
    return group


def _event_rows(events: Sequence[Event], recorded_ms: int | None, context: Context) -> list[OutputRow]:
    """The messages of the events, but for those that another job has written."""
    return [
        event_row(event, context, recorded_ms) for event in events if event.time_ms >= context.told_until_ms
    ]


def _advance_bad_records(
    partition: int, blob: bytes | None, packed: Sequence[bytes], recorded_ms: int | None, context: Context
) -> AdvanceResult:
    bad = (
        BadRecords(partition, context) if blob is None else BadRecords.from_snapshot(partition, context, blob)
    )
    new = [one for one in unpack_bad_records(packed) if one.record.offset > bad.applied_to]
    rows = _event_rows(bad.apply([one.record for one in new]), recorded_ms, context)
    rows += [dead_letter_row(one, context) for one in new if one.is_dead_letter]
    if new or DOCUMENT_WANTED in packed:
        rows.append(bad_records_row(partition, bad.counts(), context))
    return AdvanceResult(blob=bad.snapshot() if bad.changed else blob, changed=bad.changed, rows=rows)


def _advance_job(
    blob: bytes | None, packed: Sequence[bytes], recorded_ms: int | None, context: Context
) -> AdvanceResult:
    watch = JobWatch(context) if blob is None else JobWatch.from_snapshot(context, blob)
    before_ms = watch.heartbeat_ms
    rows = _event_rows(watch.apply(unpack_job(packed), recorded_ms), recorded_ms, context)
    is_news = bool(rows) or DOCUMENT_WANTED in packed
    if is_news:
        rows.append(conditions_row(watch.conditions(), context))
    if is_news or before_ms // _JOB_STATE_MS != watch.heartbeat_ms // _JOB_STATE_MS:
        state = watch.snapshot_for_driver()
        rows += [job_state_row(state, context)] if len(state) <= _MOST_STATE_BYTES else []
    return AdvanceResult(blob=watch.snapshot() if watch.changed else blob, changed=watch.changed, rows=rows)
