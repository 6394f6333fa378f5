"""The classic protocol with a classic group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

Decides what Kafka's ``GroupMetadataManager`` decides of them; how a rebalance goes on from there is in
`coordinator_rebalance`. Must not know committed offsets, nor consumer groups.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from groupreplay.codecs import GroupMetadataKey
from groupreplay.state.kafka_terms import Phase
from groupreplay.state.model.books import CoordinatorState
from groupreplay.state.model.classic_group import ClassicGroup, GroupMember
from groupreplay.state.model.consumer_records import Record
from groupreplay.state.model.migration import end_empty
from groupreplay.state.model.rebalance import returned
from groupreplay.state.model.requests import (
    Answer,
    Error,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    Refused,
    StateChange,
    SyncGroup,
)


@dataclass(frozen=True, slots=True)
class ClassicProtocol:
    """What is asked of a classic group by its members."""

    books: CoordinatorState

    # -- joining

    def join(self, request: JoinGroup, now_ms: int) -> Answer | None:
        """A member joins, or asks for an id first; None while it waits for the others. Raises ``Refused``."""
        group = self.books.group
        if isinstance(group, ClassicGroup):
            return self._join_group(group, request, now_ms)
        if request.member_id:
            # Of an empty consumer group Kafka forgets here that there was one, without a record; this one does not.
            raise Refused(Error.UNKNOWN_MEMBER_ID)
        written: list[Record] = []
        if group is not None:
            end_empty(self.books, group, written)
            group.become(Phase.EMPTY, now_ms)
        classic = self.books.begin_classic(now_ms, new=group is None)
        if not self.books.settings.scala:
            written.append((GroupMetadataKey(group=self.books.group_id), classic.first_record()))
            self.books.journal.write(now_ms, *written)
        return self._join_group(classic, request, now_ms)

    def _join_group(self, group: ClassicGroup, request: JoinGroup, now_ms: int) -> Answer | None:
        if not group.accepts(request.member_id, self.books.settings.max_size):
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
            self.books.rebalance(group).await_session(new_id, now_ms + request.session_timeout_ms)
            return Answer(error=Error.MEMBER_ID_REQUIRED, member_id=new_id)
        self._admit(group, request, new_id, now_ms)
        return None

    def _member_id(self, request: JoinGroup) -> str:
        number = uuid.UUID(int=self.books.numbers.getrandbits(128), version=4)
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
        rebalance = self.books.rebalance(group)
        # It does not know its id yet and cannot send heartbeats.
        rebalance.keep_alive(member, now_ms, self.books.settings.new_member_join_timeout_ms)
        rebalance.prepare_or_complete(now_ms)

    def _rejoin(
        self, group: ClassicGroup, member: GroupMember, request: JoinGroup, now_ms: int
    ) -> Answer | None:
        unchanged = member.protocols == request.protocols
        completing = group.state is Phase.COMPLETING_REBALANCE
        follows = group.state is Phase.STABLE and group.leader != member.member_id
        if unchanged and (completing or follows):
            return self.books.rebalance(group).joined(member)
        member.update(request)
        member.joining = request
        self.books.rebalance(group).prepare_or_complete(now_ms)
        return None

    def _replace(
        self, group: ClassicGroup, request: JoinGroup, old_id: str, new_id: str, now_ms: int
    ) -> Answer | None:
        """A static member comes back and has lost its id: whoever still uses that is fenced."""
        old, former_leader = group.members[old_id], group.leader
        for waiting in (old.joining, old.syncing):
            if waiting is not None:
                self.books.journal.reply(waiting, Answer(error=Error.FENCED_INSTANCE_ID))
        rebalance = self.books.rebalance(group)
        self.books.timers.cancel(("session", old_id))
        member = group.replace_static_member(old_id, new_id)
        member.update(request)
        rebalance.keep_alive(member, now_ms)
        if group.state is Phase.STABLE and group.selected_protocol() == group.protocol:
            # No rebalance: the new id is written under the same generation.
            self.books.journal.write(now_ms, (GroupMetadataKey(group=group.group_id), group.record()))
            return returned(rebalance.joined(member, skips_assignment=True), request, former_leader)
        member.joining = request
        if group.state is Phase.COMPLETING_REBALANCE:
            rebalance.prepare(now_ms)
        else:
            rebalance.prepare_or_complete(now_ms)
        return None

    # -- members

    def sync(self, request: SyncGroup, now_ms: int) -> Answer | None:
        """A member wants its assignment, the leader brings them all. Raises ``Refused``."""
        group = self.books.classic()
        member = group.validate_member(request.member_id, request.instance_id)
        if request.generation != group.generation:
            raise Refused(Error.ILLEGAL_GENERATION)
        told = ((request.protocol_type, group.protocol_type), (request.protocol, group.protocol))
        if any(asked is not None and asked != known for asked, known in told):
            raise Refused(Error.INCONSISTENT_GROUP_PROTOCOL)
        if group.state is Phase.PREPARING_REBALANCE:
            raise Refused(Error.REBALANCE_IN_PROGRESS)
        rebalance = self.books.rebalance(group)
        rebalance.synced(member)
        if group.state is Phase.STABLE:
            rebalance.keep_alive(member, now_ms)
            return rebalance.share_of(member)
        member.syncing = request
        if member.member_id == group.leader:
            rebalance.assign(dict(request.assignments), now_ms)
        return None

    def heartbeat(self, request: Heartbeat, now_ms: int) -> Answer:
        """A member is there. Raises ``Refused``."""
        group = self.books.classic()
        member = group.validate_member(request.member_id, request.instance_id)
        if request.generation != group.generation:
            raise Refused(Error.ILLEGAL_GENERATION)
        self.books.rebalance(group).keep_alive(member, now_ms)
        preparing = group.state is Phase.PREPARING_REBALANCE
        return Answer(error=Error.REBALANCE_IN_PROGRESS if preparing else Error.NONE)

    def leave(self, request: LeaveGroup, now_ms: int) -> Answer:
        """A member goes. Raises ``Refused``."""
        group = self.books.classic()
        member_id = request.member_id
        if not member_id:
            member_id = group.static_members.get(request.instance_id or "", "")
        if member_id not in group.pending_joins:
            group.validate_member(member_id, request.instance_id)
        rebalance = self.books.rebalance(group)
        pending = member_id in group.pending_joins
        rebalance.forget(member_id)
        if pending and group.state is Phase.EMPTY:
            return Answer()
        rebalance.prepare_or_complete(now_ms)
        return Answer()

    # -- another broker

    def reload(self, before: ClassicGroup, now_ms: int) -> None:
        """The group as the log has it: rebalances in progress are not written, and whoever waits must ask again."""
        books = self.books
        for member in before.members.values():
            for waiting in (member.joining, member.syncing):
                if waiting is not None:
                    books.journal.reply(waiting, Answer(error=Error.NOT_COORDINATOR))
        books.timers.clear()
        known = books.journal.written is not None or bool(books.offsets)
        group = before.reloaded(books.journal.written) if known else None
        books.group = group
        state = Phase.DEAD if group is None else group.state
        if state is not before.state:
            generation = 0 if group is None else group.generation
            books.journal.changes.append(StateChange(now_ms, before.state, state, generation))
        if group is not None:
            for member in group.members.values():
                books.rebalance(group).keep_alive(member, now_ms)
