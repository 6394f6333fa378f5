"""Requests of classic members to a classic group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

Makes the decisions of Kafka's ``GroupMetadataManager``; `rebalance` has the phases that follow.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

from groupreplay.state.kafka_terms import Phase
from groupreplay.state.model.classic.group import ClassicGroup, GroupMember
from groupreplay.state.model.classic.rebalance import Rebalance, check_protocol
from groupreplay.state.model.coordinator_state import CoordinatorState
from groupreplay.state.model.migration import replace_empty
from groupreplay.state.model.requests import (
    Answer,
    ClassicHeartbeat,
    Error,
    JoinGroup,
    LeaveGroup,
    Record,
    Refused,
    StateChange,
    SyncGroup,
)


@dataclass(frozen=True, slots=True)
class ClassicHandler:
    """Handles the requests of the members of a classic group."""

    coordinator: CoordinatorState

    # -- joining

    def join(self, request: JoinGroup, now_ms: int) -> Answer | None:
        """Handle a JoinGroup; None while the answer waits for other members. Raises ``Refused``."""
        group = self.coordinator.group
        if isinstance(group, ClassicGroup):
            return self._join_group(group, request, now_ms)
        if request.member_id:
            # Kafka replaces an empty consumer group here without writing a record; the model keeps it.
            raise Refused(Error.UNKNOWN_MEMBER_ID)
        written: list[Record] = []
        if group is not None:
            replace_empty(self.coordinator, group, written)
            group.transition_to(Phase.EMPTY, now_ms)
        classic = self.coordinator.begin_classic(now_ms, new=group is None)
        if not self.coordinator.settings.scala:
            written.append(classic.record())
            self.coordinator.journal.write(now_ms, *written)
        return self._join_group(classic, request, now_ms)

    def _join_group(self, group: ClassicGroup, request: JoinGroup, now_ms: int) -> Answer | None:
        if not group.accepts(request.member_id, self.coordinator.settings.max_size):
            group.remove(request.member_id)
            raise Refused(Error.GROUP_MAX_SIZE_REACHED)
        if not group.supports(request.protocol_type, request.protocols):
            raise Refused(Error.INCONSISTENT_GROUP_PROTOCOL)
        if not request.member_id:
            return self._join_as_new(group, request, now_ms)
        if request.member_id in group.pending_joins:
            self._admit(group, request, request.member_id, now_ms)
            return None
        member = group.validate_member(request.member_id, request.instance_id)
        return self._rejoin(group, member, request, now_ms)

    def _join_as_new(self, group: ClassicGroup, request: JoinGroup, now_ms: int) -> Answer | None:
        new_id = self._member_id(request)
        if request.instance_id is not None:
            old_id = group.static_members.get(request.instance_id)
            if old_id is not None:
                return self._replace(group, request, old_id, new_id, now_ms)
        elif request.require_known_member_id:
            group.pending_joins.add(new_id)
            Rebalance(self.coordinator, group).await_session(new_id, now_ms + request.session_timeout_ms)
            return Answer(error=Error.MEMBER_ID_REQUIRED, member_id=new_id)
        self._admit(group, request, new_id, now_ms)
        return None

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
        if group.state is Phase.PREPARING_REBALANCE and group.previous_state is Phase.EMPTY:
            group.new_member_added = True
        group.add(member, request.protocol_type)
        rebalance = Rebalance(self.coordinator, group)
        # The member does not know its id yet and cannot send heartbeats.
        rebalance.keep_alive(member, now_ms, self.coordinator.settings.new_member_join_timeout_ms)
        rebalance.prepare_or_complete(now_ms)

    def _rejoin(
        self, group: ClassicGroup, member: GroupMember, request: JoinGroup, now_ms: int
    ) -> Answer | None:
        unchanged = member.protocols == request.protocols
        completing = group.state is Phase.COMPLETING_REBALANCE
        follows = group.state is Phase.STABLE and group.leader != member.member_id
        if unchanged and (completing or follows):
            return Rebalance(self.coordinator, group).join_answer(member)
        member.update(request)
        member.joining = request
        Rebalance(self.coordinator, group).prepare_or_complete(now_ms)
        return None

    def _replace(
        self, group: ClassicGroup, request: JoinGroup, old_id: str, new_id: str, now_ms: int
    ) -> Answer | None:
        """A static member joins without its member id: it gets a new one, and the old one is fenced."""
        former_leader = group.leader
        self.coordinator.journal.refuse_pending(group.members[old_id], Error.FENCED_INSTANCE_ID)
        rebalance = Rebalance(self.coordinator, group)
        self.coordinator.timers.cancel(("session", old_id))
        member = group.replace_static_member(old_id, new_id)
        member.update(request)
        rebalance.keep_alive(member, now_ms)
        if group.state is Phase.STABLE and group.selected_protocol() == group.protocol:
            # No rebalance: the new member id is written under the same generation.
            self.coordinator.journal.write(now_ms, group.record())
            answer = rebalance.join_answer(member, skips_assignment=True)
            if request.skips_assignment:
                return answer
            # To an old client the answer must not name its new member id as leader.
            return replace(answer, leader=former_leader or "", members=(), skip_assignment=False)
        member.joining = request
        if group.state is Phase.COMPLETING_REBALANCE:
            rebalance.prepare(now_ms)
        else:
            rebalance.prepare_or_complete(now_ms)
        return None

    # -- members

    def sync(self, request: SyncGroup, now_ms: int) -> Answer | None:
        """Handle a SyncGroup; None while the answer waits for the leader's. Raises ``Refused``."""
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
            rebalance.keep_alive(member, now_ms)
            return rebalance.sync_answer(member)
        member.syncing = request
        if member.member_id == group.leader:
            rebalance.assign(dict(request.assignments), now_ms)
        return None

    def heartbeat(self, request: ClassicHeartbeat, now_ms: int) -> Answer:
        """Handle a Heartbeat. Raises ``Refused``."""
        group = self.coordinator.classic()
        member = group.validate_member(request.member_id, request.instance_id)
        if request.generation != group.generation:
            raise Refused(Error.ILLEGAL_GENERATION)
        Rebalance(self.coordinator, group).keep_alive(member, now_ms)
        preparing = group.state is Phase.PREPARING_REBALANCE
        return Answer(error=Error.REBALANCE_IN_PROGRESS if preparing else Error.NONE)

    def leave(self, request: LeaveGroup, now_ms: int) -> Answer:
        """Handle a LeaveGroup. Raises ``Refused``."""
        group = self.coordinator.classic()
        member_id = request.member_id
        if not member_id:
            member_id = group.static_members.get(request.instance_id or "", "")
        pending = member_id in group.pending_joins
        if not pending:
            group.validate_member(member_id, request.instance_id)
        rebalance = Rebalance(self.coordinator, group)
        rebalance.remove_member(member_id)
        if not (pending and group.state is Phase.EMPTY):
            rebalance.prepare_or_complete(now_ms)
        return Answer()

    # -- another broker

    def reload(self, before: ClassicGroup, now_ms: int) -> None:
        """Load the group from the log. A rebalance in progress is lost, since no record has it."""
        coordinator = self.coordinator
        for member in before.members.values():
            coordinator.journal.refuse_pending(member, Error.NOT_COORDINATOR)
        coordinator.timers.clear()
        known = coordinator.journal.written is not None or bool(coordinator.offsets)
        group = before.reloaded(coordinator.journal.written) if known else None
        coordinator.group = group
        state = Phase.DEAD if group is None else group.state
        if state is not before.state:
            generation = 0 if group is None else group.generation
            coordinator.journal.changes.append(StateChange(now_ms, before.state, state, generation))
        if group is not None:
            for member in group.members.values():
                Rebalance(coordinator, group).keep_alive(member, now_ms)
