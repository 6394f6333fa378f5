"""The records of a consumer group (``GroupCoordinatorRecordHelpers``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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
from groupreplay.coordinator.consumer.assignors import Target
from groupreplay.coordinator.consumer.consumer_group import ClassicPart, ConsumerGroup, ConsumerMember
from groupreplay.coordinator.consumer.subscriptions import RegexChange, ResolvedRegex
from groupreplay.coordinator.requests import Record, TopicIdPartition
from groupreplay.coordinator.trace import Trace
from groupreplay.coordinator.trace_entries import AssignmentEntry, EpochEntry, ReconciliationEntry

#: The reasons of a trace.
_JOINED: Final = "joins the consumer group using the %s protocol"
_REJOINED: Final = "its instance id has joined again using the %s protocol"
SUBSCRIBED: Final = "a member's subscription has changed"
ASSIGNOR: Final = "the assignor that most members prefer has changed"
REGEX: Final = "the topics of a regular expression have changed"
TOPICS: Final = "the subscribed topics have changed"
#: Kafka's names of a member's states (``MemberState``).
_STATES: Final = {
    MemberPhase.STABLE: "STABLE",
    MemberPhase.UNREVOKED: "UNREVOKED_PARTITIONS",
    MemberPhase.UNRELEASED: "UNRELEASED_PARTITIONS",
    MemberPhase.UNKNOWN: "UNKNOWN",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberUpdate:
    """A member before and after a request; ``replaces`` is the static member whose instance id it takes over."""

    before: ConsumerMember
    after: ConsumerMember
    replaces: ConsumerMember | None = None

    @property
    def names_changed(self) -> bool:
        """Whether the request changes the subscribed topics."""
        return self.before.topics != self.after.topics

    @property
    def regex(self) -> RegexChange:
        """The member's regular expressions."""
        return RegexChange(before=self.before.topic_regex, after=self.after.topic_regex)

    @property
    def subscription_changed(self) -> bool:
        """Whether the request changes the subscribed topics or the regular expression."""
        return self.names_changed or self.before.topic_regex != self.after.topic_regex


def trace_update(trace: Trace, group: ConsumerGroup, update: MemberUpdate) -> None:
    """A member joins, takes the place of another, or changes its subscription."""
    after, old = update.after, update.replaces
    if not trace.on:
        return
    protocol = "consumer" if after.classic is None else "classic"
    if old is not None:
        trace.member("replaced", old.member_id, old.instance_id, _REJOINED % protocol, after.member_id)
    elif after.member_id not in group.members:
        trace.member("added", after.member_id, after.instance_id, _JOINED % protocol)
    if update.names_changed:
        says = "[GroupId %s] Member %s updated its subscribed topics to: [%s]."
        topics = ", ".join(after.topics)
        trace.branch("hasMemberSubscriptionChanged", says, group.group_id, after.member_id, topics)


def trace_epoch(trace: Trace, group: ConsumerGroup, reason: str) -> None:
    """The group epoch has risen."""
    if trace.on:
        digest = group.metadata_hash
        trace.add(EpochEntry(*trace.here, epoch=group.epoch, metadata_hash=digest, reason=reason))


def trace_assignment(
    trace: Trace,
    group: ConsumerGroup,
    chosen: tuple[str, Mapping[str, int]],
    targets: Mapping[str, Target] | None,
    delayed_until_ms: int | None,
) -> None:
    """A target assignment is computed by the chosen assignor, or delayed (``targets`` None)."""
    if trace.on:
        assignor, votes = chosen
        trace.add(
            AssignmentEntry(
                *trace.here,
                epoch=group.epoch,
                assignor=None if targets is None else assignor,
                votes=votes,
                targets={name: len(target) for name, target in (targets or {}).items()},
                delayed_until_ms=delayed_until_ms,
            )
        )


def trace_reconciliation(trace: Trace, member: ConsumerMember, moved: ConsumerMember, target: Target) -> None:
    """A member has moved one step."""
    if trace.on:
        waits = moved.phase is MemberPhase.UNRELEASED
        trace.add(
            ReconciliationEntry(
                *trace.here,
                member_id=moved.member_id,
                before=_STATES[member.phase],
                after=_STATES[moved.phase],
                epoch_before=member.epoch,
                epoch_after=moved.epoch,
                assigned=len(moved.assigned),
                revoking=len(moved.revoking),
                unreleased=len(target - moved.assigned.keys()) if waits else 0,
            )
        )


_VERSION: Final = 0
_RECORDED_STATES: Final[Mapping[MemberPhase, int]] = {
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
    protocols = tuple(
        ClassicProtocol(name=protocol.name, metadata=protocol.metadata) for protocol in part.protocols
    )
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
        state=_RECORDED_STATES[member.phase],
        assigned_partitions=_owned(member.assigned),
        partitions_pending_revocation=_owned(member.revoking),
    )
    return ConsumerGroupCurrentMemberAssignmentKey(group=group_id, member_id=member.member_id), value


def _owned(owned: Mapping[TopicIdPartition, int]) -> tuple[OwnedTopicPartitions, ...]:
    return tuple(
        OwnedTopicPartitions(
            topic_id=topic,
            partitions=tuple(numbers),
            assignment_epochs=tuple(owned[topic, number] for number in numbers),
        )
        for topic, numbers in by_topic(owned)
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
    owned, targets, described_by = (
        [(key(group=group_id, member_id=name), None) for name in names] for key in _MEMBER_KEYS
    )
    return [
        *owned,
        *targets,
        (ConsumerGroupTargetAssignmentMetadataKey(group=group_id), None),
        *described_by,
        *(regular_expression(group_id, expression, None) for expression in expressions),
        (ConsumerGroupPartitionMetadataKey(group=group_id), None),
        (ConsumerGroupMetadataKey(group=group_id), None),
    ]
