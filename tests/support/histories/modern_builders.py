"""Builders for the records of KIP-848 groups; an operation is a list of records with one timestamp."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

from groupreplay.codecs import ZERO_UUID, consumer, uuid_bytes
from groupreplay.codecs.consumer import (
    ClassicMemberMetadata,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    OwnedTopicPartitions,
    TopicIdPartitions,
)
from support.histories.builders import GROUP, Raw

TOPIC = "AQIDBAUGBwgJCgsMDQ4PEA"
TOPIC_ID = uuid_bytes(TOPIC)
assert TOPIC_ID != ZERO_UUID
STABLE, UNREVOKED, UNRELEASED = 0, 1, 2


def operation(at: int, *records: Raw | Sequence[Raw]) -> list[Raw]:
    """The records of one operation: one timestamp for all."""
    flat = [raw for one in records for raw in ([one] if isinstance(one, Raw) else one)]
    return [replace(raw, at=at) for raw in flat]


def record(
    name: str,
    member_id: str | None = None,
    *,
    module: ModuleType = consumer,
    prefix: str = "ConsumerGroup",
    **fields: Any,
) -> Raw:
    """A record by the name of its type; a tombstone without fields."""
    member = {} if member_id is None else {"member_id": member_id}
    key = getattr(module, f"{prefix}{name}Key")(group=GROUP, **member)
    return Raw(key, getattr(module, f"{prefix}{name}Value")(version=0, **fields) if fields else None)


def group_epoch(number: int, metadata_hash: int = 7) -> Raw:
    """Type 3."""
    return record("Metadata", epoch=number, metadata_hash=metadata_hash)


def described(
    member_id: str,
    *,
    topics: Sequence[str] = ("t",),
    regex: str = "",
    instance_id: str | None = None,
    client_id: str | None = None,
    rebalance_ms: int = 30_000,
    classic: bool = False,
) -> Raw:
    """Type 5."""
    classic_part = ClassicMemberMetadata(session_timeout_ms=10_000, supported_protocols=())
    return record(
        "MemberMetadata",
        member_id,
        instance_id=instance_id,
        rack_id=None,
        client_id=client_id or f"client-{member_id}",
        client_host="/h",
        subscribed_topic_names=tuple(topics),
        subscribed_topic_regex=regex,
        rebalance_timeout_ms=rebalance_ms,
        server_assignor=None,
        classic_member_metadata=classic_part if classic else None,
    )


def target_epoch(number: int) -> Raw:
    """Type 6."""
    return record("TargetAssignmentMetadata", assignment_epoch=number)


def target(member_id: str, partitions: Sequence[int]) -> Raw:
    """Type 7."""
    topics = (TopicIdPartitions(topic_id=TOPIC_ID, partitions=tuple(partitions)),)
    return record("TargetAssignmentMember", member_id, topic_partitions=topics)


def current(
    member_id: str,
    epoch: int,
    partitions: Sequence[int] = (),
    *,
    state: int = STABLE,
    previous: int = 0,
    revoking: Sequence[int] = (),
) -> Raw:
    """Type 8."""

    def owned(numbers: Sequence[int]) -> tuple[OwnedTopicPartitions, ...]:
        held = OwnedTopicPartitions(topic_id=TOPIC_ID, partitions=tuple(numbers), assignment_epochs=None)
        return (held,) if numbers else ()

    return record(
        "CurrentMemberAssignment",
        member_id,
        member_epoch=epoch,
        previous_member_epoch=previous,
        state=state,
        assigned_partitions=owned(partitions),
        partitions_pending_revocation=owned(revoking),
    )


def resolved(regex: str, *topics: str) -> Raw:
    """Type 16."""
    value = ConsumerGroupRegularExpressionValue(version=0, topics=topics, image_version=1, timestamp_ms=1)
    return Raw(ConsumerGroupRegularExpressionKey(group=GROUP, regular_expression=regex), value)


def regex_tombstone(regex: str) -> Raw:
    """The tombstone of a regular expression."""
    return Raw(ConsumerGroupRegularExpressionKey(group=GROUP, regular_expression=regex), None)


def left(member_id: str) -> list[Raw]:
    """The tombstones of a member, in the coordinator's order: 8, 7, 5."""
    names = ("CurrentMemberAssignment", "TargetAssignmentMember", "MemberMetadata")
    return [record(name, member_id) for name in names]


def ended() -> list[Raw]:
    """The tombstones of the group itself: 6, 4, 3."""
    return [record(name) for name in ("TargetAssignmentMetadata", "PartitionMetadata", "Metadata")]


def first_join(member_id: str = "a", *, at: int = 1_000, epoch: int = 2, **fields: object) -> list[Raw]:
    """The records that the coordinator writes when the first member joins."""
    return operation(
        at,
        described(member_id, **fields),  # type: ignore[arg-type]
        group_epoch(epoch),
        target(member_id, [0, 1]),
        target_epoch(epoch),
        current(member_id, epoch, [0, 1]),
    )


def handover(at: int) -> list[Raw]:
    """Member ``a`` of ``first_join`` has been asked to give up a partition to ``b``, and has not answered."""
    return [
        *first_join(at=at),
        *operation(at + 1_000, described("b"), group_epoch(3)),
        *operation(
            at + 2_000,
            *(target("a", [0]), target("b", [1]), target_epoch(3)),
            *(current("a", 2, [0], state=UNREVOKED, revoking=[1]), current("b", 3)),
        ),
    ]
