"""How a classic group becomes a consumer group, and back, while its members stay.

Knows both kinds (``ConsumerGroup.fromClassicGroup``, ``ClassicGroup.fromConsumerGroup``); must not know who asked for
the change, nor what the group does next.
"""

from __future__ import annotations

from collections.abc import Iterable

from groupreplay.codecs import (
    Assignment,
    GroupMetadataKey,
    Subscription,
    TopicPartitions,
    decode_assignment,
    decode_subscription,
    encode_assignment,
)
from groupreplay.state.kafka_terms import CONSUMER_PROTOCOL_TYPE, ConsumerPhase, Phase
from groupreplay.state.model import consumer_records as records
from groupreplay.state.model.assignors import Target
from groupreplay.state.model.books import CoordinatorState
from groupreplay.state.model.classic_group import ClassicGroup, GroupMember
from groupreplay.state.model.consumer_group import (
    ClassicPart,
    ConsumerGroup,
    ConsumerMember,
    Topics,
    metadata_hash,
)
from groupreplay.state.model.consumer_records import Record
from groupreplay.state.model.requests import Answer, Error, Place, Refused


def upgraded(books: CoordinatorState, old: ClassicGroup, written: list[Record]) -> ConsumerGroup:
    """The consumer group that a classic one with members becomes; its records are added to ``written``.

    Whoever waits for an answer is told to join again, even where the upgrade fails after that. Raises
    ``Refused`` for a group that cannot become one.
    """
    most = books.settings.consumer_max_size
    if not books.settings.migrates or old.protocol_type != CONSUMER_PROTOCOL_TYPE or len(old.members) > most:
        raise Refused(Error.GROUP_ID_NOT_FOUND)
    for member in old.members.values():
        for waiting in (member.joining, member.syncing):
            if waiting is not None:
                books.journal.reply(waiting, Answer(error=Error.REBALANCE_IN_PROGRESS))
        member.joining = member.syncing = None
    if old.protocol is None:
        # No generation has been completed, and the broker trips over that.
        raise Refused(Error.UNKNOWN_SERVER_ERROR)
    new = ConsumerGroup(
        group_id=old.group_id,
        changes=books.journal.changes,
        told=old.state,
        epoch=old.generation,
        target_epoch=old.generation,
    )
    for member in old.members.values():
        target = _assigned(member.assignment, books.topics)
        new.targets[member.member_id] = target
        new.members[member.member_id] = _consumer_member(old, member, target)
    new.metadata_hash = metadata_hash(new.members.values(), books.topics)
    written.append((GroupMetadataKey(group=old.group_id), None))
    written += records.created(new)
    return new


def _assigned(assignment: bytes, topics: Topics) -> Target:
    """What a classic member was assigned, as far as the topics are there."""
    if not assignment:
        return frozenset()
    decoded = decode_assignment(assignment)
    if not isinstance(decoded, Assignment) or decoded.user_data:
        # An assignor of its own may have told it more than would survive.
        raise Refused(Error.GROUP_ID_NOT_FOUND)
    return frozenset(
        (topics[one.topic].topic_id, number)
        for one in decoded.assigned_partitions
        if one.topic in topics
        for number in one.partitions
    )


def subscription_of(metadata: bytes) -> Subscription:
    """What a classic member is subscribed to, and owns. Raises ``Refused`` where that cannot be read."""
    decoded = decode_subscription(metadata)
    if not isinstance(decoded, Subscription):
        raise Refused(Error.GROUP_ID_NOT_FOUND)
    return decoded


def _consumer_member(old: ClassicGroup, member: GroupMember, target: Target) -> ConsumerMember:
    subscription = subscription_of(member.metadata(old.protocol))
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
    books: CoordinatorState,
    old: ConsumerGroup,
    written: list[Record],
    now_ms: int,
    *,
    leaving: str,
    joining: ConsumerMember | None = None,
) -> ClassicGroup:
    """Make a consumer group a classic one, Stable, without a member; the records are added to ``written``.

    ``joining`` takes the place of the leaving one, under which the tombstones of it stand already.
    """
    names = [joining.member_id if joining and name == leaving else name for name in old.members]
    written += records.ended(old.group_id, names)
    group = ClassicGroup(
        group_id=old.group_id,
        current_state_timestamp_ms=now_ms,
        changes=books.journal.changes,
        state=Phase.STABLE,
        generation=old.epoch,
    )
    staying = [member for name, member in old.members.items() if name != leaving]
    for member in (*staying, *([joining] if joining else ())):
        group.add(_classic_member(member), CONSUMER_PROTOCOL_TYPE)
    group.resume(group.selected_protocol())
    for member_id, classic in group.members.items():
        places = old.targets.get(leaving if joining and member_id == joining.member_id else member_id, ())
        classic.assignment = encoded(places, classic.metadata(group.protocol), books.topics)
    written.append((GroupMetadataKey(group=group.group_id), group.record()))
    old.become(Phase.STABLE, now_ms)
    books.group = group
    books.timers.clear()
    for classic in group.members.values():
        books.rebalance(group).keep_alive(classic, now_ms)
    return group


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


def encoded(places: Iterable[Place], subscription: bytes, topics: Topics) -> bytes:
    """An assignment as a classic member is told it, in the version of its subscription."""
    names = {topic.topic_id: name for name, topic in topics.items()}
    by_name: dict[str, list[int]] = {}
    for topic, number in sorted(places):
        if topic in names:
            by_name.setdefault(names[topic], []).append(number)
    return encode_assignment(
        Assignment(
            version=subscription_of(subscription).version,
            assigned_partitions=tuple(
                TopicPartitions(topic=name, partitions=tuple(numbers)) for name, numbers in by_name.items()
            ),
        )
    )


def end_empty(books: CoordinatorState, old: ClassicGroup | ConsumerGroup, written: list[Record]) -> None:
    """An empty group of one kind makes room for one of the other kind."""
    if isinstance(old, ConsumerGroup):
        written += records.ended(old.group_id)
    else:
        written.append((GroupMetadataKey(group=old.group_id), None))
    books.timers.clear()


def begun_after(books: CoordinatorState, old: ClassicGroup | None) -> ConsumerGroup:
    """A new consumer group, in the place of an empty classic one or of none."""
    told = ConsumerPhase.DEAD if old is None else old.state
    return ConsumerGroup(group_id=books.group_id, changes=books.journal.changes, told=told)
