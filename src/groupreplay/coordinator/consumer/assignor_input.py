"""The input of the broker's assignors (Kafka's ``GroupSpec``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from groupreplay.coordinator.requests import TopicIdPartition

Target = frozenset[TopicIdPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedMember:
    """A member as an assignor sees it; ``topics`` are ids, ``target`` is its previous target assignment."""

    instance_id: str | None
    topics: frozenset[bytes]
    target: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignorInput:
    """The input of an assignor: members by id in Kafka's order, numbers of partitions by topic id.

    ``homogeneous``: all members have the same subscription. ``assigned``: the partitions of all previous targets.
    """

    members: Mapping[str, AssignedMember]
    partitions: Mapping[bytes, int]
    homogeneous: bool
    assigned: frozenset[TopicIdPartition]
