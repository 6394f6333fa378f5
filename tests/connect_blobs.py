"""Words for what Kafka Connect's workers tell and are given."""

from __future__ import annotations

from typing import Any

from groupreplay.codecs import (
    ConnectAssignment,
    ConnectMetadata,
    ConnectorTasks,
    encode_connect_assignment,
    encode_connect_metadata,
)

URL = "http://10.0.0.1:8083/"
OFFSET = 12


def tasks(**connectors: list[int]) -> tuple[ConnectorTasks, ...]:
    """Tasks by connector; -1 is the connector itself."""
    return tuple(ConnectorTasks(connector=name, tasks=tuple(n)) for name, n in connectors.items())


def metadata(version: int, allocation: bytes | None = None) -> bytes:
    """What a worker tells when it joins."""
    told = ConnectMetadata(version=version, url=URL, config_offset=OFFSET, allocation=allocation)
    return encode_connect_metadata(told)


def assignment(version: int, assigned: Any, revoked: Any = None) -> bytes:
    """What the leader answers."""
    return encode_connect_assignment(
        ConnectAssignment(
            version=version,
            error=0,
            leader="w-1",
            leader_url=URL,
            config_offset=OFFSET,
            assigned=assigned,
            revoked=revoked,
        )
    )
