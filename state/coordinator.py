"""The coordinator of one classic group, as a model: requests and time in, answers and records out.

It decides what Kafka's ``GroupMetadataManager`` and ``OffsetMetadataManager`` decide, and writes what they
write: the generator of histories whose truth is known, and the oracle for the replay of them. Pure: the time is
an argument that must not go back, ids come from the random numbers that it is given. Must not know topics,
partitions of the log, or other groups.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from groupreplay.codecs import GroupMetadataKey, Key, Value
from groupreplay.state.coordinator_group import ClassicGroup, GroupMember
from groupreplay.state.coordinator_offsets import CommittedOffsets, Place
from groupreplay.state.coordinator_rebalance import Journal, Rebalance, Timers, returned
from groupreplay.state.coordinator_requests import (
    Answer,
    DeleteGroup,
    EndTransaction,
    Error,
    GroupOverview,
    GroupSummary,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    Marker,
    OffsetCommit,
    OffsetDelete,
    Outcome,
    Refused,
    Request,
    Settings,
    StateChange,
    SyncGroup,
)
from groupreplay.state.members import CONSUMER_PROTOCOL_TYPE
from groupreplay.state.phases import Phase

#: Said once of a group, as Kafka's log says it.
MIXED_COMMITS: Final = (
    "received offset commits from consumers as well as transactional producers; mixing both types of offset "
    "commits will generally result in surprises and should be avoided"
)


class Coordinator:
    """What one group's coordinator holds and decides."""

    def __init__(self, group_id: str, settings: Settings, numbers: random.Random) -> None:
        self.group_id = group_id
        self.settings = settings
        self.group: ClassicGroup | None = None
        self.offsets = CommittedOffsets()
        self._numbers = numbers
        self._timers = Timers()
        self._journal = Journal()

    @property
    def state(self) -> Phase:
        """The group's state; Dead when there is none."""
        return Phase.DEAD if self.group is None else self.group.state

    def handle(self, request: Request, now_ms: int) -> Outcome:
        """Decide on a request, after everything that was due before it.

        A JoinGroup and a SyncGroup may have no answer in this outcome: it comes when the others are there.
        """
        self._serve(now_ms)
        try:
            answer = _HANDLERS[type(request)](self, request, now_ms)
        except Refused as refused:
            answer = Answer(error=refused.error)
        if answer is not None:
            self._journal.reply(request, answer)
        return self._journal.take()

    def advance(self, now_ms: int) -> Outcome:
        """Let time pass: everything that is due by now happens at its own moment."""
        self._serve(now_ms)
        return self._journal.take()

    def next_deadline_ms(self) -> int | None:
        """When something is due although nobody asks for it; None for never."""
        return self._timers.next_deadline_ms()

    def clean_up(self, now_ms: int) -> Outcome:
        """The clean-up that comes round every ``offsets.retention.check.interval.ms``."""
        self._serve(now_ms)
        if self.group is not None:
            expired = self.offsets.expired(self.group, self.settings.retention_ms, now_ms)
            records = self.offsets.remove(self.group_id, expired)
            if self.group.state is Phase.EMPTY and not self.offsets:
                records += self._end(now_ms)
            if records:
                self._journal.write(now_ms, *records)
        return self._journal.take()

    def delete_topic(self, topic: str, now_ms: int) -> Outcome:
        """A topic is deleted: its offsets go, whatever group they belong to."""
        self._serve(now_ms)
        places = [place for place in self.offsets.places() if place[0] == topic]
        if places:
            self._journal.write(now_ms, *self.offsets.remove(self.group_id, places))
        return self._journal.take()

    def move(self, now_ms: int) -> Outcome:
        """Another broker becomes the coordinator: it knows what is written, and nobody's unanswered question."""
        self._serve(now_ms)
        before = self.group
        if before is not None:
            for member in before.members.values():
                for waiting in (member.joining, member.syncing):
                    if waiting is not None:
                        self._journal.reply(waiting, Answer(error=Error.NOT_COORDINATOR))
            self._timers.clear()
            known = self._journal.written is not None or bool(self.offsets)
            self.group = before.reloaded(self._journal.written) if known else None
            if self.state is not before.state:
                generation = 0 if self.group is None else self.group.generation
                self._journal.changes.append(StateChange(now_ms, before.state, self.state, generation))
            for member in self.group.members.values() if self.group else ():
                self._rebalance().keep_alive(member, now_ms)
        return self._journal.take()

    def overview(self) -> GroupOverview | None:
        """The group as ListGroups tells it, if it does."""
        if self.group is None:
            return None
        return GroupOverview(
            group_id=self.group_id, protocol_type=self.group.protocol_type or "", state=self.group.state
        )

    def summary(self) -> GroupSummary:
        """The group as DescribeGroups tells it."""
        return GroupSummary(state=Phase.DEAD) if self.group is None else self.group.summary()

    def _serve(self, now_ms: int) -> None:
        while (due := self._timers.take(now_ms)) is not None:
            at_ms, action = due
            action(at_ms)

    def _existing(self, missing: Error = Error.UNKNOWN_MEMBER_ID) -> ClassicGroup:
        if self.group is None:
            raise Refused(missing)
        return self.group

    def _rebalance(self) -> Rebalance:
        return Rebalance(self._existing(), self.settings, self._timers, self._journal)

    # -- joining

    def _join(self, request: JoinGroup, now_ms: int) -> Answer | None:
        settings = self.settings
        if not self.group_id:
            raise Refused(Error.INVALID_GROUP_ID)
        if (
            not settings.min_session_timeout_ms
            <= request.session_timeout_ms
            <= settings.max_session_timeout_ms
        ):
            raise Refused(Error.INVALID_SESSION_TIMEOUT)
        if self.group is not None:
            return self._join_group(self.group, request, now_ms)
        if request.member_id:
            raise Refused(Error.UNKNOWN_MEMBER_ID)
        group = self._begin(now_ms)
        if not settings.scala:
            self._journal.write(now_ms, (GroupMetadataKey(group=self.group_id), group.first_record()))
        return self._join_group(group, request, now_ms)

    def _begin(self, now_ms: int) -> ClassicGroup:
        changes = self._journal.changes
        changes.append(StateChange(now_ms, Phase.DEAD, Phase.EMPTY, 0))
        self.group = ClassicGroup(group_id=self.group_id, current_state_timestamp_ms=now_ms, changes=changes)
        return self.group

    def _join_group(self, group: ClassicGroup, request: JoinGroup, now_ms: int) -> Answer | None:
        if not group.accepts(request.member_id, self.settings.max_size):
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
            self._rebalance().await_session(new_id, now_ms + request.session_timeout_ms)
            return Answer(error=Error.MEMBER_ID_REQUIRED, member_id=new_id)
        self._admit(group, request, new_id, now_ms)
        return None

    def _member_id(self, request: JoinGroup) -> str:
        number = uuid.UUID(int=self._numbers.getrandbits(128), version=4)
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
        rebalance = self._rebalance()
        # It does not know its id yet and cannot send heartbeats.
        rebalance.keep_alive(member, now_ms, self.settings.new_member_join_timeout_ms)
        rebalance.prepare_or_complete(now_ms)

    def _rejoin(
        self, group: ClassicGroup, member: GroupMember, request: JoinGroup, now_ms: int
    ) -> Answer | None:
        unchanged = member.protocols == request.protocols
        completing = group.state is Phase.COMPLETING_REBALANCE
        follows = group.state is Phase.STABLE and group.leader != member.member_id
        if unchanged and (completing or follows):
            return self._rebalance().joined(member)
        member.update(request)
        member.joining = request
        self._rebalance().prepare_or_complete(now_ms)
        return None

    def _replace(
        self, group: ClassicGroup, request: JoinGroup, old_id: str, new_id: str, now_ms: int
    ) -> Answer | None:
        """A static member comes back and has lost its id: whoever still uses that is fenced."""
        old, former_leader = group.members[old_id], group.leader
        for waiting in (old.joining, old.syncing):
            if waiting is not None:
                self._journal.reply(waiting, Answer(error=Error.FENCED_INSTANCE_ID))
        rebalance = self._rebalance()
        self._timers.cancel(("session", old_id))
        member = group.replace_static_member(old_id, new_id)
        member.update(request)
        rebalance.keep_alive(member, now_ms)
        if group.state is Phase.STABLE and group.selected_protocol() == group.protocol:
            # No rebalance: the new id is written under the same generation.
            self._journal.write(now_ms, (GroupMetadataKey(group=group.group_id), group.record()))
            return returned(rebalance.joined(member, skips_assignment=True), request, former_leader)
        member.joining = request
        if group.state is Phase.COMPLETING_REBALANCE:
            rebalance.prepare(now_ms)
        else:
            rebalance.prepare_or_complete(now_ms)
        return None

    # -- members

    def _sync(self, request: SyncGroup, now_ms: int) -> Answer | None:
        group = self._existing()
        member = group.validate_member(request.member_id, request.instance_id)
        if request.generation != group.generation:
            raise Refused(Error.ILLEGAL_GENERATION)
        told = ((request.protocol_type, group.protocol_type), (request.protocol, group.protocol))
        if any(asked is not None and asked != known for asked, known in told):
            raise Refused(Error.INCONSISTENT_GROUP_PROTOCOL)
        if group.state is Phase.PREPARING_REBALANCE:
            raise Refused(Error.REBALANCE_IN_PROGRESS)
        rebalance = self._rebalance()
        rebalance.synced(member)
        if group.state is Phase.STABLE:
            rebalance.keep_alive(member, now_ms)
            return rebalance.share_of(member)
        member.syncing = request
        if member.member_id == group.leader:
            rebalance.assign(dict(request.assignments), now_ms)
        return None

    def _heartbeat(self, request: Heartbeat, now_ms: int) -> Answer:
        group = self._existing()
        member = group.validate_member(request.member_id, request.instance_id)
        if request.generation != group.generation:
            raise Refused(Error.ILLEGAL_GENERATION)
        self._rebalance().keep_alive(member, now_ms)
        preparing = group.state is Phase.PREPARING_REBALANCE
        return Answer(error=Error.REBALANCE_IN_PROGRESS if preparing else Error.NONE)

    def _leave(self, request: LeaveGroup, now_ms: int) -> Answer:
        group = self._existing()
        member_id = request.member_id
        if not member_id:
            member_id = group.static_members.get(request.instance_id or "", "")
        if member_id not in group.pending_joins:
            group.validate_member(member_id, request.instance_id)
        rebalance = self._rebalance()
        pending = member_id in group.pending_joins
        rebalance.forget(member_id)
        if pending and group.state is Phase.EMPTY:
            return Answer()
        rebalance.prepare_or_complete(now_ms)
        return Answer()

    # -- offsets

    def _commit(self, request: OffsetCommit, now_ms: int) -> Answer:
        if self.group is None and request.generation >= 0:
            raise Refused(Error.ILLEGAL_GENERATION)
        # Offsets alone make a simple group.
        group = self.group or self._begin(now_ms)
        group.validate_commit(request)
        member = group.members.get(request.member_id)
        if member is not None and group.state in (Phase.STABLE, Phase.PREPARING_REBALANCE):
            self._rebalance().keep_alive(member, now_ms)
        if self.offsets.begins_to_mix(request):
            self._journal.warnings.append(f"group {self.group_id} {MIXED_COMMITS}")
        most = self.settings.offset_metadata_max_bytes
        refused = [one for one in request.commits if len(one.metadata.encode()) > most]
        fits = [one for one in request.commits if one not in refused] if refused else request.commits
        records = self.offsets.commit(self.group_id, request, fits, now_ms)
        if records:
            self._journal.write(now_ms, *records, producer_id=request.producer_id)
        return Answer(
            refused=tuple((one.topic, one.partition, Error.OFFSET_METADATA_TOO_LARGE) for one in refused)
        )

    def _end_transaction(self, request: EndTransaction, now_ms: int) -> Answer:
        if self.offsets.end_transaction(request.producer_id, committed=request.committed):
            marker = Marker.COMMIT if request.committed else Marker.ABORT
            self._journal.write(now_ms, producer_id=request.producer_id, marker=marker)
        return Answer()

    # -- administrators

    def _delete(self, _request: DeleteGroup, now_ms: int) -> Answer:
        group = self._existing(Error.GROUP_ID_NOT_FOUND)
        if group.state is not Phase.EMPTY:
            raise Refused(Error.NON_EMPTY_GROUP)
        records = self.offsets.remove(self.group_id, self.offsets.places()) + self._end(now_ms)
        if records:
            self._journal.write(now_ms, *records)
        return Answer()

    def _end(self, now_ms: int) -> list[tuple[Key, Value | None]]:
        """The group ceases to be; its tombstone."""
        group = self._existing()
        group.transition_to(Phase.DEAD, now_ms)
        self.group = None
        self.offsets.committed_by.clear()
        self._timers.clear()
        if self.settings.scala and group.generation == 0:
            return []
        return [(GroupMetadataKey(group=self.group_id), None)]

    def _delete_offsets(self, request: OffsetDelete, now_ms: int) -> Answer:
        group = self._existing(Error.GROUP_ID_NOT_FOUND)
        if group.state is not Phase.EMPTY and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise Refused(Error.NON_EMPTY_GROUP)
        refused = [place for place in request.partitions if self._in_use(group, place)]
        known = set(self.offsets.places()) - set(refused)
        records = self.offsets.remove(self.group_id, [one for one in request.partitions if one in known])
        if records:
            self._journal.write(now_ms, *records)
        return Answer(refused=tuple((*place, Error.GROUP_SUBSCRIBED_TO_TOPIC) for place in refused))

    def _in_use(self, group: ClassicGroup, place: Place) -> bool:
        return group.state is not Phase.EMPTY and group.is_subscribed(place[0])


_HANDLERS: Final[Mapping[type[Request], Callable[[Coordinator, Any, int], Answer | None]]] = {
    JoinGroup: Coordinator._join,
    SyncGroup: Coordinator._sync,
    Heartbeat: Coordinator._heartbeat,
    LeaveGroup: Coordinator._leave,
    OffsetCommit: Coordinator._commit,
    EndTransaction: Coordinator._end_transaction,
    DeleteGroup: Coordinator._delete,
    OffsetDelete: Coordinator._delete_offsets,
}
