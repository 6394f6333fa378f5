"""What is written about a record that could not be used: one JSON document each.

Knows the fields of a dead letter (docs/events.md); must not know why a record is bad.
"""

from __future__ import annotations

from base64 import b64encode

import msgspec

from groupreplay.state.policy.context import OFFSETS_TOPIC, Context
from groupreplay.streaming.engine.wire import BadRecordBytes

#: Codec errors quote a few bytes at most; this bounds what a future one might quote.
_REASON_LIMIT = 1_000


def dead_letter_key(bad: BadRecordBytes) -> bytes:
    """``topic-partition-offset``: a repeat replaces itself for whoever drops repeats by key."""
    return f"{OFFSETS_TOPIC}-{bad.record.partition}-{bad.record.offset}".encode()


def dead_letter(bad: BadRecordBytes, context: Context) -> bytes:
    """The document: ``*_base64`` has the first bytes (64 KiB at most), length and sha256 tell of all."""
    record = bad.record
    return msgspec.json.encode(
        {
            "cluster_id": context.cluster_id,
            "topic": OFFSETS_TOPIC,
            "era": context.era,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp_ms": record.timestamp_ms,
            "kind": record.kind,
            "key_type": record.key_type,
            "version": record.version,
            "field": record.field and record.field[:_REASON_LIMIT],
            "byte_position": record.byte_position,
            "reason": record.reason[:_REASON_LIMIT],
            "key_length": bad.key_length,
            "key_sha256": bad.key_sha256,
            "key_base64": _base64(bad.key),
            "value_length": bad.value_length,
            "value_sha256": bad.value_sha256,
            "value_base64": _base64(bad.value),
        }
    )


def _base64(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode("ascii")
