"""Records of streams groups (KIP-1071): types 17 and 19 to 23."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from groupreplay.codecs.composites import Array, Nested
from groupreplay.codecs.primitives import INT8, INT16, INT32, INT64, STRING, UINT16
from groupreplay.codecs.schema import Key, Struct, Value, wire


@dataclass(frozen=True, slots=True, kw_only=True)
class LastAssignmentConfig(Struct):
    """A setting of the last assignment."""

    key: str = wire(STRING)
    value: str = wire(STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupMetadataKey(Key):
    """Key of a streams group's epoch."""

    KEY_TYPE: ClassVar[int] = 17


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupMetadataValue(Value):
    """The group epoch; written when members, topics or topology changed, tombstoned when the group is deleted.

    4.2 added the validated topology and the assignment's settings, 4.4 the state of the topology description.
    """

    epoch: int = wire(INT32)
    metadata_hash: int = wire(INT64)
    validated_topology_epoch: int = wire(INT32, tag=0, default=-1)
    last_assignment_configs: tuple[LastAssignmentConfig, ...] | None = wire(
        Array(Nested(LastAssignmentConfig)), tag=1, nullable=True, default=None, omitted=()
    )
    #: -1 for none, -2 for uncertain.
    stored_description_topology_epoch: int = wire(INT32, tag=2, default=-1)
    failed_description_topology_epoch: int = wire(INT32, tag=3, default=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupMemberMetadataKey(Key):
    """Key of a streams group member."""

    KEY_TYPE: ClassVar[int] = 19

    member_id: str = wire(STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint(Struct):
    """Where a member answers interactive queries."""

    host: str = wire(STRING)
    port: int = wire(UINT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyValue(Struct):
    """A client tag, for rack-aware standby tasks."""

    key: str = wire(STRING)
    value: str = wire(STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupMemberMetadataValue(Value):
    """A member's description of itself; written when it joins or changes, tombstoned when it has left."""

    instance_id: str | None = wire(STRING, nullable=True)
    rack_id: str | None = wire(STRING, nullable=True)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    rebalance_timeout_ms: int = wire(INT32, default=-1)
    topology_epoch: int = wire(INT32)
    process_id: str = wire(STRING)
    user_endpoint: Endpoint | None = wire(  # noqa: RUF009 - `wire` is dataclasses.field
        Nested(Endpoint), nullable=True, default=None
    )
    client_tags: tuple[KeyValue, ...] = wire(Array(Nested(KeyValue)))


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupTargetAssignmentMetadataKey(Key):
    """Key of the epoch of a streams group's target assignment."""

    KEY_TYPE: ClassVar[int] = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupTargetAssignmentMetadataValue(Value):
    """The epoch of the target assignment; written after its members (type 21), tombstoned with the group.

    4.3 added when the assignment was made (KIP-1263).
    """

    assignment_epoch: int = wire(INT32)
    assignment_timestamp_ms: int = wire(INT64, tag=0, default=0, kafka="assignmentTimestamp")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskIds(Struct):
    """Tasks of one subtopology."""

    subtopology_id: str = wire(STRING)
    partitions: tuple[int, ...] = wire(Array(INT32))


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedTaskIds(Struct):
    """Tasks of one subtopology that a member holds, and since which epoch it holds each (added in 4.2)."""

    subtopology_id: str = wire(STRING)
    partitions: tuple[int, ...] = wire(Array(INT32))
    assignment_epochs: tuple[int, ...] | None = wire(
        Array(INT32), tag=0, nullable=True, default=None, omitted=()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupTargetAssignmentMemberKey(Key):
    """Key of one member's target assignment."""

    KEY_TYPE: ClassVar[int] = 21

    member_id: str = wire(STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupTargetAssignmentMemberValue(Value):
    """The tasks that a member is to run in the end; written when the assignor changed it, tombstoned with it."""

    active_tasks: tuple[TaskIds, ...] = wire(Array(Nested(TaskIds)))
    standby_tasks: tuple[TaskIds, ...] = wire(Array(Nested(TaskIds)))
    warmup_tasks: tuple[TaskIds, ...] = wire(Array(Nested(TaskIds)))


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupCurrentMemberAssignmentKey(Key):
    """Key of one member's current assignment."""

    KEY_TYPE: ClassVar[int] = 22

    member_id: str = wire(STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupCurrentMemberAssignmentValue(Value):
    """The tasks that a member runs and must revoke; written at every step of its reconciliation, tombstoned with it.

    4.2 added the epochs of the tasks.
    """

    member_epoch: int = wire(INT32)
    previous_member_epoch: int = wire(INT32)
    #: 1 stable, 2 unrevoked tasks, 3 unreleased tasks: one more than the same states of a consumer member.
    state: int = wire(INT8)
    active_tasks: tuple[OwnedTaskIds, ...] = wire(Array(Nested(OwnedTaskIds)))
    standby_tasks: tuple[OwnedTaskIds, ...] = wire(Array(Nested(OwnedTaskIds)))
    warmup_tasks: tuple[OwnedTaskIds, ...] = wire(Array(Nested(OwnedTaskIds)))
    active_tasks_pending_revocation: tuple[OwnedTaskIds, ...] = wire(Array(Nested(OwnedTaskIds)))
    standby_tasks_pending_revocation: tuple[OwnedTaskIds, ...] = wire(Array(Nested(OwnedTaskIds)))
    warmup_tasks_pending_revocation: tuple[OwnedTaskIds, ...] = wire(Array(Nested(OwnedTaskIds)))


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupTopologyKey(Key):
    """Key of a streams group's topology."""

    KEY_TYPE: ClassVar[int] = 23


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig(Struct):
    """A setting of an internal topic."""

    key: str = wire(STRING)
    value: str = wire(STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopic(Struct):
    """A topic that Kafka Streams creates; 0 partitions or replicas: the number is not fixed."""

    name: str = wire(STRING)
    partitions: int = wire(INT32)
    replication_factor: int = wire(INT16)
    topic_configs: tuple[TopicConfig, ...] = wire(Array(Nested(TopicConfig)))


@dataclass(frozen=True, slots=True, kw_only=True)
class CopartitionGroup(Struct):
    """Topics that must have equally many partitions; numbers index the subtopology's own lists."""

    source_topics: tuple[int, ...] = wire(Array(INT16))
    source_topic_regex: tuple[int, ...] = wire(Array(INT16))
    repartition_source_topics: tuple[int, ...] = wire(Array(INT16))


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtopology(Struct):
    """A part of the topology whose tasks run together."""

    subtopology_id: str = wire(STRING)
    source_topics: tuple[str, ...] = wire(Array(STRING))
    source_topic_regex: tuple[str, ...] = wire(Array(STRING))
    state_changelog_topics: tuple[InternalTopic, ...] = wire(Array(Nested(InternalTopic)))
    repartition_sink_topics: tuple[str, ...] = wire(Array(STRING))
    repartition_source_topics: tuple[InternalTopic, ...] = wire(Array(Nested(InternalTopic)))
    copartition_groups: tuple[CopartitionGroup, ...] = wire(Array(Nested(CopartitionGroup)))


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupTopologyValue(Value):
    """The topology; written when the group is made or a newer one arrives, tombstoned with the group."""

    epoch: int = wire(INT32)
    subtopologies: tuple[Subtopology, ...] = wire(Array(Nested(Subtopology)))
