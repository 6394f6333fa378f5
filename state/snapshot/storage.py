"""Snapshots as bytes: a byte for the version, then msgpack."""

from __future__ import annotations

from typing import Final

import msgspec

from groupreplay.codecs import Malformed, Skipped, Value, decode_key, decode_value, encode_key, encode_value
from groupreplay.state.snapshot import version_1
from groupreplay.state.snapshot.group_snapshot import GroupSnapshot
from groupreplay.state.snapshot.log_position import PendingRecord
from groupreplay.state.snapshot.observations import GroupRecord

VERSION: Final = 2

_DECODER: Final = msgspec.msgpack.Decoder(GroupSnapshot)
_ENCODER: Final = msgspec.msgpack.Encoder()


class SnapshotError(ValueError):
    """A snapshot that this release cannot read; names the version found and the versions it reads."""


def write(snapshot: GroupSnapshot) -> bytes:
    """The present version."""
    return bytes([VERSION]) + _ENCODER.encode(snapshot)


def read(blob: bytes) -> GroupSnapshot:
    """The inverse of ``write``, for older versions, too. Raises SnapshotError for others and for damaged bytes."""
    version = blob[0] if blob else None
    if version not in (VERSION, version_1.VERSION):
        found = "nothing" if version is None else version
        raise SnapshotError(
            f"snapshot version {found}, this release reads versions {version_1.VERSION} and {VERSION}"
        )
    body = memoryview(blob)[1:]
    try:
        return _DECODER.decode(body) if version == VERSION else version_1.read(body)
    except msgspec.DecodeError as error:
        raise SnapshotError(f"snapshot of version {version} is damaged: {error}") from error


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
