"""The records of a consumer group (``GroupCoordinatorRecordHelpers``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from groupreplay.codecs.consumer import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    OwnedTopicPartitions,
    TopicIdPartitions,
)
from groupreplay.codecs.kafka_terms import MemberPhase
from groupreplay.coordinator.consumer.group import ClassicPart, ConsumerGroup, ConsumerMember
from groupreplay.coordinator.consumer.regexes import ResolvedRegex
from groupreplay.coordinator.requests import Record, TopicIdPartition

_VERSION: Final = 0
_STATES: Final[Mapping[MemberPhase, int]] = {
    MemberPhase.STABLE: 0,
    MemberPhase.UNREVOKED: 1,
    MemberPhase.UNRELEASED: 2,
}


def member_metadata(group_id: str, member: ConsumerMember) -> Record:
    """Type 5: a member's metadata."""
    value = ConsumerGroupMemberMetadataValue(
        version=_VERSION,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.topics,
        subscribed_topic_regex=member.topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=None if member.classic is None else _classic(member.classic),
    )
    return ConsumerGroupMemberMetadataKey(group=group_id, member_id=member.member_id), value


def _classic(part: ClassicPart) -> ClassicMemberMetadata:
    protocols = tuple(ClassicProtocol(name=one.name, metadata=one.metadata) for one in part.protocols)
    return ClassicMemberMetadata(session_timeout_ms=part.session_timeout_ms, supported_protocols=protocols)


def group_metadata(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """Type 3: the group epoch."""
    value = ConsumerGroupMetadataValue(version=_VERSION, epoch=epoch, metadata_hash=metadata_hash)
    return ConsumerGroupMetadataKey(group=group_id), value


def regular_expression(group_id: str, expression: str, resolved: ResolvedRegex | None) -> Record:
    """Type 16: the topics that an expression matches; a tombstone when no member subscribes with it any more."""
    key = ConsumerGroupRegularExpressionKey(group=group_id, regular_expression=expression)
    if resolved is None:
        return key, None
    return key, ConsumerGroupRegularExpressionValue(
        version=_VERSION,
        topics=tuple(sorted(resolved.topics)),
        image_version=resolved.version,
        timestamp_ms=resolved.timestamp_ms,
    )


def target_assignment(group_id: str, member_id: str, partitions: Iterable[TopicIdPartition]) -> Record:
    """Type 7: a member's target assignment."""
    topics = tuple(
        TopicIdPartitions(topic_id=topic, partitions=tuple(numbers))
        for topic, numbers in by_topic(partitions)
    )
    value = ConsumerGroupTargetAssignmentMemberValue(version=_VERSION, topic_partitions=topics)
    return ConsumerGroupTargetAssignmentMemberKey(group=group_id, member_id=member_id), value


def target_assignment_metadata(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """Type 6: the epoch of the target assignments, and the time of their computation."""
    value = ConsumerGroupTargetAssignmentMetadataValue(
        version=_VERSION, assignment_epoch=epoch, assignment_timestamp_ms=timestamp_ms
    )
    return ConsumerGroupTargetAssignmentMetadataKey(group=group_id), value


def current_assignment(group_id: str, member: ConsumerMember) -> Record:
    """Type 8: a member's current assignment, and the partitions that it has to revoke."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        version=_VERSION,
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=_STATES[member.phase],
        assigned_partitions=_owned(member.assigned),
        partitions_pending_revocation=_owned(member.revoking),
    )
    return ConsumerGroupCurrentMemberAssignmentKey(group=group_id, member_id=member.member_id), value


def _owned(held: Mapping[TopicIdPartition, int]) -> tuple[OwnedTopicPartitions, ...]:
    return tuple(
        OwnedTopicPartitions(
            topic_id=topic,
            partitions=tuple(numbers),
            assignment_epochs=tuple(held[topic, number] for number in numbers),
        )
        for topic, numbers in by_topic(held)
    )


def by_topic(partitions: Iterable[TopicIdPartition]) -> list[tuple[bytes, list[int]]]:
    """Partition numbers by topic id, in order."""
    topics: dict[bytes, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    return list(topics.items())


_MEMBER_KEYS: Final = (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupMemberMetadataKey,
)


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """A member's tombstones."""
    return [(key(group=group_id, member_id=member_id), None) for key in _MEMBER_KEYS]


def member_replacement(group: ConsumerGroup, old: ConsumerMember, new: ConsumerMember) -> list[Record]:
    """A static member rejoins under another member id and keeps its assignment."""
    inherited = group.targets.get(old.member_id, frozenset())
    return [
        *member_tombstones(group.group_id, old.member_id),
        member_metadata(group.group_id, new),
        target_assignment(group.group_id, new.member_id, inherited),
        current_assignment(group.group_id, new),
    ]


def whole_group(group: ConsumerGroup) -> list[Record]:
    """All records of a group, in the order of an upgrade."""
    group_id, members = group.group_id, group.members.values()
    return [
        *(member_metadata(group_id, member) for member in members),
        group_metadata(group_id, group.epoch, group.metadata_hash),
        *(target_assignment(group_id, name, group.targets[name]) for name in group.members),
        target_assignment_metadata(group_id, group.target_epoch, group.target_timestamp_ms),
        *(current_assignment(group_id, member) for member in members),
    ]


def group_tombstones(
    group_id: str, member_ids: Iterable[str] = (), expressions: Iterable[str] = ()
) -> list[Record]:
    """The tombstones of a whole group, in Kafka's order."""
    names = list(member_ids)
    held, targets, described_by = (
        [(key(group=group_id, member_id=name), None) for name in names] for key in _MEMBER_KEYS
    )
    return [
        *held,
        *targets,
        (ConsumerGroupTargetAssignmentMetadataKey(group=group_id), None),
        *described_by,
        *(regular_expression(group_id, one, None) for one in expressions),
        (ConsumerGroupPartitionMetadataKey(group=group_id), None),
        (ConsumerGroupMetadataKey(group=group_id), None),
    ]
