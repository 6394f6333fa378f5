"""Records of a consumer group as its coordinator writes them (``GroupCoordinatorRecordHelpers``).

Knows which record says what of a group; must not know when it is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from groupreplay.codecs import Key, Value
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
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    OwnedTopicPartitions,
    TopicIdPartitions,
)
from groupreplay.state.kafka_terms import MemberPhase
from groupreplay.state.model.consumer_group import ClassicPart, ConsumerGroup, ConsumerMember
from groupreplay.state.model.requests import Place

Record: TypeAlias = tuple[Key, Value | None]
_VERSION: Final = 0
_STATES: Final[Mapping[MemberPhase, int]] = {
    MemberPhase.STABLE: 0,
    MemberPhase.UNREVOKED: 1,
    MemberPhase.UNRELEASED: 2,
}


def described(group_id: str, member: ConsumerMember) -> Record:
    """Type 5: what a member told of itself."""
    value = ConsumerGroupMemberMetadataValue(
        version=_VERSION,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.topics,
        subscribed_topic_regex="",
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=None if member.classic is None else _classic(member.classic),
    )
    return ConsumerGroupMemberMetadataKey(group=group_id, member_id=member.member_id), value


def _classic(part: ClassicPart) -> ClassicMemberMetadata:
    protocols = tuple(ClassicProtocol(name=one.name, metadata=one.metadata) for one in part.protocols)
    return ClassicMemberMetadata(session_timeout_ms=part.session_timeout_ms, supported_protocols=protocols)


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """Type 3: the group epoch."""
    value = ConsumerGroupMetadataValue(version=_VERSION, epoch=epoch, metadata_hash=metadata_hash)
    return ConsumerGroupMetadataKey(group=group_id), value


def target(group_id: str, member_id: str, places: Iterable[Place]) -> Record:
    """Type 7: what a member shall have."""
    topics = tuple(
        TopicIdPartitions(topic_id=topic, partitions=tuple(numbers)) for topic, numbers in _by_topic(places)
    )
    value = ConsumerGroupTargetAssignmentMemberValue(version=_VERSION, topic_partitions=topics)
    return ConsumerGroupTargetAssignmentMemberKey(group=group_id, member_id=member_id), value


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """Type 6: the epoch of the targets, and when they were made."""
    value = ConsumerGroupTargetAssignmentMetadataValue(
        version=_VERSION, assignment_epoch=epoch, assignment_timestamp_ms=timestamp_ms
    )
    return ConsumerGroupTargetAssignmentMetadataKey(group=group_id), value


def current(group_id: str, member: ConsumerMember) -> Record:
    """Type 8: what a member has, and must give up."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        version=_VERSION,
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=_STATES[member.phase],
        assigned_partitions=_owned(member.assigned),
        partitions_pending_revocation=_owned(member.revoking),
    )
    return ConsumerGroupCurrentMemberAssignmentKey(group=group_id, member_id=member.member_id), value


def _owned(held: Mapping[Place, int]) -> tuple[OwnedTopicPartitions, ...]:
    return tuple(
        OwnedTopicPartitions(
            topic_id=topic,
            partitions=tuple(numbers),
            assignment_epochs=tuple(held[topic, number] for number in numbers),
        )
        for topic, numbers in _by_topic(held)
    )


def _by_topic(places: Iterable[Place]) -> list[tuple[bytes, list[int]]]:
    topics: dict[bytes, list[int]] = {}
    for topic, number in sorted(places):
        topics.setdefault(topic, []).append(number)
    return list(topics.items())


_MEMBER_KEYS: Final = (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupMemberMetadataKey,
)


def gone(group_id: str, member_id: str) -> list[Record]:
    """A member's tombstones."""
    return [(key(group=group_id, member_id=member_id), None) for key in _MEMBER_KEYS]


def replaced(group: ConsumerGroup, old: ConsumerMember, new: ConsumerMember) -> list[Record]:
    """A static member comes back under another id, with what it had."""
    inherited = group.targets.get(old.member_id, frozenset())
    return [
        *gone(group.group_id, old.member_id),
        described(group.group_id, new),
        target(group.group_id, new.member_id, inherited),
        current(group.group_id, new),
    ]


def created(group: ConsumerGroup) -> list[Record]:
    """All of a group that was a classic one before."""
    group_id, members = group.group_id, group.members.values()
    return [
        *(described(group_id, member) for member in members),
        group_epoch(group_id, group.epoch, group.metadata_hash),
        *(target(group_id, name, places) for name, places in group.targets.items()),
        target_epoch(group_id, group.target_epoch, group.target_timestamp_ms),
        *(current(group_id, member) for member in members),
    ]


def ended(group_id: str, member_ids: Iterable[str] = ()) -> list[Record]:
    """The tombstones of a whole group, step by step."""
    names = list(member_ids)
    held, targets, described_by = (
        [(key(group=group_id, member_id=name), None) for name in names] for key in _MEMBER_KEYS
    )
    return [
        *held,
        *targets,
        (ConsumerGroupTargetAssignmentMetadataKey(group=group_id), None),
        *described_by,
        (ConsumerGroupPartitionMetadataKey(group=group_id), None),
        (ConsumerGroupMetadataKey(group=group_id), None),
    ]
