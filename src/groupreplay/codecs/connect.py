"""Kafka Connect's blobs inside classic members: a worker's metadata and its assignment.

These are the protocols ``default`` (version 0), ``compatible`` (1) and ``sessioned`` (2, the same bytes as 1), of
Kafka's `ConnectProtocol` and `IncrementalCooperativeConnectProtocol`; always in the classic encoding.
`decode_blob` and `encode_blob` read and write them; no blob of Connect has zero bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from groupreplay.codecs.composites import Array, Nested
from groupreplay.codecs.primitives import BYTES, CLIENT_STRING, INT16, INT32, INT64
from groupreplay.codecs.schema import Struct, Versioned, wire


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorTasks(Struct):
    """Tasks of one connector; task -1 is the connector itself."""

    connector: str = wire(CLIENT_STRING)
    tasks: tuple[int, ...] = wire(Array(INT32))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectMetadata(Versioned):
    """The metadata that a worker sends when it joins.

    v1 added the present assignment of the worker, as the bytes of a `ConnectAssignment` (KIP-415).
    """

    VERSIONS: ClassVar[range] = range(3)

    url: str = wire(CLIENT_STRING)
    config_offset: int = wire(INT64)
    allocation: bytes | None = wire(BYTES, since=1, nullable=True, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectAssignment(Versioned):
    """The leader's assignment for one worker.

    v1 added the revoked tasks and the delay before the next rebalance, and lets lists be null. Here
    `assigned` may be null in v0, too.
    """

    VERSIONS: ClassVar[range] = range(3)

    error: int = wire(INT16)
    leader: str = wire(CLIENT_STRING)
    leader_url: str = wire(CLIENT_STRING)
    config_offset: int = wire(INT64)
    assigned: tuple[ConnectorTasks, ...] | None = wire(Array(Nested(ConnectorTasks)), nullable=True)
    revoked: tuple[ConnectorTasks, ...] | None = wire(
        Array(Nested(ConnectorTasks)), since=1, nullable=True, default=None
    )
    delay_ms: int = wire(INT32, since=1, default=0)
