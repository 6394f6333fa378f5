"""Snapshots of groups as bytes (``stored_form``), and records as they are kept while their operation is open."""

from __future__ import annotations

from typing import Final

from groupreplay.codecs import Malformed, Skipped, Value, decode_key, decode_value, encode_key, encode_value
from groupreplay.state.snapshot.group_snapshot import GroupSnapshot
from groupreplay.state.snapshot.log_position import PendingRecord
from groupreplay.state.snapshot.observations import GroupRecord
from groupreplay.state.stored_form import SnapshotError, StoredForm

#: A field that is added to any struct of the snapshot raises ``reader``, unless an earlier release may lose it.
FORM: Final = StoredForm[GroupSnapshot]("snapshot", version=1, reader=1, kind=GroupSnapshot)


def write(snapshot: GroupSnapshot) -> bytes:
    """The present version."""
    return FORM.write(snapshot)


def read(blob: bytes) -> GroupSnapshot:
    """The inverse of ``write``. Raises SnapshotError for another version and for damaged bytes."""
    return FORM.read(blob)


def pend(record: GroupRecord) -> PendingRecord:
    """A record as it is kept while its operation is open."""
    value = None if record.value is None else encode_value(record.value)
    return PendingRecord(record.offset, record.timestamp_ms, encode_key(record.key), value)


def unpend(pending: PendingRecord, partition: int) -> GroupRecord:
    """The inverse of ``pend``. Raises SnapshotError when the bytes cannot be read any more."""
    key = decode_key(pending.key)
    if isinstance(key, Skipped | Malformed):
        raise SnapshotError(f"pending record at offset {pending.offset} has an unreadable key: {key}")
    value: Value | Skipped | Malformed | None = decode_value(key, pending.value)
    if isinstance(value, Skipped | Malformed):
        raise SnapshotError(f"pending record at offset {pending.offset} has an unreadable value: {value}")
    return GroupRecord(
        partition=partition, offset=pending.offset, timestamp_ms=pending.timestamp_ms, key=key, value=value
    )
