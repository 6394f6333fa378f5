"""Requests of classic members to a classic group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

Makes the decisions of Kafka's ``GroupMetadataManager``; `rebalance` has the phases that follow.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from groupreplay.codecs import GroupMetadataValue
from groupreplay.codecs.kafka_terms import Phase
from groupreplay.coordinator.appends import answered_error
from groupreplay.coordinator.classic.classic_group import ClassicGroup, GroupMember
from groupreplay.coordinator.classic.rebalance import Rebalance, check_protocol
from groupreplay.coordinator.coordinator_state import CoordinatorState
from groupreplay.coordinator.migration import empty_tombstones
from groupreplay.coordinator.requests import (
    Answer,
    AppendFailed,
    ClassicHeartbeat,
    Error,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    Record,
    Refused,
    StateChange,
    SyncGroup,
)

#: What Kafka logs for a request without a reason (KIP-800); the model's requests have none.
_REASON: Final = "client reason: not provided"


@dataclass(frozen=True, slots=True)
class ClassicHandler:
    """Handles the requests of the members of a classic group."""

    coordinator: CoordinatorState

    # -- joining

    def join(self, request: JoinGroup, now_ms: int) -> Answer | None:
        """Handle a JoinGroup; None while the answer waits for other members. Raises ``Refused``."""
        group = self.coordinator.group
        trace = self.coordinator.trace
        trace.branch("classicGroupJoinToClassicGroup")
        if isinstance(group, ClassicGroup):
            return self._join_group(group, request, now_ms)
        if request.member_id:
            if group is not None:
                # Kafka forgets an empty consumer group here without writing a record: it is back after a move.
                self.coordinator.forget_group(group, now_ms)
            raise Refused(Error.UNKNOWN_MEMBER_ID)
        written: list[Record] = []
        if group is not None:
            written += empty_tombstones(group)
            group.transition_to(Phase.EMPTY, now_ms)
            says = "[GroupId %s] Converted the empty consumer group to a classic group."
            trace.branch("maybeDeleteEmptyConsumerGroup", says, group.group_id)
        classic = self.coordinator.begin_classic(now_ms, new=group is None)
        if not self.coordinator.settings.scala:
            written.append(classic.record())
            self._write_new(classic, written, request, now_ms)
            self.coordinator.forgotten = None
        return self._join_group(classic, request, now_ms)

    def _write_new(self, group: ClassicGroup, records: list[Record], request: JoinGroup, now_ms: int) -> None:
        try:
            self.coordinator.journal.write(now_ms, *records)
        except AppendFailed as failed:
            given = request.require_known_member_id and request.instance_id is None
            if not given:
                # Kafka has added the member by then. The timer stays, and may meet another group with this id.
                rebalance = Rebalance(self.coordinator, group)
                rebalance.await_first_joins(now_ms, request.rebalance_timeout_ms)
            # Kafka gives the member id before it writes, and forgets it together with the group.
            answer = Answer(error=Error.MEMBER_ID_REQUIRED, member_id=self._member_id(request))
            raise AppendFailed(failed.error, answer if given else None) from None

    def _join_group(self, group: ClassicGroup, request: JoinGroup, now_ms: int) -> Answer | None:
        if not group.accepts(request.member_id, self.coordinator.settings.max_size):
            self.coordinator.trace.branch("acceptJoiningMember")
            group.remove(request.member_id)
            if self.coordinator.settings.scala:
                # The older coordinator then looks whether all other members have joined.
                Rebalance(self.coordinator, group).complete_if_all_joined(now_ms)
            raise Refused(Error.GROUP_MAX_SIZE_REACHED)
        if not group.supports(request.protocol_type, request.protocols):
            raise Refused(Error.INCONSISTENT_GROUP_PROTOCOL)
        if not request.member_id:
            return self._join_as_new(group, request, now_ms)
        if request.member_id in group.pending_joins:
            if request.instance_id is not None:
                # A static member is never pending: here Kafka throws.
                raise Refused(Error.UNKNOWN_SERVER_ERROR)
            says = "Pending dynamic member with id %s joins group %s in %s state. Adding to the group now."
            place = (request.member_id, group.group_id, group.state.value)
            self.coordinator.trace.branch("classicGroupJoinExistingMember", says, *place)
            self._admit(group, request, request.member_id, now_ms)
            return None
        member = group.validate_member(request.member_id, request.instance_id)
        return self._rejoin(group, member, request, now_ms)

    def _join_as_new(self, group: ClassicGroup, request: JoinGroup, now_ms: int) -> Answer | None:
        new_id = self._member_id(request)
        if request.instance_id is not None:
            old_id = group.static_members.get(request.instance_id)
            self._trace_static(group, request.instance_id, old_id, new_id)
            if old_id is not None:
                return self._replace(group, request, old_id, new_id, now_ms)
        elif request.require_known_member_id:
            self._trace_dynamic(group, new_id, "requesting the member to rejoin with this id.")
            self.coordinator.trace.member(
                "pending", new_id, None, "it was given an id and has to join with it"
            )
            group.pending_joins.add(new_id)
            Rebalance(self.coordinator, group).await_session(new_id, now_ms + request.session_timeout_ms)
            return Answer(error=Error.MEMBER_ID_REQUIRED, member_id=new_id)
        else:
            self._trace_dynamic(group, new_id, "added the member to the group.")
        self._admit(group, request, new_id, now_ms)
        return None

    def _trace_static(self, group: ClassicGroup, instance_id: str, old_id: str | None, new_id: str) -> None:
        if not self.coordinator.trace.on:
            return
        then = f"Created a new member id {new_id} for this member and added to the group."
        if old_id is not None:
            then = f"Replacing previously mapped member {old_id} with this groupInstanceId."
        says = "Static member with groupInstanceId=%s and unknown member id joins group %s in %s state. %s"
        place = (instance_id, group.group_id, group.state.value, then)
        self.coordinator.trace.branch("classicGroupJoinNewStaticMember", says, *place)

    def _trace_dynamic(self, group: ClassicGroup, new_id: str, then: str) -> None:
        if not self.coordinator.trace.on:
            return
        says = "Dynamic member with unknown member id joins group %s in %s. Created a new member id %s and %s"
        state = group.state.value
        where = f"{state} state" if then.startswith("requesting") else f"state {state}"
        place = (group.group_id, where, new_id, then)
        self.coordinator.trace.branch("classicGroupJoinNewDynamicMember", says, *place)

    def _member_id(self, request: JoinGroup) -> str:
        number = uuid.UUID(int=self.coordinator.numbers.getrandbits(128), version=4)
        return f"{request.instance_id or request.client_id}-{number}"

    def _admit(self, group: ClassicGroup, request: JoinGroup, member_id: str, now_ms: int) -> None:
        member = GroupMember(
            member_id=member_id,
            instance_id=request.instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocols=request.protocols,
            is_new=True,
            joining=request,
        )
        # The older coordinator only waits for more members of a group without a generation.
        waits = group.generation == 0 if group.scala else group.previous_state is Phase.EMPTY
        if group.state is Phase.PREPARING_REBALANCE and waits:
            group.new_member_added = True
        leader = group.leader
        group.add(member, request.protocol_type)
        reason = (
            f"Adding new member {member_id} with group instance id {_java(request.instance_id)}; {_REASON}"
        )
        self.coordinator.trace.member("added", member_id, request.instance_id, reason)
        self.coordinator.trace.leader(leader, group.leader, "the first member leads")
        rebalance = Rebalance(self.coordinator, group)
        # The member does not know its id yet and cannot send heartbeats.
        rebalance.keep_alive(member, now_ms, self.coordinator.settings.new_member_join_timeout_ms)
        rebalance.prepare_or_complete(now_ms, reason)

    def _rejoin(
        self, group: ClassicGroup, member: GroupMember, request: JoinGroup, now_ms: int
    ) -> Answer | None:
        unchanged = member.protocols == request.protocols
        completing = group.state is Phase.COMPLETING_REBALANCE
        follows = group.state is Phase.STABLE and group.leader != member.member_id
        self.coordinator.trace.branch("classicGroupJoinExistingMember")
        if unchanged and (completing or follows):
            return Rebalance(self.coordinator, group).join_answer(member)
        member.update(request)
        member.joining = request
        reason = f"Updating metadata for member {member.member_id} during {group.state.value}; {_REASON}"
        if group.state is Phase.STABLE and group.leader == member.member_id:
            reason = f"Leader {member.member_id} re-joining group during {group.state.value}; {_REASON}"
        Rebalance(self.coordinator, group).prepare_or_complete(now_ms, reason)
        return None

    def _replace(
        self, group: ClassicGroup, request: JoinGroup, old_id: str, new_id: str, now_ms: int
    ) -> Answer | None:
        """A static member joins without its member id: it gets a new one, and the old one is fenced."""
        former_leader = group.leader
        self.coordinator.journal.refuse_pending(group.members[old_id], Error.FENCED_INSTANCE_ID)
        rebalance = Rebalance(self.coordinator, group)
        before = group.members[old_id]
        member = group.replace_static_member(old_id, new_id)
        same_instance = "another process has joined with its instance id"
        self.coordinator.trace.member("replaced", old_id, request.instance_id, same_instance, new_id)
        self.coordinator.trace.leader(former_leader, group.leader, same_instance)
        # Kafka starts the session before it takes over the new timeouts.
        rebalance.keep_alive(member, now_ms)
        member.update(request)
        if group.state is Phase.STABLE and group.selected_protocol() == group.protocol:
            # No rebalance: the new member id is written under the same generation.
            self.coordinator.trace.branch("updateStaticMemberThenRebalanceOrCompleteJoin")
            try:
                self.coordinator.journal.write(now_ms, group.record())
            except AppendFailed as failed:
                return self._revert_replacement(group, before, new_id, former_leader, failed, now_ms)
            answer = rebalance.join_answer(member, skips_assignment=True)
            if request.skips_assignment:
                return answer
            # To an old client the answer must not name its new member id as leader.
            return replace(answer, leader=former_leader or "", members=(), skip_assignment=False)
        member.joining = request
        named = f"static member {new_id} with instance id {request.instance_id}"
        if group.state is Phase.COMPLETING_REBALANCE:
            rebalance.prepare(now_ms, f"Updating metadata for {named}; {_REASON}")
        else:
            changes = f"Group's selectedProtocol will change because {named} joined with change of protocol"
            rebalance.prepare_or_complete(now_ms, f"{changes}; {_REASON}")
        return None

    def _revert_replacement(
        self,
        group: ClassicGroup,
        before: GroupMember,
        new_id: str,
        leader: str | None,
        failed: AppendFailed,
        now_ms: int,
    ) -> Answer:
        """The new id of a static member was not written: the member has its former id again."""
        group.members.pop(new_id)
        group.add(before, group.protocol_type or "")
        group.leader = before.member_id if group.leader == new_id else group.leader
        error = answered_error(failed.error)
        says = (
            "Failed to persist metadata for group %s static member %s with group instance id %s due to %s. "
        )
        method = "updateStaticMemberThenRebalanceOrCompleteJoin"
        place = (group.group_id, new_id, before.instance_id, failed.error.value, before.member_id)
        self.coordinator.trace.branch(method, says + "Reverting to old member id %s.", *place)
        reverted = "its new member id was not written"
        self.coordinator.trace.member("replaced", new_id, before.instance_id, reverted, before.member_id)
        Rebalance(self.coordinator, group).keep_alive(before, now_ms)
        return Answer(
            error=error,
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            leader=leader or "",
        )

    # -- members

    def sync(self, request: SyncGroup, now_ms: int) -> Answer | None:
        """Handle a SyncGroup; None while the answer waits for the leader's. Raises ``Refused``."""
        self.coordinator.trace.branch("classicGroupSyncToClassicGroup")
        group = self.coordinator.classic()
        member = group.validate_member(request.member_id, request.instance_id)
        if request.generation != group.generation:
            raise Refused(Error.ILLEGAL_GENERATION)
        check_protocol(request, group.protocol_type, group.protocol)
        if group.state is Phase.PREPARING_REBALANCE:
            raise Refused(Error.REBALANCE_IN_PROGRESS)
        rebalance = Rebalance(self.coordinator, group)
        rebalance.mark_synced(member)
        if group.state is Phase.STABLE:
            if self.coordinator.settings.scala:
                rebalance.keep_alive(member, now_ms)
            return rebalance.sync_answer(member)
        member.syncing = request
        if member.member_id == group.leader:
            rebalance.assign(dict(request.assignments), now_ms)
        return None

    def heartbeat(self, request: ClassicHeartbeat, now_ms: int) -> Answer:
        """Handle a Heartbeat. Raises ``Refused``."""
        self.coordinator.trace.branch("classicGroupHeartbeatToClassicGroup")
        group = self.coordinator.classic()
        member = group.validate_member(request.member_id, request.instance_id)
        if request.generation != group.generation:
            raise Refused(Error.ILLEGAL_GENERATION)
        Rebalance(self.coordinator, group).keep_alive(member, now_ms)
        preparing = group.state is Phase.PREPARING_REBALANCE
        return Answer(error=Error.REBALANCE_IN_PROGRESS if preparing else Error.NONE)

    def leave(self, request: LeaveGroup, now_ms: int) -> Answer:
        """Handle a LeaveGroup: the error of each member. The newer coordinator begins one rebalance for all of them."""
        self.coordinator.trace.branch("classicGroupLeaveToClassicGroup")
        group = self.coordinator.group
        if not isinstance(group, ClassicGroup):
            return Answer.of_leaving(Error.UNKNOWN_MEMBER_ID for _ in request.members)
        left: list[Error] = []
        for member in request.members:
            try:
                self._remove(group, member, now_ms)
            except Refused as refused:
                left.append(refused.error)
            else:
                left.append(Error.NONE)
        if not group.scala and Error.NONE in left and not group.is_empty:
            gone = zip(request.members, left, strict=True)
            reason = _leaving(member.member_id for member, error in gone if error is Error.NONE)
            Rebalance(self.coordinator, group).prepare_or_complete(now_ms, reason)
        return Answer.of_leaving(left)

    def _remove(self, group: ClassicGroup, leaving: LeavingMember, now_ms: int) -> None:
        member_id = leaving.member_id or group.static_members.get(leaving.instance_id or "", "")
        pending = member_id in group.pending_joins
        if not pending:
            group.validate_member(member_id, leaving.instance_id)
        who = "Pending member" if pending else "Member"
        says = "[Group %s] %s %s has left group through explicit `LeaveGroup` request; %s"
        place = (group.group_id, who, member_id, _REASON)
        self.coordinator.trace.branch("classicGroupLeaveToClassicGroup", says, *place)
        rebalance = Rebalance(self.coordinator, group)
        rebalance.give_up_join(member_id)
        reason = _leaving((leaving.member_id,))
        rebalance.remove_member(member_id, reason)
        if group.scala and pending:
            rebalance.complete_if_all_joined(now_ms)
        elif group.scala:
            rebalance.prepare_or_complete(now_ms, reason)

    # -- another broker

    def reload(self, before: ClassicGroup | None, now_ms: int) -> None:
        """Load the group from the log. A rebalance in progress is lost, since no record has it."""
        coordinator = self.coordinator
        # Also a commit that was aborted or deleted since then makes a group, but not with the older coordinator.
        found = coordinator.journal.has_records and not coordinator.settings.scala
        known = found or coordinator.journal.written is not None or bool(coordinator.offsets)
        old_state = Phase.DEAD if before is None else before.state
        if before is None:
            changes = coordinator.journal.changes
            before = ClassicGroup(
                group_id=coordinator.group_id,
                current_state_timestamp_ms=now_ms,
                changes=changes,
                scala=coordinator.settings.scala,
                version=coordinator.settings.written_version(GroupMetadataValue),
            )
        group = before.reloaded(coordinator.journal.written) if known else None
        coordinator.group = group
        state = Phase.DEAD if group is None else group.state
        if state is not old_state:
            generation = 0 if group is None else group.generation
            coordinator.journal.changes.append(StateChange(now_ms, old_state, state, generation))


def _leaving(member_ids: Iterable[str]) -> str:
    return f"explicit `LeaveGroup` request for ({', '.join(member_ids)}) members."


def _java(text: str | None) -> str:
    """A value as Java's string concatenation has it."""
    return "null" if text is None else text
