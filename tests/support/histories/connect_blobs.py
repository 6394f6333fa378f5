"""Builders for the metadata and the assignments of Kafka Connect's workers."""

from __future__ import annotations

from typing import Any

from groupreplay.codecs import ConnectAssignment, ConnectMetadata, ConnectorTasks, MemberMetadata, encode_blob

URL = "http://10.0.0.1:8083/"
OFFSET = 12


def tasks(**connectors: list[int]) -> tuple[ConnectorTasks, ...]:
    """Tasks by connector; -1 is the connector itself."""
    return tuple(ConnectorTasks(connector=name, tasks=tuple(n)) for name, n in connectors.items())


def metadata(version: int, allocation: bytes | None = None, config_offset: int = OFFSET) -> bytes:
    """The metadata with which a worker joins."""
    return encode_blob(
        ConnectMetadata(version=version, url=URL, config_offset=config_offset, allocation=allocation)
    )


def assignment(version: int, assigned: Any, revoked: Any = None) -> bytes:
    """The assignment that the leader computes."""
    return encode_blob(
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


def worker(member_id: str, config_offset: int, host: str = "/w") -> MemberMetadata:
    """A worker of the incremental protocol as a member of its group; it has a task."""
    return MemberMetadata(
        member_id=member_id,
        group_instance_id=None,
        client_id=f"connect-{member_id}",
        client_host=host,
        rebalance_timeout_ms=60_000,
        session_timeout_ms=10_000,
        subscription=metadata(1, None, config_offset),
        assignment=assignment(1, tasks(sink=[0])),
    )
