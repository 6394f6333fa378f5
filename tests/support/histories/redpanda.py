"""Redpanda's bytes of a group's record, written by its rules and not by the program's codecs."""

from __future__ import annotations

import struct
from typing import Any

from groupreplay.codecs import GroupMetadataKey, GroupMetadataValue, decode_key, decode_value


def text(value: str | None) -> bytes:
    """A string of Kafka's classic encoding."""
    raw = (value or "").encode()
    return struct.pack(">h", -1) if value is None else struct.pack(">h", len(raw)) + raw


def dialect(value: GroupMetadataValue) -> bytes:
    """A value of version 3 as Redpanda writes it."""
    head = struct.pack(">h", 3) + text(value.protocol_type) + struct.pack(">i", value.generation)
    head += text(value.protocol) + text(value.leader)
    members = b"".join(
        struct.pack(">h", 3)
        + b"".join(map(text, (one.member_id, one.group_instance_id, one.client_id, one.client_host)))
        + struct.pack(">ii", one.rebalance_timeout_ms, one.session_timeout_ms)
        + b"".join(struct.pack(">i", len(blob)) + blob for blob in (one.subscription, one.assignment))
        for one in value.members
    )
    return head + struct.pack(">qi", value.current_state_timestamp_ms, len(value.members)) + members


def rewritten(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A log with its groups' records in the dialect, and tombstones with the length of their key in front."""
    for row in rows:
        value = (
            decode_value(key, row["value"])
            if isinstance(key := decode_key(row["key"]), GroupMetadataKey)
            else None
        )
        if isinstance(value, GroupMetadataValue):
            row["value"] = dialect(value)
        if row["value"] is None:
            row["key"] = struct.pack("<I", len(row["key"])) + row["key"]
    return rows
