"""The records of consumer, share and streams groups with one interface.

Member states count from 0, as in records of consumer groups; streams groups count from 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import support.histories.modern_builders as consumer
from groupreplay.codecs import consumer as wire
from groupreplay.codecs import share, streams
from support.histories.builders import Raw
from support.histories.modern_builders import TOPIC_ID


@dataclass(frozen=True)
class Described:
    """The metadata of a member; ``topics`` is empty for a subscription by ``regex``."""

    member_id: str
    client_id: str
    host: str = "/h"
    topics: tuple[str, ...] = ("t",)
    regex: str = ""


@dataclass(frozen=True)
class HeldPartitions:
    """A member's partitions and epochs."""

    epoch: int
    previous: int = 0
    state: int = consumer.STABLE
    assigned: tuple[int, ...] = ()
    revoking: tuple[int, ...] = ()


class Consumer:
    """Types 3, 5 to 8 and 16; type 4 is only ever tombstoned, as since 4.1."""

    MODULE: ModuleType = wire
    PREFIX = "ConsumerGroup"
    #: The keys without a member id that the end of the group tombstones, in Kafka's order.
    GROUP_KEYS: tuple[str, ...] = ("TargetAssignmentMetadata", "PartitionMetadata", "Metadata")

    def record(self, name: str, member_id: str | None = None, **fields: Any) -> Raw:
        """A record by the name of its type; a tombstone without fields."""
        return consumer.record(name, member_id, module=self.MODULE, prefix=self.PREFIX, **fields)

    def described(self, told: Described) -> Raw:
        """A member's metadata."""
        raw = consumer.described(
            told.member_id, topics=told.topics, regex=told.regex, client_id=told.client_id
        )
        return replace(raw, value=replace(raw.value, client_host=told.host))

    def group_epoch(self, number: int, metadata_hash: int) -> Raw:
        """The group epoch, with the hash of the topics."""
        return self.record("Metadata", epoch=number, metadata_hash=metadata_hash)

    def target(self, member_id: str, partitions: Sequence[int]) -> Raw:
        """A member's target assignment."""
        return self.record("TargetAssignmentMember", member_id, topic_partitions=_of(partitions))

    def target_epoch(self, number: int) -> Raw:
        """The epoch of the target assignment."""
        return self.record("TargetAssignmentMetadata", assignment_epoch=number)

    def current(self, member_id: str, has: HeldPartitions) -> Raw:
        """A member's current assignment."""
        return consumer.current(
            member_id, has.epoch, has.assigned, state=has.state, previous=has.previous, revoking=has.revoking
        )

    def with_first_member(self) -> list[Raw]:
        """Other records of the first join, before the group's epoch."""
        return []

    def left(self, member_id: str) -> list[Raw]:
        """The tombstones of a member, in the coordinator's order."""
        names = ("CurrentMemberAssignment", "TargetAssignmentMember", "MemberMetadata")
        return [self.record(name, member_id) for name in names]

    def ended(self) -> list[Raw]:
        """The tombstones of an empty group."""
        return [self.record(name) for name in self.GROUP_KEYS]


class Share(Consumer):
    """Types 10 to 15."""

    MODULE = share
    PREFIX = "ShareGroup"
    GROUP_KEYS = ("TargetAssignmentMetadata", "StatePartitionMetadata", "Metadata")

    def described(self, told: Described) -> Raw:
        """A member's metadata."""
        return self.record(
            "MemberMetadata",
            told.member_id,
            rack_id=None,
            client_id=told.client_id,
            client_host=told.host,
            subscribed_topic_names=told.topics,
        )

    def current(self, member_id: str, has: HeldPartitions) -> Raw:
        """A member's current assignment."""
        return self.record(
            "CurrentMemberAssignment",
            member_id,
            member_epoch=has.epoch,
            previous_member_epoch=has.previous,
            state=has.state,
            assigned_partitions=_of(has.assigned),
        )

    def state_partitions(self, partitions: Sequence[int]) -> Raw:
        """Type 15: the topic, with its name, is being initialised."""
        topic = share.TopicPartitionsInfo(topic_id=TOPIC_ID, topic_name="t", partitions=tuple(partitions))
        return self.record(
            "StatePartitionMetadata", initializing_topics=(topic,), initialized_topics=(), deleting_topics=()
        )


class Streams(Consumer):
    """Types 17 and 19 to 23, with one subtopology."""

    MODULE = streams
    PREFIX = "StreamsGroup"
    GROUP_KEYS = ("TargetAssignmentMetadata", "Metadata", "Topology")

    def described(self, told: Described) -> Raw:
        """A member's metadata."""
        return self.record(
            "MemberMetadata",
            told.member_id,
            instance_id=None,
            rack_id=None,
            client_id=told.client_id,
            client_host=told.host,
            rebalance_timeout_ms=30_000,
            topology_epoch=1,
            process_id="p",
            user_endpoint=None,
            client_tags=(),
        )

    def group_epoch(self, number: int, metadata_hash: int, validated: int = 1) -> Raw:
        """The group epoch, with the hash of the topics."""
        return self.record(
            "Metadata", epoch=number, metadata_hash=metadata_hash, validated_topology_epoch=validated
        )

    def target(self, member_id: str, partitions: Sequence[int]) -> Raw:
        """A member's target assignment."""
        tasks = (streams.TaskIds(subtopology_id="0", partitions=tuple(partitions)),) if partitions else ()
        return self.record(
            "TargetAssignmentMember", member_id, active_tasks=tasks, standby_tasks=(), warmup_tasks=()
        )

    def current(self, member_id: str, has: HeldPartitions) -> Raw:
        """A member's current assignment."""
        none = {
            f"{role}_tasks{suffix}": ()
            for role in ("active", "standby", "warmup")
            for suffix in ("", "_pending_revocation")
        }
        held = {"active_tasks": _tasks(has.assigned), "active_tasks_pending_revocation": _tasks(has.revoking)}
        return self.record(
            "CurrentMemberAssignment",
            member_id,
            member_epoch=has.epoch,
            previous_member_epoch=has.previous,
            state=has.state + 1,
            **{**none, **held},
        )

    def topology(self, epoch: int) -> Raw:
        """Type 23: source topic ``t`` and a repartition topic ``again``."""
        internal = streams.InternalTopic(name="again", partitions=2, replication_factor=1, topic_configs=())
        part = streams.Subtopology(
            subtopology_id="0",
            source_topics=("t",),
            source_topic_regex=(),
            state_changelog_topics=(),
            repartition_sink_topics=(),
            repartition_source_topics=(internal,),
            copartition_groups=(),
        )
        return self.record("Topology", epoch=epoch, subtopologies=(part,))

    def with_first_member(self) -> list[Raw]:
        """The topology."""
        return [self.topology(1)]


def _of(partitions: Sequence[int]) -> tuple[wire.TopicIdPartitions, ...]:
    return (wire.TopicIdPartitions(topic_id=TOPIC_ID, partitions=tuple(partitions)),) if partitions else ()


def _tasks(partitions: Sequence[int]) -> tuple[streams.OwnedTaskIds, ...]:
    owned = streams.OwnedTaskIds(subtopology_id="0", partitions=tuple(partitions), assignment_epochs=None)
    return (owned,) if partitions else ()
