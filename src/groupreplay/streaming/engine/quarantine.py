"""Sets a key aside when its call raises an exception, or its state is damaged: one group cannot stop the others.

The stored state of a quarantined key is a note in place of the snapshot. Its first byte is no version of a snapshot, so
an earlier release refuses it instead of reading it wrong.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from groupreplay.codecs import decode_key
from groupreplay.state.events.event import Cause, Event, Fact, History
from groupreplay.state.events.group_events import GroupQuarantined, GroupStateDamaged, QuarantinedState
from groupreplay.state.job.bad_records import BadRecord
from groupreplay.state.policy.context import OFFSETS_TOPIC, Context
from groupreplay.state.snapshot.observations import CommitRun, GroupRecord
from groupreplay.state.stored_form import DamagedStateError, StoredForm
from groupreplay.streaming.contract.messages import OutputRow
from groupreplay.streaming.engine.json_messages import commits_letter_row, dead_letter_row, event_row
from groupreplay.streaming.engine.packing.pack import KEPT_BYTES
from groupreplay.streaming.engine.wire import (
    BAD_RECORDS_TAG,
    GROUP_TAG,
    BadRecordBytes,
    PackedGroup,
    PackedRun,
    packed_groups,
    unpack_bad_records,
)

log = logging.getLogger(__name__)

#: Not only its name: other packages may lie in a folder of that name.
_PACKAGE: Final = Path(__file__).parents[2]
_REASON: Final = "the group is quarantined: "


class Quarantined(msgspec.Struct, array_like=True):
    """Why a key was set aside, and what came for it since.

    ``release`` is the one that failed; empty for a state that was damaged, which the next records begin anew.
    ``records`` counts records and commits that were not applied, ``last_offset`` is the last of them.
    """

    release: str
    retry_run: str | None
    error: str
    place: str
    partition: int
    last_offset: int
    records: int

    def is_due(self, context: Context) -> bool:
        """Whether this run tries the key again: another release, a run that was asked to, any after damage."""
        return (
            not self.release
            or self.release != context.release
            or context.retry_run not in (None, self.retry_run)
        )

    def note(self, packed: Sequence[bytes]) -> None:
        """Counts what is not applied."""
        for group in _readable_groups(packed):
            for partition, first, last, records in _extents(group):
                self.partition = partition
                self.records += records if first > self.last_offset else 0
                self.last_offset = max(self.last_offset, last)


#: A field that is added to the note raises ``reader``, unless an earlier release may lose it.
FORM: Final = StoredForm[Quarantined]("quarantine note", version=0xF0, reader=1, kind=Quarantined)


def read(blob: bytes | None) -> Quarantined | None:
    """The note of a quarantined key; None for every other state.

    Raises:
        DamagedStateError: it is damaged.
        SnapshotError: a later release wrote it.
    """
    return FORM.read(blob) if blob and blob[0] == FORM.version else None


def write(note: Quarantined) -> bytes:
    """The inverse of ``read``."""
    return FORM.write(note)


def set_aside(
    key: bytes,
    packed: Sequence[bytes],
    error: Exception,
    applying: CommitRun | GroupRecord | None,
    recorded_ms: int | None,
    now_ms: int,
    context: Context,
) -> tuple[bytes, list[OutputRow]]:
    """The note to store, the event, and the records of this call as dead letters."""
    place = _place(error)
    partition, offset, time_ms = _position(applying, packed)
    note = Quarantined(context.release, context.retry_run, type(error).__name__, place, -1, -1, 0)
    note.note(packed)
    letters = list(_letters(key, packed, f"{_REASON}{note.error} in {place}", context))
    log.error("key %r is quarantined: %s in %s", key[:100], note.error, place)
    fact = GroupQuarantined(
        what=_what(key),
        error=note.error,
        raised_in=place,
        partition=partition,
        offset=offset,
        records=len(letters),
        release=context.release,
    )
    at_ms = time_ms if time_ms is not None else now_ms if recorded_ms is None else recorded_ms
    event = _event(key, fact, partition, offset, at_ms)
    return write(note), [event_row(event, context, recorded_ms), *letters]


def begin_anew(
    key: bytes,
    packed: Sequence[bytes],
    error: DamagedStateError,
    recorded_ms: int | None,
    now_ms: int,
    context: Context,
) -> tuple[bytes, OutputRow]:
    """The note to store in place of a damaged state, with which the next records begin a new one, and the event."""
    log.warning(
        "the stored state of %s %r is damaged and begins anew with its next records, its history is partial: %s; "
        "check the disk of the checkpoint (a new --checkpoint builds all states anew from the log)",
        _what(key),
        key[len(GROUP_TAG) :][:100].decode("utf-8", "replace"),
        error,
    )
    fact = GroupStateDamaged(what=_what(key), damage=str(error))
    partition, offset, time_ms = _position(None, packed)
    at_ms = time_ms if time_ms is not None else now_ms if recorded_ms is None else recorded_ms
    note = Quarantined("", None, type(error).__name__, _place(error), -1, -1, 0)
    return write(note), event_row(_event(key, fact, partition, offset, at_ms), context, recorded_ms)


def _event(key: bytes, fact: Fact, partition: int | None, offset: int | None, at_ms: int) -> Event:
    cause = None
    if partition is not None and offset is not None:
        cause = Cause(topic=OFFSETS_TOPIC, partition=partition, offset=offset, timestamp_ms=at_ms)
    return Event(
        fact=fact,
        group_id=key[len(GROUP_TAG) :].decode() if key.startswith(GROUP_TAG) else None,
        time_ms=max(0, at_ms),
        history=History.PARTIAL,
        cause=cause,
    )


def _what(key: bytes) -> QuarantinedState:
    if key.startswith(GROUP_TAG):
        return "group"
    return "bad_records" if key.startswith(BAD_RECORDS_TAG) else "job"


def _place(error: Exception) -> str:
    """Module, line and function of the package's innermost frame; never a value."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [one for one in frames if _PACKAGE in Path(one.filename).parents]
    frame = (ours or frames)[-1]
    file = Path(frame.filename)
    module = file.relative_to(_PACKAGE).as_posix() if ours else file.name
    return f"{module}:{frame.lineno} {frame.name}"


def _position(
    applying: CommitRun | GroupRecord | None, packed: Sequence[bytes]
) -> tuple[int | None, int | None, int | None]:
    """Partition, offset and time of the record being applied, else of the first of the call."""
    if isinstance(applying, CommitRun):
        return applying.partition, applying.extent.first_offset, applying.extent.first_ms
    if applying is not None:
        return applying.partition, applying.offset, applying.timestamp_ms
    for group in _readable_groups(packed):
        for item in group.items:
            if isinstance(item, PackedRun):
                return group.partition, item.extent.first_offset, item.extent.first_ms
            return group.partition, item.offset, item.timestamp_ms
    return None, None, None


def _readable_groups(packed: Sequence[bytes]) -> list[PackedGroup]:
    try:
        return packed_groups(packed)
    except msgspec.MsgspecError:
        return []


def _extents(group: PackedGroup) -> Iterator[tuple[int, int, int, int]]:
    """Partition, first offset, last offset and number of records of each item."""
    for item in group.items:
        if isinstance(item, PackedRun):
            yield group.partition, item.extent.first_offset, item.extent.last_offset, item.extent.commits
        else:
            yield group.partition, item.offset, item.offset, 1


def _letters(key: bytes, packed: Sequence[bytes], reason: str, context: Context) -> Iterator[OutputRow]:
    """Each record with its bytes, each run of commits as its range of offsets."""
    if key.startswith(BAD_RECORDS_TAG):
        yield from (dead_letter_row(one, context) for one in unpack_bad_records(packed) if one.is_dead_letter)
        return
    group_id = key[len(GROUP_TAG) :].decode() if key.startswith(GROUP_TAG) else None
    for group in _readable_groups(packed):
        for item in group.items:
            if isinstance(item, PackedRun):
                first = _bad_record(
                    group, group_id, item.extent.first_offset, item.extent.first_ms, None, reason
                )
                yield commits_letter_row(first, item.extent, context)
            else:
                key_type = getattr(decode_key(item.key), "KEY_TYPE", None)
                record = _bad_record(group, group_id, item.offset, item.timestamp_ms, key_type, reason)
                yield dead_letter_row(
                    BadRecordBytes.of(record, item.key, item.value, KEPT_BYTES[record.kind]), context
                )


def _bad_record(
    group: PackedGroup,
    group_id: str | None,
    offset: int,
    timestamp_ms: int,
    key_type: int | None,
    reason: str,
) -> BadRecord:
    return BadRecord(
        partition=group.partition,
        offset=offset,
        timestamp_ms=timestamp_ms,
        group=group_id,
        kind="quarantined",
        key_type=key_type,
        version=None,
        field=None,
        byte_position=None,
        reason=reason,
    )
