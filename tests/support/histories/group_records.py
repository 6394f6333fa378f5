"""The records of consumer, share and streams groups with one interface.

Member states count from 0, as in records of consumer groups; streams groups count from 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import support.histories.modern_builders as consumer
from groupreplay.codecs import consumer as wire
from groupreplay.codecs import share, streams
from support.histories.builders import GROUP, Raw
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

    MEMBER_KEYS = (
        wire.ConsumerGroupCurrentMemberAssignmentKey,
        wire.ConsumerGroupTargetAssignmentMemberKey,
        wire.ConsumerGroupMemberMetadataKey,
    )
    TARGET_EPOCH_KEY = wire.ConsumerGroupTargetAssignmentMetadataKey
    GROUP_KEYS = (wire.ConsumerGroupPartitionMetadataKey, wire.ConsumerGroupMetadataKey)

    def described(self, told: Described) -> Raw:
        """A member's metadata."""
        raw = consumer.described(
            told.member_id, topics=told.topics, regex=told.regex, client_id=told.client_id
        )
        return replace(raw, value=replace(raw.value, client_host=told.host))

    def group_epoch(self, number: int, metadata_hash: int) -> Raw:
        """The group epoch, with the hash of the topics."""
        return consumer.group_epoch(number, metadata_hash)

    def target(self, member_id: str, partitions: Sequence[int]) -> Raw:
        """A member's target assignment."""
        return consumer.target(member_id, partitions)

    def target_epoch(self, number: int) -> Raw:
        """The epoch of the target assignment."""
        return consumer.target_epoch(number)

    def current(self, member_id: str, has: HeldPartitions) -> Raw:
        """A member's current assignment."""
        return consumer.current(
            member_id,
            has.epoch,
            has.assigned,
            state=has.state,
            previous=has.previous,
            revoking=has.revoking,
        )

    def with_first_member(self) -> list[Raw]:
        """Other records of the first join, before the group's epoch."""
        return []

    def left(self, member_id: str) -> list[Raw]:
        """The tombstones of a member, in the coordinator's order."""
        return [Raw(kind(group=GROUP, member_id=member_id), None) for kind in self.MEMBER_KEYS]

    def ended(self) -> list[Raw]:
        """The tombstones of an empty group."""
        return [Raw(kind(group=GROUP), None) for kind in (self.TARGET_EPOCH_KEY, *self.GROUP_KEYS)]


class Share(Consumer):
    """Types 10 to 15."""

    MEMBER_KEYS = (
        share.ShareGroupCurrentMemberAssignmentKey,
        share.ShareGroupTargetAssignmentMemberKey,
        share.ShareGroupMemberMetadataKey,
    )
    TARGET_EPOCH_KEY = share.ShareGroupTargetAssignmentMetadataKey
    GROUP_KEYS = (share.ShareGroupStatePartitionMetadataKey, share.ShareGroupMetadataKey)

    def described(self, told: Described) -> Raw:
        """A member's metadata."""
        value = share.ShareGroupMemberMetadataValue(
            version=0,
            rack_id=None,
            client_id=told.client_id,
            client_host=told.host,
            subscribed_topic_names=told.topics,
        )
        return Raw(share.ShareGroupMemberMetadataKey(group=GROUP, member_id=told.member_id), value)

    def group_epoch(self, number: int, metadata_hash: int) -> Raw:
        """The group epoch, with the hash of the topics."""
        value = share.ShareGroupMetadataValue(version=0, epoch=number, metadata_hash=metadata_hash)
        return Raw(share.ShareGroupMetadataKey(group=GROUP), value)

    def target(self, member_id: str, partitions: Sequence[int]) -> Raw:
        """A member's target assignment."""
        value = share.ShareGroupTargetAssignmentMemberValue(version=0, topic_partitions=_of(partitions))
        return Raw(share.ShareGroupTargetAssignmentMemberKey(group=GROUP, member_id=member_id), value)

    def target_epoch(self, number: int) -> Raw:
        """The epoch of the target assignment."""
        value = share.ShareGroupTargetAssignmentMetadataValue(version=0, assignment_epoch=number)
        return Raw(share.ShareGroupTargetAssignmentMetadataKey(group=GROUP), value)

    def current(self, member_id: str, has: HeldPartitions) -> Raw:
        """A member's current assignment."""
        value = share.ShareGroupCurrentMemberAssignmentValue(
            version=0,
            member_epoch=has.epoch,
            previous_member_epoch=has.previous,
            state=has.state,
            assigned_partitions=_of(has.assigned),
        )
        return Raw(share.ShareGroupCurrentMemberAssignmentKey(group=GROUP, member_id=member_id), value)

    def state_partitions(self, partitions: Sequence[int]) -> Raw:
        """Type 15, which also has the topic's name."""
        topic = share.TopicPartitionsInfo(topic_id=TOPIC_ID, topic_name="t", partitions=tuple(partitions))
        value = share.ShareGroupStatePartitionMetadataValue(
            version=0, initializing_topics=(), initialized_topics=(topic,), deleting_topics=()
        )
        return Raw(share.ShareGroupStatePartitionMetadataKey(group=GROUP), value)


class Streams(Consumer):
    """Types 17 and 19 to 23, with one subtopology."""

    MEMBER_KEYS = (
        streams.StreamsGroupCurrentMemberAssignmentKey,
        streams.StreamsGroupTargetAssignmentMemberKey,
        streams.StreamsGroupMemberMetadataKey,
    )
    TARGET_EPOCH_KEY = streams.StreamsGroupTargetAssignmentMetadataKey
    GROUP_KEYS = (streams.StreamsGroupMetadataKey, streams.StreamsGroupTopologyKey)

    def described(self, told: Described) -> Raw:
        """A member's metadata."""
        value = streams.StreamsGroupMemberMetadataValue(
            version=0,
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
        return Raw(streams.StreamsGroupMemberMetadataKey(group=GROUP, member_id=told.member_id), value)

    def group_epoch(self, number: int, metadata_hash: int, validated: int = 1) -> Raw:
        """The group epoch, with the hash of the topics."""
        value = streams.StreamsGroupMetadataValue(
            version=0, epoch=number, metadata_hash=metadata_hash, validated_topology_epoch=validated
        )
        return Raw(streams.StreamsGroupMetadataKey(group=GROUP), value)

    def target(self, member_id: str, partitions: Sequence[int]) -> Raw:
        """A member's target assignment."""
        tasks = (streams.TaskIds(subtopology_id="0", partitions=tuple(partitions)),) if partitions else ()
        value = streams.StreamsGroupTargetAssignmentMemberValue(
            version=0, active_tasks=tasks, standby_tasks=(), warmup_tasks=()
        )
        return Raw(streams.StreamsGroupTargetAssignmentMemberKey(group=GROUP, member_id=member_id), value)

    def target_epoch(self, number: int) -> Raw:
        """The epoch of the target assignment."""
        value = streams.StreamsGroupTargetAssignmentMetadataValue(version=0, assignment_epoch=number)
        return Raw(streams.StreamsGroupTargetAssignmentMetadataKey(group=GROUP), value)

    def current(self, member_id: str, has: HeldPartitions) -> Raw:
        """A member's current assignment."""
        none: dict[str, Any] = {
            f"{role}_tasks{suffix}": ()
            for role in ("active", "standby", "warmup")
            for suffix in ("", "_pending_revocation")
        }
        held = {
            "active_tasks": _tasks(has.assigned),
            "active_tasks_pending_revocation": _tasks(has.revoking),
        }
        value = streams.StreamsGroupCurrentMemberAssignmentValue(
            version=0,
            member_epoch=has.epoch,
            previous_member_epoch=has.previous,
            state=has.state + 1,
            **{**none, **held},
        )
        return Raw(streams.StreamsGroupCurrentMemberAssignmentKey(group=GROUP, member_id=member_id), value)

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
        value = streams.StreamsGroupTopologyValue(version=0, epoch=epoch, subtopologies=(part,))
        return Raw(streams.StreamsGroupTopologyKey(group=GROUP), value)

    def with_first_member(self) -> list[Raw]:
        """The topology."""
        return [self.topology(1)]


def _of(partitions: Sequence[int]) -> tuple[wire.TopicIdPartitions, ...]:
    return (wire.TopicIdPartitions(topic_id=TOPIC_ID, partitions=tuple(partitions)),) if partitions else ()


def _tasks(partitions: Sequence[int]) -> tuple[streams.OwnedTaskIds, ...]:
    owned = streams.OwnedTaskIds(subtopology_id="0", partitions=tuple(partitions), assignment_epochs=None)
    return (owned,) if partitions else ()
