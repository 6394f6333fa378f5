"""The members of a consumer group as a request finds and changes them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from groupreplay.codecs.consumer import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from groupreplay.codecs.kafka_terms import MemberPhase, java_hash
from groupreplay.coordinator.consumer import records
from groupreplay.coordinator.consumer.assignors import Target
from groupreplay.coordinator.consumer.consumer_group import AWAY, ConsumerGroup, ConsumerMember
from groupreplay.coordinator.consumer.subscriptions import ResolvedRegex
from groupreplay.coordinator.java_maps import HashOrder, TimelineMap, buckets_for
from groupreplay.coordinator.requests import (
    ConsumerGroupHeartbeat,
    Error,
    Record,
    Refused,
    Settings,
    TopicIdPartition,
)


def validate_heartbeat(request: ConsumerGroupHeartbeat, group_id: str, assignors: Sequence[str]) -> None:
    """The checks that do not need the group (``throwIfConsumerGroupHeartbeatRequestIsInvalid``)."""
    joins = request.member_epoch == 0
    subscribes = request.topics is not None or request.topic_regex is not None
    incomplete = request.rebalance_timeout_ms == -1 or not subscribes or request.owned != frozenset()
    if not group_id or not request.member_id or request.member_epoch < AWAY or (joins and incomplete):
        raise Refused(Error.INVALID_REQUEST)
    if request.member_epoch == AWAY and request.instance_id is None:
        raise Refused(Error.INVALID_REQUEST)
    if request.assignor is not None and request.assignor not in assignors:
        raise Refused(Error.UNSUPPORTED_ASSIGNOR)


def check_size(group: ConsumerGroup, settings: Settings, member_id: str, instance_id: str | None) -> None:
    """Raises ``Refused`` for a new member of a full group; since Kafka 4.4 not for the return of a static one."""
    known = member_id in group.members
    known |= settings.since_4_4 and group.static_member(instance_id) is not None
    if len(group.members) >= settings.consumer_max_size and not known:
        raise Refused(Error.GROUP_MAX_SIZE_REACHED)


def validate_epoch(member: ConsumerMember, request: ConsumerGroupHeartbeat) -> None:
    """Raises ``Refused`` for a wrong epoch. The previous epoch is valid: the last answer may have been lost."""
    if request.member_epoch == member.epoch:
        return
    lost = request.member_epoch == member.previous_epoch and request.member_epoch < member.epoch
    if not lost or request.owned is None or not request.owned <= set(member.assigned):
        raise Refused(Error.FENCED_MEMBER_EPOCH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """The input of a member's next step.

    ``subscribed`` are ids of topics, ``subscribes`` also counts topics that do not exist; ``taken`` are partitions that
    any member owns or has not revoked yet. ``owned`` are the partitions that the request names as owned; None when it
    names none: then nothing counts as revoked.
    """

    target_epoch: int
    target: Collection[TopicIdPartition]
    subscribed: frozenset[bytes]
    subscribes: bool
    taken: Collection[TopicIdPartition]
    owned: frozenset[TopicIdPartition] | None
    subscription_changed: bool

    def step(self, member: ConsumerMember) -> ConsumerMember:
        """The member after this step; the same member when no step is possible."""
        revokes = member.phase is MemberPhase.UNREVOKED and self._still_has(member.revoking)
        if revokes or member.is_reconciled_to(self.target_epoch):
            return self._without_unsubscribed(member) if self.subscription_changed else member
        return self._next(member)

    def _still_has(self, revoking: Mapping[TopicIdPartition, int]) -> bool:
        return self.owned is None or any(partition in revoking for partition in self.owned)

    def _without_unsubscribed(self, member: ConsumerMember) -> ConsumerMember:
        """Revoke partitions of topics that are no longer subscribed, without waiting for a new target."""
        kept = {
            partition: since
            for partition, since in member.assigned.items()
            if partition[0] in self.subscribed
        }
        # Kafka compares object identities here: a member without subscribed topics is always written anew, except
        # one that was never written.
        unsubscribed = not self.subscribes and not member.revoking and member.previous_epoch >= 0
        if len(kept) == len(member.assigned) and not unsubscribed:
            return member
        revoked = {partition: since for partition, since in member.assigned.items() if partition not in kept}
        revoking = {**member.revoking, **revoked}
        moved = replace(member, previous_epoch=member.epoch, assigned=kept)
        if revoking and self._still_has(revoking):
            return replace(moved, phase=MemberPhase.UNREVOKED, revoking=revoking)
        return moved

    def _next(self, member: ConsumerMember) -> ConsumerMember:
        target = {partition for partition in self.target if partition[0] in self.subscribed}
        kept = {partition: since for partition, since in member.assigned.items() if partition in target}
        revoking = {
            partition: since for partition, since in member.assigned.items() if partition not in target
        }
        if revoking and self._still_has(revoking):
            return replace(
                member,
                phase=MemberPhase.UNREVOKED,
                previous_epoch=member.epoch,
                assigned=kept,
                revoking=revoking,
            )
        missing = target - kept.keys()
        unreleased = {
            partition for partition in missing if partition in self.taken and partition not in member.revoking
        }
        return replace(
            member,
            phase=MemberPhase.UNRELEASED if unreleased else MemberPhase.STABLE,
            epoch=self.target_epoch,
            previous_epoch=member.epoch,
            assigned={**kept, **dict.fromkeys(missing - unreleased, self.target_epoch)},
            revoking={},
        )


def find_member(
    group: ConsumerGroup,
    member_id: str,
    instance_id: str | None,
    *,
    joins: bool,
    classic: bool,
    written: list[Record],
) -> tuple[ConsumerMember, ConsumerMember | None]:
    """The member that sent the request, and the static member that it replaces.

    Raises ``Refused`` for a member that is unknown or fenced, and for an instance id that is still in use.
    """
    if not joins:
        return group.validate_member(member_id, instance_id), None
    holder = group.static_member(instance_id)
    if holder is None:
        return group.members.get(member_id) or ConsumerMember(member_id=member_id), None
    if not classic and holder.classic is None and holder.epoch != AWAY:
        raise Refused(Error.UNRELEASED_INSTANCE_ID)
    back = replace(holder, member_id=member_id, epoch=0, previous_epoch=0)
    written += records.member_replacement(group, holder, back)
    return back, holder


def settle_empty(group: ConsumerGroup) -> Record:
    """The record with which the target epoch of a group without members follows the group epoch (KAFKA-20442).

    So the group is not Assigning. Without a time, the next member gets its assignment at once.
    """
    group.target_epoch, group.target_timestamp_ms = group.epoch, 0
    return records.target_assignment_metadata(group.group_id, group.epoch, 0)


def members_after(group: ConsumerGroup, update: records.MemberUpdate) -> list[ConsumerMember]:
    """The group's members after the update, in the group's order and the changed one last."""
    gone = update.after.member_id if update.replaces is None else update.replaces.member_id
    kept = (member for name, member in group.members.items() if name not in (gone, update.after.member_id))
    return [*kept, update.after]


def members_with(
    group: ConsumerGroup, update: records.MemberUpdate, settings: Settings
) -> dict[str, ConsumerMember]:
    """The group's members after the update, in the order in which an assignor goes through them.

    That is the order of a ``HashMap`` that is filled from the group's own table (``TargetAssignmentBuilder``). Since
    Kafka 4.4 a member that is replaced does not come into it (``UpdatedMembersAndTargetAssignmentView``).
    """
    after, old = update.after, update.replaces
    if settings.since_4_4:
        gone = None if old is None or old.member_id == after.member_id else old.member_id
        filled = [*(name for name in group.members if name != gone), after.member_id]
        return {
            name: after if name == after.member_id else group.members[name]
            for name in HashOrder(java_hash, filled)
        }
    order = HashOrder(java_hash, group.members)
    changed = [after.member_id] if old is None else [after.member_id, old.member_id]
    for name in HashOrder(java_hash, changed):
        if name == after.member_id:
            order.add(name)
        else:
            order.discard(name)
    return {name: after if name == after.member_id else group.members[name] for name in order}


def known_targets(
    group: ConsumerGroup, update: records.MemberUpdate, settings: Settings
) -> Mapping[str, Target]:
    """The targets that a new one is compared with: only one that differs is written.

    Before Kafka 4.4 a static member that takes the place of another has none yet, and its target is written twice.
    """
    old = None if update.replaces is None else group.targets.get(update.replaces.member_id)
    if old is None or not settings.since_4_4:
        return group.targets
    return {**group.targets, update.after.member_id: old}


def changes_assignor(group: ConsumerGroup, update: records.MemberUpdate, settings: Settings) -> bool:
    """Whether the update changes the assignor, which raises the group epoch since Kafka 4.4 (KAFKA-20434)."""
    if not settings.since_4_4:
        return False
    first = settings.consumer_assignors[0]
    chosen, _ = choose_assignor(group, update, first)
    return chosen != max(group.assignors, key=lambda name: group.assignors[name], default=first)


def choose_assignor(
    group: ConsumerGroup, update: records.MemberUpdate, default: str
) -> tuple[str, Mapping[str, int]]:
    """The assignor that most members prefer after the update, and by how many each one is preferred.

    Of two with equal votes the first in a copy of the group's table wins (``computePreferredServerAssignor``).
    """
    votes = dict(group.assignors)
    order = HashOrder(java_hash, votes, buckets=buckets_for(len(votes)))
    for assignor, change in ((update.before.assignor, -1), (update.after.assignor, 1)):
        if assignor is None:
            continue
        votes[assignor] = votes.get(assignor, 0) + change
        if votes[assignor] > 0:
            order.compute(assignor)
        else:
            del votes[assignor]
            order.discard(assignor)
    return max(order, key=lambda name: votes[name], default=default), votes


def store_member(
    group: ConsumerGroup, update: records.MemberUpdate, member: ConsumerMember, written: Sequence[Record]
) -> None:
    """Store the member; a member that it replaces is removed and leaves it its target assignment."""
    old = update.replaces
    if old is not None:
        group.targets.setdefault(member.member_id, group.targets.pop(old.member_id, frozenset()))
    members = {**group.members, member.member_id: member}
    if group.is_upgrade:
        group.members, group.assignors, group.regex_members = TimelineMap(), TimelineMap(), TimelineMap()
        # The records make another group object, which has not looked up the topics.
        group.is_upgrade = group.is_refreshed = False
    apply_records(group, written, members)


def apply_records(
    group: ConsumerGroup, written: Sequence[Record], members: Mapping[str, ConsumerMember]
) -> None:
    """Store members as the records of an operation leave them.

    It goes record by record as Kafka does, since the order of its tables depends on how they are filled.
    """
    for key, value in written:
        if isinstance(key, ConsumerGroupMemberMetadataKey):
            before = group.members.get(key.member_id)
            if isinstance(value, ConsumerGroupMemberMetadataValue):
                _put(group, before, _as_written(members[key.member_id], value))
            elif before is not None:
                del group.members[key.member_id]
                _count(group, before, -1)
                group.note_homogeneous()
        elif isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
            before = group.members.get(key.member_id)
            if before is not None:
                after = members.get(key.member_id, before)
                _put(group, before, replace(after, assignor=before.assignor, topic_regex=before.topic_regex))
        elif isinstance(key, ConsumerGroupRegularExpressionKey):
            group.regexes.pop(key.regular_expression, None)
            if isinstance(value, ConsumerGroupRegularExpressionValue):
                group.regexes[key.regular_expression] = ResolvedRegex(
                    frozenset(value.topics), value.image_version, value.timestamp_ms
                )


def _as_written(member: ConsumerMember, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
    """The member with what of its record decides about the order of tables: an operation may write two of them."""
    return replace(member, assignor=value.server_assignor, topic_regex=value.subscribed_topic_regex or "")


def _put(group: ConsumerGroup, before: ConsumerMember | None, after: ConsumerMember) -> None:
    group.members[after.member_id] = after
    if before is not None:
        _count(group, before, -1)
    _count(group, after, 1)
    group.note_homogeneous()


def _count(group: ConsumerGroup, member: ConsumerMember, change: int) -> None:
    for table, key in ((group.assignors, member.assignor), (group.regex_members, member.topic_regex)):
        if key:
            count = table.get(key, 0) + change
            if count > 0:
                table[key] = count
            else:
                del table[key]
