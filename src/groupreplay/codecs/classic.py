"""Records of classic groups: type 2.

The members' subscriptions and assignments stay bytes here; `subscription` and `connect` read them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from groupreplay.codecs.composites import Array, Nested
from groupreplay.codecs.primitives import BYTES, INT32, INT64, STRING
from groupreplay.codecs.schema import Key, Struct, Value, wire


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataKey(Key):
    """Key of a classic group."""

    KEY_TYPE: ClassVar[int] = 2

    group: str = wire(STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetadata(Struct):
    """A member after the leader's SyncGroup."""

    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, since=3, nullable=True, default=None)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    rebalance_timeout_ms: int = wire(INT32, since=1, default=-1, kafka="rebalanceTimeout")
    session_timeout_ms: int = wire(INT32, kafka="sessionTimeout")
    subscription: bytes = wire(BYTES)
    assignment: bytes = wire(BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataValue(Value):
    """A classic group after a finished rebalance, when emptied, or when a static member came back.

    v1 added the rebalance timeout, v2 the time of the current state, v3 the instance id; v4 is flexible and
    so far only read (KIP-915). Tombstoned when the group is deleted, expires or changes its type.
    """

    VERSIONS: ClassVar[range] = range(5)
    FLEXIBLE_SINCE: ClassVar[int | None] = 4

    protocol_type: str = wire(STRING)
    generation: int = wire(INT32)
    protocol: str | None = wire(STRING, nullable=True)
    leader: str | None = wire(STRING, nullable=True)
    current_state_timestamp_ms: int = wire(INT64, since=2, default=-1, kafka="currentStateTimestamp")
    members: tuple[MemberMetadata, ...] = wire(Array(Nested(MemberMetadata)))
