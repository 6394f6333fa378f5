"""A Kafka Connect worker, read from its two blobs: its address and what it runs after a rebalance."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Final

import msgspec

from groupreplay.codecs import (
    ConnectAssignment,
    ConnectMetadata,
    ConnectorTasks,
    Malformed,
    decode_blob,
    is_text,
)
from groupreplay.state.snapshot.partitions import by_topic

CONNECT_PROTOCOL_TYPE: Final = "connect"
#: In a list of tasks this number means the connector itself.
_CONNECTOR: Final = -1

_Place = tuple[str, int]


class Worker(msgspec.Struct, frozen=True, array_like=True):
    """One worker. ``connectors`` and ``tasks`` (ranges by connector) are None when they cannot be read.

    ``config_offset`` is the offset up to which the worker had read the config topic when it joined; workers with
    different offsets cannot agree on an assignment.
    """

    url: str
    config_offset: int
    connectors: tuple[str, ...] | None
    tasks: dict[str, str] | None


def read_worker(metadata_blob: bytes, assignment_blob: bytes) -> Worker | None:
    """The worker of a member's subscription and assignment; None when the subscription cannot be read."""
    metadata = decode_blob(ConnectMetadata, metadata_blob)
    if isinstance(metadata, Malformed):
        return None
    allocation = _allocation(metadata, assignment_blob)
    url = metadata.url if is_text(metadata.url) else ""
    if allocation is None:
        return Worker(url, metadata.config_offset, None, None)
    connectors = tuple(sorted(name for name, task in allocation if task == _CONNECTOR))
    tasks = by_topic(place for place in allocation if place[1] >= 0)
    return Worker(url, metadata.config_offset, connectors, tasks)


def _allocation(metadata: ConnectMetadata, assignment_blob: bytes) -> Set[_Place] | None:
    """What the worker runs: what it ran before, without what is revoked, and what is new (KIP-415).

    Protocol 0 has neither of the first two: it assigns everything again.
    """
    assignment = decode_blob(ConnectAssignment, assignment_blob)
    if isinstance(assignment, Malformed):
        return None
    before: set[_Place] = set()
    if metadata.allocation is not None:
        former = decode_blob(ConnectAssignment, metadata.allocation)
        if isinstance(former, Malformed):
            return None
        before = set(_places(former.assigned))
    return (before - set(_places(assignment.revoked))) | set(_places(assignment.assigned))


def _places(given: Iterable[ConnectorTasks] | None) -> Iterable[_Place]:
    return ((one.connector, task) for one in given or () if is_text(one.connector) for task in one.tasks)
