"""The phases of a classic rebalance and the timers that drive them (``GroupMetadataManager``, classic part)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from groupreplay.codecs.kafka_terms import Phase
from groupreplay.coordinator.appends import answered_error
from groupreplay.coordinator.classic.classic_group import ClassicGroup, GroupMember
from groupreplay.coordinator.coordinator_state import CoordinatorState, TimerAction
from groupreplay.coordinator.requests import Answer, AppendFailed, Error, Refused, SyncGroup
from groupreplay.coordinator.trace_entries import AwaitedEntry, VoteEntry

_JOIN = ("join", "")
_SYNC = ("sync", "")


@dataclass(slots=True)
class Rebalance:
    """The rebalances of one classic group."""

    coordinator: CoordinatorState
    group: ClassicGroup

    def keep_alive(self, member: GroupMember, now_ms: int, timeout_ms: int | None = None) -> None:
        """Restart the member's session timeout."""
        self.await_session(member.member_id, now_ms + (timeout_ms or member.session_timeout_ms))

    def await_session(self, member_id: str, until_ms: int) -> None:
        """Expire the session at this time unless it is extended before."""
        self.coordinator.timers.schedule(
            ("session", member_id),
            until_ms,
            self._later(lambda rebalance, at_ms: rebalance._expire_session(member_id, at_ms)),
        )

    def _later(self, action: Callable[[Rebalance, int], None]) -> TimerAction:
        """The action of a timer: in whatever classic group the group id has by then."""
        coordinator = self.coordinator

        def run(at_ms: int) -> None:
            if isinstance(coordinator.group, ClassicGroup):
                action(Rebalance(coordinator, coordinator.group), at_ms)

        return run

    def remove_member(self, member_id: str, reason: str) -> None:
        """Remove a member and its session."""
        group, trace = self.group, self.coordinator.trace
        member, leader = group.members.get(member_id), group.leader
        self.coordinator.timers.cancel(("session", member_id))
        group.remove(member_id)
        trace.member("removed", member_id, None if member is None else member.instance_id, reason)
        trace.leader(leader, group.leader, reason)

    def give_up_join(self, member_id: str) -> None:
        """Refuse the open JoinGroup of a member that is about to be removed; its SyncGroup is never answered."""
        member = self.group.members.get(member_id)
        if member is not None and member.joining is not None:
            self.coordinator.journal.reply(member.joining, Answer(error=Error.UNKNOWN_MEMBER_ID))

    def _expire_session(self, member_id: str, now_ms: int) -> None:
        member = self.group.members.get(member_id)
        if member is None and member_id not in self.group.pending_joins:
            # A full group has refused it, which leaves its session.
            return
        if member is None:
            # A pending member: it was given an id and has not joined with it; a rebalance may wait for it.
            self.group.pending_joins.discard(member_id)
            self.coordinator.trace.branch(
                "expireClassicGroupMemberHeartbeat",
                "Pending member %s in group %s has been removed after session timeout expiration.",
                member_id,
                self.group.group_id,
            )
            self._complete_without(now_ms)
        elif not member.satisfied:
            self.give_up_join(member_id)
            reason = f"removing member {member_id} on heartbeat expiration."
            self.coordinator.trace.branch(
                "expireClassicGroupMemberHeartbeat",
                "Member %s in group %s has failed, removing it from the group.",
                member_id,
                self.group.group_id,
            )
            self.remove_member(member_id, reason)
            if self.group.can_rebalance:
                self.prepare(now_ms, reason)
            else:
                self._complete_without(now_ms)

    def _complete_without(self, now_ms: int) -> None:
        """A member's session has ended: end the join phase if no other member is awaited.

        Unlike all other ends of a membership this also ends the first join phase of an empty group
        (``removeMemberAndUpdateClassicGroup``), but not with the older coordinator.
        """
        if self.group.scala:
            self.complete_if_all_joined(now_ms)
            return
        self._trace_joins()
        if self.group.state is Phase.PREPARING_REBALANCE and self.group.all_members_joined:
            self.complete_join(now_ms)

    def prepare_or_complete(self, now_ms: int, reason: str) -> None:
        """The members have changed: begin a rebalance, or complete the join phase that this change ends."""
        if self.group.can_rebalance:
            self.prepare(now_ms, reason)
        else:
            self.complete_if_all_joined(now_ms)

    def prepare(self, now_ms: int, reason: str) -> None:
        """Begin a rebalance, for a reason in Kafka's words. That of an empty group first waits for more members."""
        group = self.group
        if group.state is Phase.COMPLETING_REBALANCE:
            self._propagate(Error.REBALANCE_IN_PROGRESS, now_ms)
        self.coordinator.timers.cancel(_SYNC)
        initial = group.state is Phase.EMPTY
        before = group.state
        group.transition_to(Phase.PREPARING_REBALANCE, now_ms)
        self.coordinator.trace.rebalance(before.value, group.generation, reason)
        self._trace_joins()
        if initial:
            self.await_first_joins(now_ms, group.rebalance_timeout_ms)
        elif group.all_members_joined:
            self.complete_join(now_ms)
        else:
            self._await_joins(now_ms)

    def _await_joins(self, now_ms: int) -> None:
        until_ms = now_ms + self.group.rebalance_timeout_ms
        self.coordinator.timers.schedule(_JOIN, until_ms, self._later(Rebalance.complete_join))

    def await_first_joins(self, now_ms: int, rebalance_timeout_ms: int) -> None:
        """Wait for the first members of an empty group."""
        delay_ms = self.coordinator.settings.initial_rebalance_delay_ms
        self._delay_join(now_ms, delay_ms, max(rebalance_timeout_ms - delay_ms, 0))

    def _delay_join(self, now_ms: int, delay_ms: int, remaining_ms: int) -> None:
        """Delay the end of the join phase. A new member extends the delay, up to the rebalance timeout."""

        def extend_or_complete(rebalance: Rebalance, at_ms: int) -> None:
            if rebalance.group.new_member_added and remaining_ms:
                rebalance.group.new_member_added = False
                longer_ms = min(rebalance.coordinator.settings.initial_rebalance_delay_ms, remaining_ms)
                rebalance._delay_join(at_ms, longer_ms, max(remaining_ms - delay_ms, 0))
            else:
                rebalance.complete_join(at_ms)

        self.coordinator.timers.schedule(_JOIN, now_ms + delay_ms, self._later(extend_or_complete))

    def complete_if_all_joined(self, now_ms: int) -> None:
        """End the join phase if all members have joined. That of an empty group ends by its timer only."""
        group = self.group
        preparing = group.state is Phase.PREPARING_REBALANCE and group.previous_state is not Phase.EMPTY
        self._trace_joins()
        if preparing and group.all_members_joined:
            self.complete_join(now_ms)

    def complete_join(self, now_ms: int) -> None:
        """End the join phase: remove dynamic members that have not joined, keep static ones."""
        group = self.group
        self.coordinator.timers.cancel(_JOIN)
        missing = [
            member
            for member in group.members.values()
            if member.joining is None and member.instance_id is None
        ]
        for member in missing:
            self.remove_member(member.member_id, "has not rejoined within the rebalance timeout")
        leader, has_leader = group.leader, group.elect_joined_leader()
        self.coordinator.trace.leader(leader, group.leader, "the former leader has not rejoined")
        if not has_leader and group.members:
            self.coordinator.trace.branch(
                "completeClassicGroupJoin",
                "Group %s could not complete rebalance because no members rejoined.",
                group.group_id,
            )
            # Only absent static members are left; nothing of this is written.
            self._await_joins(now_ms)
            return
        began = group.state is Phase.PREPARING_REBALANCE
        if not began:
            # The timer of a group that was not written, or was converted, meets the next one: Kafka fails half-way.
            group.raise_generation()
            return
        group.next_generation(now_ms)
        self._begin_generation(now_ms)

    def _begin_generation(self, now_ms: int) -> None:
        """Write an empty group; otherwise answer the members that have joined, and wait for their SyncGroups."""
        group = self.group
        self.coordinator.offsets.committed_by.clear()
        self._trace_vote()
        if group.state is Phase.EMPTY:
            self.coordinator.trace.branch(
                "completeClassicGroupJoin",
                "Group %s with generation %s is now empty.",
                group.group_id,
                group.generation,
            )
            self._write_empty(now_ms)
            return
        for member in group.in_map_order():
            if member.joining is not None:
                self.coordinator.journal.reply(member.joining, self.join_answer(member))
                member.joining = None
            self.keep_alive(member, now_ms)
            member.is_new = False
            group.pending_syncs[member.member_id] = None
        self._await_syncs(now_ms)

    def _await_syncs(self, now_ms: int) -> None:
        generation = self.group.generation
        self.coordinator.timers.schedule(
            _SYNC,
            now_ms + self.group.rebalance_timeout_ms,
            self._later(lambda rebalance, at_ms: rebalance._expire_syncs(generation, at_ms)),
        )

    def _write_empty(self, now_ms: int) -> None:
        """Write the group without members; if that fails it is Empty all the same, until another broker loads it."""
        try:
            self.coordinator.journal.write(now_ms, self.group.record())
        except AppendFailed as failed:
            says = "Failed to write empty metadata for group %s: %s"
            place = (self.group.group_id, answered_error(failed.error).value)
            self.coordinator.trace.branch("completeClassicGroupJoin", says, *place)
            # The older coordinator answers a LeaveGroup before it writes.
            if not self.coordinator.settings.scala:
                raise

    def join_answer(self, member: GroupMember, *, skips_assignment: bool = False) -> Answer:
        """The answer to a JoinGroup in the present generation; only the leader's lists the members."""
        group = self.group
        leads = group.leader == member.member_id
        return Answer(
            member_id=member.member_id,
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            leader=group.leader or "",
            members=tuple(
                (member.member_id, member.instance_id, member.metadata(group.protocol))
                for member in group.in_map_order()
            )
            if leads
            else (),
            skip_assignment=leads and skips_assignment,
        )

    def _expire_syncs(self, generation: int, now_ms: int) -> None:
        """Remove the members that have not sent a SyncGroup in time, and rebalance."""
        group = self.group
        syncing = group.state in (Phase.COMPLETING_REBALANCE, Phase.STABLE)
        if generation != group.generation or not syncing or not group.pending_syncs:
            return
        late = list(group.pending_syncs)
        reason = f"Removing [{', '.join(late)}] on pending sync request expiration"
        for member_id in late:
            self.remove_member(member_id, reason)
        self.prepare(now_ms, reason)

    def mark_synced(self, member: GroupMember) -> None:
        """Note that a member has sent its SyncGroup; after the last one the timeout is cancelled."""
        self.group.pending_syncs.pop(member.member_id, None)
        self._trace_syncs()
        if not self.group.pending_syncs:
            self.coordinator.timers.cancel(_SYNC)

    def assign(self, assignments: dict[str, bytes], now_ms: int) -> None:
        """Take over the leader's assignments: write the generation and answer the waiting members.

        If it cannot be written, all get the error and the group rebalances again.
        """
        group = self.group
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        try:
            self.coordinator.journal.write(now_ms, group.record())
        except AppendFailed as failed:
            error = answered_error(failed.error)
            self._propagate(error, now_ms)
            # Kafka's text lacks this space.
            what = f"Error {error.value} when storing group assignmentduring SyncGroup"
            self.prepare_or_complete(now_ms, f"{what} (member: {group.leader}).")
            return
        self._propagate(Error.NONE, now_ms)
        group.transition_to(Phase.STABLE, now_ms)

    def _propagate(self, error: Error, now_ms: int) -> None:
        for member in self.group.in_map_order():
            if error is not Error.NONE:
                member.assignment = b""
            if member.syncing is not None:
                answer = self.sync_answer(member) if error is Error.NONE else Answer(error=error)
                self.coordinator.journal.reply(member.syncing, answer)
                member.syncing = None
                self.keep_alive(member, now_ms)

    # -- the trace

    def _trace_joins(self) -> None:
        group, trace = self.group, self.coordinator.trace
        if trace.on and group.state is Phase.PREPARING_REBALANCE:
            joined = tuple(
                member.member_id for member in group.members.values() if member.joining is not None
            )
            awaited = tuple(member.member_id for member in group.members.values() if member.joining is None)
            pending = tuple(sorted(group.pending_joins))
            trace.add(
                AwaitedEntry(*trace.here, phase="join", arrived=joined, awaited=awaited, pending=pending)
            )

    def _trace_syncs(self) -> None:
        group, trace = self.group, self.coordinator.trace
        if trace.on:
            awaited = tuple(group.pending_syncs)
            arrived = tuple(name for name in group.members if name not in group.pending_syncs)
            trace.add(AwaitedEntry(*trace.here, phase="sync", arrived=arrived, awaited=awaited, pending=()))

    def _trace_vote(self) -> None:
        group, trace = self.group, self.coordinator.trace
        if trace.on and group.protocol is not None:
            trace.add(
                VoteEntry(
                    *trace.here,
                    generation=group.generation,
                    tally=dict(group.supported_protocols),
                    candidates=group.candidate_protocols,
                    votes=group.votes(),
                    winner=group.protocol,
                )
            )

    def sync_answer(self, member: GroupMember) -> Answer:
        """The answer to a SyncGroup in the present generation."""
        return Answer(
            protocol_type=self.group.protocol_type,
            protocol=self.group.protocol,
            assignment=member.assignment,
        )


def check_protocol(request: SyncGroup, protocol_type: str | None, protocol: str | None) -> None:
    """Raises ``Refused`` for a SyncGroup that names another protocol than the group's; None names no protocol."""
    named = ((request.protocol_type, protocol_type), (request.protocol, protocol))
    if any(asked is not None and asked != known for asked, known in named):
        raise Refused(Error.INCONSISTENT_GROUP_PROTOCOL)
