"""Upgrades of a classic group to a consumer group and downgrades back, while the members stay.

After ``ConsumerGroup.fromClassicGroup`` and ``ClassicGroup.fromConsumerGroup``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from groupreplay.codecs import (
    Assignment,
    Subscription,
    TopicPartitions,
    decode_assignment,
    decode_subscription,
    encode_blob,
)
from groupreplay.codecs.kafka_terms import CONSUMER_PROTOCOL_TYPE, ConsumerPhase, Phase
from groupreplay.coordinator.classic.classic_group import ClassicGroup, GroupMember, group_tombstone
from groupreplay.coordinator.classic.rebalance import Rebalance
from groupreplay.coordinator.consumer import records
from groupreplay.coordinator.consumer.assignors import Target
from groupreplay.coordinator.consumer.consumer_group import (
    ClassicPart,
    ConsumerGroup,
    ConsumerMember,
    Topics,
    metadata_hash,
)
from groupreplay.coordinator.coordinator_state import CoordinatorState
from groupreplay.coordinator.java_maps import HashOrder, uuid_hash
from groupreplay.coordinator.requests import Error, Record, Refused, TopicIdPartition


def upgrade(coordinator: CoordinatorState, old: ClassicGroup, written: list[Record]) -> ConsumerGroup:
    """Make a classic group with members a consumer group; the records are added to ``written``.

    Members with unanswered requests are told to rejoin, even if the upgrade fails after that. Raises ``Refused``
    for a group that cannot be upgraded.
    """
    most = coordinator.settings.consumer_max_size
    if (
        not coordinator.settings.upgrades
        or old.protocol_type != CONSUMER_PROTOCOL_TYPE
        or len(old.members) > most
    ):
        raise Refused(Error.GROUP_ID_NOT_FOUND)
    for member in old.in_map_order():
        coordinator.journal.refuse_pending(member, Error.REBALANCE_IN_PROGRESS)
    if old.members and old.protocol is None:
        # No generation has been completed; the broker answers with an internal error.
        raise Refused(Error.UNKNOWN_SERVER_ERROR)
    new = ConsumerGroup(
        group_id=old.group_id,
        changes=coordinator.journal.changes,
        last_state=old.state,
        epoch=old.generation,
        target_epoch=old.generation,
        is_upgrade=True,
    )
    for member in old.in_map_order():
        target = _assigned(member.assignment, coordinator.topics)
        new.targets[member.member_id] = target
        new.members[member.member_id] = _consumer_member(old, member, target)
    partitions = {topic.topic_id: topic.partitions for topic in coordinator.topics.values()}
    targets = (partition for target in new.targets.values() for partition in target)
    new.has_strays = any(not 0 <= number < partitions[topic] for topic, number in targets)
    new.metadata_hash = metadata_hash(new.members.values(), coordinator.topics)
    written.append(group_tombstone(old.group_id))
    written += records.whole_group(new)
    return new


def _assigned(assignment: bytes, topics: Topics) -> Target:
    """The partitions assigned to a classic member, of topics that exist. Raises ``Refused`` for user data."""
    if not assignment:
        return frozenset()
    decoded = decode_assignment(assignment)
    if not isinstance(decoded, Assignment) or decoded.user_data:
        # The user data of a custom assignor would be lost.
        raise Refused(Error.GROUP_ID_NOT_FOUND)
    return partition_ids(decoded.assigned_partitions, topics)


def partition_ids(named: Iterable[TopicPartitions], topics: Topics) -> Target:
    """Partitions by topic id, of topics that exist."""
    return frozenset(
        (topics[one.topic].topic_id, number)
        for one in named
        if one.topic in topics
        for number in one.partitions
    )


def decode_member_subscription(metadata: bytes) -> Subscription:
    """A classic member's subscription. Raises ``Refused`` when it cannot be decoded."""
    decoded = decode_subscription(metadata)
    if not isinstance(decoded, Subscription):
        raise Refused(Error.GROUP_ID_NOT_FOUND)
    return decoded


def _consumer_member(old: ClassicGroup, member: GroupMember, target: Target) -> ConsumerMember:
    if all(protocol.name != old.protocol for protocol in member.protocols):
        # It joined for the next generation, which may choose another protocol; Kafka throws.
        raise Refused(Error.UNKNOWN_SERVER_ERROR)
    subscription = decode_member_subscription(member.metadata(old.protocol))
    return ConsumerMember(
        member_id=member.member_id,
        epoch=old.generation,
        previous_epoch=old.generation,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topics=tuple(sorted(set(subscription.topics))),
        assigned=dict.fromkeys(target, old.generation),
        classic=ClassicPart(session_timeout_ms=member.session_timeout_ms, protocols=member.protocols),
    )


def downgrade(
    coordinator: CoordinatorState,
    old: ConsumerGroup,
    written: list[Record],
    now_ms: int,
    *,
    leaving: Collection[str],
    joining: ConsumerMember | None = None,
    generation: int | None = None,
) -> ClassicGroup:
    """Make a consumer group a Stable classic group without the leaving members; the records are added to ``written``.

    ``joining`` replaces a single leaving member, whose tombstones are already in ``written``.
    """
    names = [joining.member_id if joining and name in leaving else name for name in old.members]
    written += records.group_tombstones(old.group_id, names, old.regexes)
    group = ClassicGroup(
        group_id=old.group_id,
        current_state_timestamp_ms=now_ms,
        changes=coordinator.journal.changes,
        state=Phase.STABLE,
        generation=old.epoch if generation is None else generation,
    )
    staying = [member for name, member in old.members.items() if name not in leaving]
    for member in (*staying, *([joining] if joining else ())):
        group.add(_classic_member(member), CONSUMER_PROTOCOL_TYPE)
    group.resume(group.selected_protocol())
    for member_id, classic in group.members.items():
        replaced = leaving if joining and member_id == joining.member_id else (member_id,)
        partitions = [partition for name in replaced for partition in old.targets.get(name, ())]
        classic.assignment = encode_classic_assignment(
            partitions, classic.metadata(group.protocol), coordinator.topics
        )
    written.append(group.record())
    old.transition_to(Phase.STABLE, now_ms)
    coordinator.group = group
    for classic in group.members.values():
        Rebalance(coordinator, group).keep_alive(classic, now_ms)
    return group


def trace_downgrade(coordinator: CoordinatorState) -> None:
    """Kafka logs it after the rebalance for a member that leaves, and before the one for a stale assignment."""
    says = "[GroupId %s] Converted the consumer group to a classic group."
    coordinator.trace.branch("convertToClassicGroup", says, coordinator.group_id)


def _classic_member(member: ConsumerMember) -> GroupMember:
    assert member.classic is not None
    return GroupMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols=member.classic.protocols,
    )


def encode_classic_assignment(
    partitions: Iterable[TopicIdPartition], subscription: bytes, topics: Topics
) -> bytes:
    """A classic member's assignment, in the version of its subscription; topics in the order of a hash map of ids."""
    names = {topic.topic_id: name for name, topic in topics.items()}
    numbers = dict(records.by_topic(partitions))
    return encode_blob(
        Assignment(
            version=decode_member_subscription(subscription).version,
            assigned_partitions=tuple(
                TopicPartitions(topic=names[topic], partitions=tuple(numbers[topic]))
                for topic in HashOrder(uuid_hash, numbers)
                if topic in names
            ),
        )
    )


def empty_tombstones(old: ClassicGroup | ConsumerGroup) -> list[Record]:
    """The tombstones of an empty group that a group of the other type replaces."""
    if isinstance(old, ConsumerGroup):
        return records.group_tombstones(old.group_id)
    return [group_tombstone(old.group_id)]


def new_consumer_group(coordinator: CoordinatorState, old: ClassicGroup | None) -> ConsumerGroup:
    """A new consumer group, which may replace an empty classic group."""
    last_state = ConsumerPhase.DEAD if old is None else old.state
    return ConsumerGroup(
        group_id=coordinator.group_id, changes=coordinator.journal.changes, last_state=last_state
    )
