"""Records of share groups (KIP-932): types 9 to 15."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from groupreplay.codecs.composites import Array, Nested
from groupreplay.codecs.consumer import TopicIdPartitions, TopicMetadata
from groupreplay.codecs.primitives import INT8, INT32, INT64, STRING, UUID
from groupreplay.codecs.schema import EARLY, Key, Struct, Value, wire


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitionsInfo(Struct):
    """Partitions of a topic whose share state is being set up or exists."""

    topic_id: bytes = wire(UUID)
    topic_name: str = wire(STRING)
    partitions: tuple[int, ...] = wire(Array(INT32))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo(Struct):
    """A topic whose share state is being deleted."""

    topic_id: bytes = wire(UUID)
    topic_name: str = wire(STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupPartitionMetadataKey(Key):
    """Key of the topics that a share group of the previews had subscribed to."""

    KEY_TYPE: ClassVar[int] = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupPartitionMetadataValue(Value):
    """The subscribed topics' metadata; written by the previews 3.9 and 4.0 only, an unknown type since 4.1.

    In 3.9 this type held what type 15 held in 4.0.
    """

    EARLY_RELEASES: ClassVar[str] = "3.9"

    initialized_topics: tuple[TopicPartitionsInfo, ...] = wire(
        Array(Nested(TopicPartitionsInfo)), until=EARLY, default=()
    )
    deleting_topics: tuple[TopicInfo, ...] = wire(Array(Nested(TopicInfo)), until=EARLY, default=())
    topics: tuple[TopicMetadata, ...] = wire(Array(Nested(TopicMetadata)), since=0, default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupMemberMetadataKey(Key):
    """Key of a share group member."""

    KEY_TYPE: ClassVar[int] = 10

    member_id: str = wire(STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupMemberMetadataValue(Value):
    """A member's description of itself; written when it joins or changes, tombstoned when it has left."""

    rack_id: str | None = wire(STRING, nullable=True)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    subscribed_topic_names: tuple[str, ...] = wire(Array(STRING))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupMetadataKey(Key):
    """Key of a share group's epoch."""

    KEY_TYPE: ClassVar[int] = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupMetadataValue(Value):
    """The group epoch; written when members or subscribed topics changed, tombstoned when the group is deleted.

    The previews had no metadata hash.
    """

    EARLY_RELEASES: ClassVar[str] = "3.9 and 4.0"

    epoch: int = wire(INT32)
    metadata_hash: int = wire(INT64, since=0, default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupTargetAssignmentMetadataKey(Key):
    """Key of the epoch of a share group's target assignment."""

    KEY_TYPE: ClassVar[int] = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupTargetAssignmentMetadataValue(Value):
    """The epoch of the target assignment; written after its members (type 13), tombstoned with the group.

    4.3 added when the assignment was made (KIP-1263).
    """

    assignment_epoch: int = wire(INT32)
    assignment_timestamp_ms: int = wire(INT64, tag=0, default=0, kafka="assignmentTimestamp")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupTargetAssignmentMemberKey(Key):
    """Key of one member's target assignment."""

    KEY_TYPE: ClassVar[int] = 13

    member_id: str = wire(STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupTargetAssignmentMemberValue(Value):
    """The partitions that a member is to read; written when the assignor changed it, tombstoned with the member."""

    topic_partitions: tuple[TopicIdPartitions, ...] = wire(Array(Nested(TopicIdPartitions)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupCurrentMemberAssignmentKey(Key):
    """Key of one member's current assignment."""

    KEY_TYPE: ClassVar[int] = 14

    member_id: str = wire(STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupCurrentMemberAssignmentValue(Value):
    """The partitions that a member reads; written when it took a new target, tombstoned with the member."""

    member_epoch: int = wire(INT32)
    previous_member_epoch: int = wire(INT32)
    state: int = wire(INT8)
    assigned_partitions: tuple[TopicIdPartitions, ...] = wire(Array(Nested(TopicIdPartitions)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupStatePartitionMetadataKey(Key):
    """Key of the partitions for which a share group has share state."""

    KEY_TYPE: ClassVar[int] = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupStatePartitionMetadataValue(Value):
    """Partitions whose share state is being set up, exists, or is being deleted; tombstoned with the group.

    4.0 had no list of topics being set up.
    """

    EARLY_RELEASES: ClassVar[str] = "4.0"

    initializing_topics: tuple[TopicPartitionsInfo, ...] = wire(
        Array(Nested(TopicPartitionsInfo)), since=0, default=()
    )
    initialized_topics: tuple[TopicPartitionsInfo, ...] = wire(Array(Nested(TopicPartitionsInfo)))
    deleting_topics: tuple[TopicInfo, ...] = wire(Array(Nested(TopicInfo)))
