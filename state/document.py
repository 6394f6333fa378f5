"""A group in one picture: what ``describe`` prints and what ``group-states`` holds.

Knows fields and their order; must not know how the state came about.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec
from groupreplay.state.context import Context
from groupreplay.state.events import GroupType
from groupreplay.state.members import Member, group_topics
from groupreplay.state.offsets import Offsets
from groupreplay.state.partitions import from_ranges
from groupreplay.state.phases import Phase
from groupreplay.state.saved import Saved
from groupreplay.state.sizes import fit_json

MAX_BYTES: Final = 256 * 1024
MAX_MEMBERS: Final = 200
#: Fields that change with every commit: a change in them alone is no reason to write the document again.
_RESTLESS: Final = ("log_position", "oldest_commit_ms", "newest_commit_ms")


class Deleted:
    """The group is gone: its document is to be replaced by a tombstone."""


DELETED: Final = Deleted()


def _state(saved: Saved) -> str:
    return (
        saved.phase.value if saved.group_type is GroupType.CLASSIC or saved.phase is Phase.DEAD else "Unknown"
    )


def _topics(saved: Saved) -> list[str]:
    return sorted(group_topics(saved.members, saved.protocol_type) or ())


def _head(group_id: str, saved: Saved) -> dict[str, Any]:
    return {
        "group_id": group_id,
        "type": saved.group_type.value,
        "simple": saved.simple,
        "state": _state(saved),
        "protocol_type": saved.protocol_type,
        "protocol": saved.protocol,
        "leader": saved.leader,
        "generation": saved.generation,
        "group_epoch": None,
        "target_epoch": None,
        "since_ms": saved.since_ms,
        "history": saved.history.value,
    }


def _member(member: Member, partitions: Any) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "state": "Stable",
        "epoch": None,
        "partitions": partitions,
        "supported_protocols": list(member.supported_protocols),
    }


def describe(group_id: str, saved: Saved, offsets: Offsets) -> dict[str, Any]:
    """``Group.describe()``: partitions as lists, every committed offset by topic and partition."""
    return {
        **_head(group_id, saved),
        "members": [
            _member(member, {topic: from_ranges(held) for topic, held in (member.partitions or {}).items()})
            for member in saved.members
        ],
        "subscribed_topics": _topics(saved),
        "offsets": list(offsets),
        "conditions": [],
    }


def group_document(group_id: str, saved: Saved, offsets: Offsets, context: Context) -> dict[str, Any]:
    """The document of ``group-states``: members with ranges (at most 200), offsets in summary."""
    return {
        "cluster_id": context.cluster_id,
        **_head(group_id, saved),
        "member_count": len(saved.members),
        "members": [_member(member, member.partitions) for member in saved.members[:MAX_MEMBERS]],
        "subscribed_topics": _topics(saved),
        "offsets": offsets.summary(),
        "conditions": [],
        "labels": dict(context.labels),
        "log_position": {
            "partition": saved.partition,
            "offset": saved.last_offset,
            "timestamp_ms": saved.last_timestamp_ms,
        },
    }


def digest(document: dict[str, Any]) -> bytes:
    """Eight bytes that change when something other than commit times does."""
    offsets = document["offsets"]
    steady = {
        **document,
        "log_position": None,
        "offsets": {name: value for name, value in offsets.items() if name not in _RESTLESS},
    }
    return hashlib.blake2b(msgspec.json.encode(steady), digest_size=8).digest()


def encode_document(document: dict[str, Any]) -> bytes:
    """The document as JSON of at most 256 KiB; what did not fit is cut and ``truncated`` says so."""
    return fit_json(document, MAX_BYTES)
