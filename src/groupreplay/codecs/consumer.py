"""Records of consumer groups (KIP-848): types 3 to 8 and 16."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from groupreplay.codecs.composites import Array, Nested
from groupreplay.codecs.primitives import BYTES, INT8, INT16, INT32, INT64, STRING, UUID
from groupreplay.codecs.schema import EARLY, Key, Struct, Value, wire


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicIdPartitions(Struct):
    """Partitions of one topic, which is named by its id."""

    topic_id: bytes = wire(UUID)
    partitions: tuple[int, ...] = wire(Array(INT32))


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedTopicPartitions(Struct):
    """Partitions of one topic that a member holds, and since which epoch it holds each (KIP-1251)."""

    topic_id: bytes = wire(UUID)
    partitions: tuple[int, ...] = wire(Array(INT32))
    assignment_epochs: tuple[int, ...] | None = wire(
        Array(INT32), since=0, tag=0, nullable=True, default=None, omitted=()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMetadataKey(Key):
    """Key of a consumer group's epoch."""

    KEY_TYPE: ClassVar[int] = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMetadataValue(Value):
    """The group epoch; written when members or subscribed topics changed, tombstoned when the group is deleted.

    4.1 added the hash of the subscribed topics' metadata (KIP-1101).
    """

    epoch: int = wire(INT32)
    metadata_hash: int = wire(INT64, tag=0, default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupPartitionMetadataKey(Key):
    """Key of the topics that a consumer group had subscribed to."""

    KEY_TYPE: ClassVar[int] = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata(Struct):
    """A partition and the racks that hold it."""

    partition: int = wire(INT32)
    racks: tuple[str, ...] = wire(Array(STRING))


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata(Struct):
    """A subscribed topic; `partition_metadata` is empty when no rack is known."""

    topic_id: bytes = wire(UUID)
    topic_name: str = wire(STRING)
    num_partitions: int = wire(INT32)
    partition_metadata: tuple[PartitionMetadata, ...] = wire(Array(Nested(PartitionMetadata)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupPartitionMetadataValue(Value):
    """The subscribed topics' metadata; written up to 4.0, since 4.1 only tombstoned (KIP-1101).

    3.7 put the group epoch in front.
    """

    EARLY_RELEASES: ClassVar[str] = "3.7"

    epoch: int = wire(INT32, until=EARLY, default=0)
    topics: tuple[TopicMetadata, ...] = wire(Array(Nested(TopicMetadata)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMemberMetadataKey(Key):
    """Key of a consumer group member."""

    KEY_TYPE: ClassVar[int] = 5

    member_id: str = wire(STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicProtocol(Struct):
    """A protocol that a classic member supports, and its subscription in that protocol."""

    name: str = wire(STRING)
    metadata: bytes = wire(BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberMetadata(Struct):
    """The JoinGroup request of a member that still uses the classic protocol."""

    session_timeout_ms: int = wire(INT32)
    supported_protocols: tuple[ClassicProtocol, ...] = wire(Array(Nested(ClassicProtocol)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignor(Struct):
    """A client-side assignor; dropped after 3.7."""

    name: str = wire(STRING)
    minimum_version: int = wire(INT16)
    maximum_version: int = wire(INT16)
    reason: int = wire(INT8)
    version: int = wire(INT16)
    metadata: bytes = wire(BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMemberMetadataValue(Value):
    """A member's description of itself; written when it joins or changes, tombstoned when it has left.

    3.7 listed client-side assignors; 3.8 dropped them and added the classic protocol's part for members in a
    group that is being upgraded.
    """

    EARLY_RELEASES: ClassVar[str] = "3.7"

    instance_id: str | None = wire(STRING, nullable=True)
    rack_id: str | None = wire(STRING, nullable=True)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    subscribed_topic_names: tuple[str, ...] = wire(Array(STRING))
    subscribed_topic_regex: str | None = wire(STRING, nullable=True)
    rebalance_timeout_ms: int = wire(INT32, default=-1)
    server_assignor: str | None = wire(STRING, nullable=True)
    assignors: tuple[Assignor, ...] = wire(Array(Nested(Assignor)), until=EARLY, default=())
    #: None for a member of the consumer protocol.
    classic_member_metadata: ClassicMemberMetadata | None = wire(  # noqa: RUF009 - `wire` is dataclasses.field
        Nested(ClassicMemberMetadata, null_mark=b"\x00"),
        since=0,
        tag=0,
        nullable=True,
        default=None,
        omitted=ClassicMemberMetadata(session_timeout_ms=0, supported_protocols=()),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMetadataKey(Key):
    """Key of the epoch of a consumer group's target assignment."""

    KEY_TYPE: ClassVar[int] = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMetadataValue(Value):
    """The epoch of the target assignment; written after its members (type 7), tombstoned with the group.

    4.3 added when the assignment was made (KIP-1263). Since 4.4 it is also written, without a time, when the last
    member has left.
    """

    assignment_epoch: int = wire(INT32)
    assignment_timestamp_ms: int = wire(INT64, tag=0, default=0, kafka="assignmentTimestamp")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMemberKey(Key):
    """Key of one member's target assignment."""

    KEY_TYPE: ClassVar[int] = 7

    member_id: str = wire(STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMemberValue(Value):
    """The partitions a member is to own in the end; written when the assignor changed them, tombstoned with the member.

    3.7 wrapped it into an error and the assignor's metadata.
    """

    EARLY_RELEASES: ClassVar[str] = "3.7"

    error: int = wire(INT8, until=EARLY, default=0)
    topic_partitions: tuple[TopicIdPartitions, ...] = wire(Array(Nested(TopicIdPartitions)))
    metadata_version: int = wire(INT16, until=EARLY, default=0)
    metadata_bytes: bytes = wire(BYTES, until=EARLY, default=b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupCurrentMemberAssignmentKey(Key):
    """Key of one member's current assignment."""

    KEY_TYPE: ClassVar[int] = 8

    member_id: str = wire(STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupCurrentMemberAssignmentValue(Value):
    """The partitions a member owns and must revoke; written at every step of its reconciliation, tombstoned with it.

    3.7 had a target epoch in place of the state and carried the assignor's answer; 4.3 added the epochs of
    the partitions.
    """

    EARLY_RELEASES: ClassVar[str] = "3.7"

    member_epoch: int = wire(INT32)
    previous_member_epoch: int = wire(INT32)
    target_member_epoch: int = wire(INT32, until=EARLY, default=0)
    #: 0 stable, 1 unrevoked partitions, 2 unreleased partitions, 127 unknown (`MemberState`).
    state: int = wire(INT8, since=0, default=0)
    assigned_partitions: tuple[OwnedTopicPartitions, ...] = wire(Array(Nested(OwnedTopicPartitions)))
    partitions_pending_revocation: tuple[OwnedTopicPartitions, ...] = wire(
        Array(Nested(OwnedTopicPartitions))
    )
    partitions_pending_assignment: tuple[OwnedTopicPartitions, ...] = wire(
        Array(Nested(OwnedTopicPartitions)), until=EARLY, default=()
    )
    error: int = wire(INT8, until=EARLY, default=0)
    metadata_version: int = wire(INT16, until=EARLY, default=0)
    metadata_bytes: bytes = wire(BYTES, until=EARLY, default=b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupRegularExpressionKey(Key):
    """Key of a regular expression that members of a consumer group subscribe with."""

    KEY_TYPE: ClassVar[int] = 16

    regular_expression: str = wire(STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupRegularExpressionValue(Value):
    """The topics that match a regular expression; written when resolved, tombstoned when unused."""

    topics: tuple[str, ...] = wire(Array(STRING))
    #: Version of the metadata image it was resolved with; not the version of this message.
    image_version: int = wire(INT64, kafka="version")
    timestamp_ms: int = wire(INT64, kafka="timestamp")
