"""Requests of classic members to a consumer group, during a migration to KIP-848.

Such a member is reconciled like the others: its JoinGroup makes the next step and is answered at once, and the answer
to its Heartbeat tells it to rejoin for the next step.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace

from groupreplay.codecs.kafka_terms import CONSUMER_PROTOCOL_TYPE, MemberPhase
from groupreplay.coordinator.classic.rebalance import Rebalance, check_protocol
from groupreplay.coordinator.consumer.consumer_group import ClassicPart, ConsumerGroup, ConsumerMember
from groupreplay.coordinator.consumer.membership import check_size, find_member
from groupreplay.coordinator.consumer.protocol import ConsumerHandler
from groupreplay.coordinator.consumer.records import MemberUpdate
from groupreplay.coordinator.coordinator_state import CoordinatorState
from groupreplay.coordinator.migration import (
    decode_member_subscription,
    downgrade,
    encode_classic_assignment,
    partition_ids,
    trace_downgrade,
)
from groupreplay.coordinator.requests import (
    Answer,
    ClassicHeartbeat,
    Error,
    JoinGroup,
    LeaveGroup,
    Record,
    Refused,
    SyncGroup,
    TopicIdPartition,
)


@dataclass(frozen=True, slots=True)
class MixedHandler:
    """Handles the requests of classic members of a consumer group."""

    coordinator: CoordinatorState

    @property
    def _group(self) -> ConsumerGroup:
        group = self.coordinator.existing()
        assert isinstance(group, ConsumerGroup)
        return group

    def join(self, request: JoinGroup, now_ms: int) -> Answer:
        """Handle a JoinGroup: one step of reconciliation, answered at once. Raises ``Refused``."""
        group, settings = self._group, self.coordinator.settings
        self.coordinator.trace.branch("classicGroupJoinToConsumerGroup")
        if settings.migration_policy == "disabled":
            raise Refused(Error.INCONSISTENT_GROUP_PROTOCOL)
        check_size(group, settings, request.member_id, request.instance_id)
        if not group.supports(request.protocol_type, request.protocols):
            raise Refused(Error.INCONSISTENT_GROUP_PROTOCOL)
        member_id = request.member_id or self._new_id()
        if not request.member_id and request.instance_id is None and request.require_known_member_id:
            return Answer(error=Error.MEMBER_ID_REQUIRED, member_id=member_id)
        written: list[Record] = []
        update = self._update(group, request, member_id, written)
        holder = group.static_member(request.instance_id)
        if holder is not None and holder.classic is None and self._replaces_last(group, holder):
            return self._downgraded(group, update, holder, request, written, now_ms)
        protocol = ConsumerHandler(self.coordinator)
        member = protocol.apply(group, update, self._owned(request), written, now_ms)
        protocol.finish(group, written, now_ms)
        self.coordinator.timers.cancel(("join", member_id, "consumer"))
        protocol.await_request("session", member_id, now_ms + request.session_timeout_ms)
        protocol.await_request("sync", member_id, now_ms + request.rebalance_timeout_ms)
        return _joined(member)

    def _new_id(self) -> str:
        """A random id in the text form of Kafka's ``Uuid``."""
        number = self.coordinator.numbers.getrandbits(128).to_bytes(16, "big")
        return base64.urlsafe_b64encode(number).decode().rstrip("=")

    def _update(
        self, group: ConsumerGroup, request: JoinGroup, member_id: str, written: list[Record]
    ) -> MemberUpdate:
        joins = request.instance_id is None or not request.member_id
        before, replaces = find_member(
            group, member_id, request.instance_id, joins=joins, classic=True, written=written
        )
        subscription = decode_member_subscription(request.protocols[0].metadata)
        after = replace(
            before,
            instance_id=request.instance_id or before.instance_id,
            rack_id=subscription.rack_id or before.rack_id,
            client_id=request.client_id,
            client_host=request.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            topics=tuple(sorted(set(subscription.topics))),
            topic_regex="",
            classic=ClassicPart(session_timeout_ms=request.session_timeout_ms, protocols=request.protocols),
        )
        return MemberUpdate(before=before, after=after, replaces=replaces)

    def _owned(self, request: JoinGroup) -> frozenset[TopicIdPartition]:
        subscription = decode_member_subscription(request.protocols[0].metadata)
        return partition_ids(subscription.owned_partitions, self.coordinator.topics)

    def _replaces_last(self, group: ConsumerGroup, holder: ConsumerMember) -> bool:
        """Whether the group is downgraded when a classic member takes the place of this one."""
        settings = self.coordinator.settings
        allowed = settings.downgrades and len(group.members) <= settings.max_size
        return allowed and (len(group.members) == 1 or group.all_classic_but(holder))

    def _downgraded(
        self,
        group: ConsumerGroup,
        update: MemberUpdate,
        holder: ConsumerMember,
        request: JoinGroup,
        written: list[Record],
        now_ms: int,
    ) -> Answer:
        """The last member of the consumer protocol rejoins, under its instance id, with the classic protocol."""
        protocol = ConsumerHandler(self.coordinator)
        # Kafka has not applied a new group epoch of this operation when it makes the classic group.
        generation = group.epoch
        protocol.write_metadata(group, update, written)
        member = update.after
        rebalances = group.target_epoch < group.epoch
        if not rebalances:
            target = group.target_of(member)
            member = protocol.reconcile(group, update, target, self._owned(request), written, now_ms)
        classic = downgrade(
            self.coordinator,
            group,
            written,
            now_ms,
            leaving=(holder.member_id,),
            joining=member,
            generation=generation,
        )
        self.coordinator.journal.write(now_ms, *written)
        trace_downgrade(self.coordinator)
        if rebalances:
            says = f"Downgrade group {group.group_id} from consumer to classic with stale assignment."
            Rebalance(self.coordinator, classic).prepare(now_ms, says)
        return _joined(member)

    def sync(self, request: SyncGroup, now_ms: int) -> Answer:
        """Handle a SyncGroup: the answer is the current assignment. Raises ``Refused``."""
        group = self._group
        self.coordinator.trace.branch("classicGroupSyncToConsumerGroup")
        member = self._classic_member(group, request)
        assert member.classic is not None
        check_protocol(request, CONSUMER_PROTOCOL_TYPE, member.classic.protocols[0].name)
        if group.target_epoch > member.epoch and member.phase is not MemberPhase.UNREVOKED:
            self._await_join(member, now_ms)
            raise Refused(Error.REBALANCE_IN_PROGRESS)
        self.coordinator.timers.cancel(("sync", member.member_id, "consumer"))
        self._keep_alive(member, now_ms)
        return Answer(
            protocol_type=request.protocol_type,
            protocol=request.protocol,
            assignment=encode_classic_assignment(
                member.assigned, member.classic.protocols[0].metadata, self.coordinator.topics
            ),
        )

    def heartbeat(self, request: ClassicHeartbeat, now_ms: int) -> Answer:
        """Handle a Heartbeat: the answer tells whether the member has to rejoin. Raises ``Refused``."""
        group = self._group
        self.coordinator.trace.branch("classicGroupHeartbeatToConsumerGroup")
        member = self._classic_member(group, request)
        self._keep_alive(member, now_ms)
        released = member.phase is MemberPhase.UNRELEASED and not self._waits(group, member)
        if member.epoch >= group.target_epoch and member.phase is not MemberPhase.UNREVOKED and not released:
            return Answer()
        self._await_join(member, now_ms)
        return Answer(error=Error.REBALANCE_IN_PROGRESS)

    def leave(self, request: LeaveGroup, now_ms: int) -> Answer:
        """Handle a LeaveGroup, in one operation for all members; an administrator may remove any static member."""
        group = self._group
        self.coordinator.trace.branch("classicGroupLeaveToConsumerGroup")
        gone: dict[str, ConsumerMember] = {}
        left: list[Error] = []
        for member in request.members:
            holder = group.static_member(member.instance_id)
            member_id = holder.member_id if holder is not None and not member.member_id else member.member_id
            try:
                gone[member_id] = group.validate_member(member_id, member.instance_id)
            except Refused as refused:
                left.append(refused.error)
            else:
                left.append(Error.NONE)
        if gone:
            ConsumerHandler(self.coordinator).fence(
                group, [*gone.values()], now_ms, "left through LeaveGroup"
            )
        return Answer.of_leaving(left)

    def _classic_member(self, group: ConsumerGroup, request: SyncGroup | ClassicHeartbeat) -> ConsumerMember:
        member = group.validate_member(request.member_id, request.instance_id)
        if member.classic is None:
            raise Refused(Error.UNKNOWN_MEMBER_ID)
        if request.generation != member.epoch:
            raise Refused(Error.ILLEGAL_GENERATION)
        return member

    def _keep_alive(self, member: ConsumerMember, now_ms: int) -> None:
        assert member.classic is not None
        until_ms = now_ms + member.classic.session_timeout_ms
        ConsumerHandler(self.coordinator).await_request("session", member.member_id, until_ms)

    def _await_join(self, member: ConsumerMember, now_ms: int) -> None:
        """The member was told to rejoin: its rebalance timeout starts with the first such answer."""
        if not self.coordinator.timers.is_set(("join", member.member_id, "consumer")):
            until_ms = now_ms + member.rebalance_timeout_ms
            ConsumerHandler(self.coordinator).await_request("join", member.member_id, until_ms)

    def _waits(self, group: ConsumerGroup, member: ConsumerMember) -> bool:
        """Whether other members still own partitions of its target (``waitingOnUnreleasedPartition``)."""
        missing = group.targets.get(member.member_id, frozenset()) - member.assigned.keys()
        return bool(missing & group.taken())


def _joined(member: ConsumerMember) -> Answer:
    assert member.classic is not None
    return Answer(
        member_id=member.member_id,
        generation=member.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol=member.classic.protocols[0].name,
    )
