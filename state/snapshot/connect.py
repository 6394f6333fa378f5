"""What a Kafka Connect worker's two blobs say: where it is, and what it runs once a rebalance is over.

Knows how an incremental assignment adds to what a worker had; must not know groups, records or other workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Final

import msgspec

from groupreplay.codecs import (
    ConnectMetadata,
    ConnectorTasks,
    Malformed,
    decode_connect_assignment,
    decode_connect_metadata,
)
from groupreplay.state.snapshot.partitions import by_topic

CONNECT_PROTOCOL_TYPE: Final = "connect"
#: In a list of tasks this number is the connector itself.
_CONNECTOR: Final = -1

_Place = tuple[str, int]


class Worker(msgspec.Struct, frozen=True, array_like=True):
    """One worker. ``connectors`` and ``tasks`` (ranges by connector) are None when they cannot be read.

    ``config_offset`` is how far the worker had read the config topic when it joined; workers that differ
    in it cannot agree on an assignment.
    """

    url: str
    config_offset: int
    connectors: tuple[str, ...] | None
    tasks: dict[str, str] | None


def read_worker(metadata_blob: bytes, assignment_blob: bytes) -> Worker | None:
    """The worker behind a member's subscription and assignment; None when the first cannot be read."""
    metadata = decode_connect_metadata(metadata_blob)
    if isinstance(metadata, Malformed):
        return None
    allocation = _allocation(metadata, assignment_blob)
    if allocation is None:
        return Worker(metadata.url, metadata.config_offset, None, None)
    connectors = tuple(sorted(name for name, task in allocation if task == _CONNECTOR))
    tasks = by_topic(place for place in allocation if place[1] >= 0)
    return Worker(metadata.url, metadata.config_offset, connectors, tasks)


def _allocation(metadata: ConnectMetadata, assignment_blob: bytes) -> Set[_Place] | None:
    """What the worker runs: what it had, less what is revoked, and what is new (KIP-415).

    Protocol 0 has neither the first nor the second: it gives everything anew.
    """
    assignment = decode_connect_assignment(assignment_blob)
    if isinstance(assignment, Malformed):
        return None
    had: set[_Place] = set()
    if metadata.allocation is not None:
        former = decode_connect_assignment(metadata.allocation)
        if isinstance(former, Malformed):
            return None
        had = set(_places(former.assigned))
    return (had - set(_places(assignment.revoked))) | set(_places(assignment.assigned))


def _places(given: Iterable[ConnectorTasks] | None) -> Iterable[_Place]:
    return ((one.connector, task) for one in given or () for task in one.tasks)
