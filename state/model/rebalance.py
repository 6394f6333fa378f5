"""The phases of a classic rebalance and the timers that drive them (``GroupMetadataManager``, classic part).

Knows how a rebalance begins, waits, completes and gives up on members; must not know the requests that lead to
it, which `coordinator` looks at, nor committed offsets. Appends succeed at once: a broker that cannot write
is not modelled.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

from groupreplay.codecs import GroupMetadataKey, GroupMetadataValue, Key, Value
from groupreplay.state.kafka_terms import Phase
from groupreplay.state.model.classic_group import ClassicGroup, GroupMember
from groupreplay.state.model.requests import (
    Answer,
    Error,
    JoinGroup,
    Marker,
    Operation,
    Outcome,
    Reply,
    Request,
    Settings,
    StateChange,
)

#: What a timer does, given the moment at which it was due.
Action = Callable[[int], None]
_Key = tuple[str, str]
#: So many stale timers do not matter.
_FEW = 16
_JOIN = ("join", "")
_SYNC = ("sync", "")


@dataclass(slots=True)
class Timers:
    """Actions by key, each due at a time; of equal times the one that was set first comes first."""

    _due: dict[_Key, tuple[int, int, Action]] = field(default_factory=dict)
    #: (time, place in the order of setting, key); most sessions are prolonged before they end, so many are stale.
    _heap: list[tuple[int, int, _Key]] = field(default_factory=list)
    _set: int = 0

    def schedule(self, key: _Key, at_ms: int, action: Action) -> None:
        """Set a timer; one with the same key is forgotten."""
        self._set += 1
        self._due[key] = (at_ms, self._set, action)
        heapq.heappush(self._heap, (at_ms, self._set, key))
        if len(self._heap) > 4 * len(self._due) + _FEW:
            self._heap = sorted((at_ms, number, key) for key, (at_ms, number, _) in self._due.items())

    def is_set(self, key: _Key) -> bool:
        """Whether a timer is set."""
        return key in self._due

    def cancel(self, key: _Key) -> None:
        """Forget a timer, if it is set."""
        self._due.pop(key, None)

    def clear(self) -> None:
        """Forget them all."""
        self._due.clear()
        self._heap.clear()

    def next_deadline_ms(self) -> int | None:
        """When the next one is due."""
        while self._heap:
            at_ms, number, key = self._heap[0]
            if key in self._due and self._due[key][1] == number:
                return at_ms
            heapq.heappop(self._heap)
        return None

    def take(self, now_ms: int) -> tuple[int, Action] | None:
        """The next timer that is due by now, and when it was."""
        next_ms = self.next_deadline_ms()
        if next_ms is None or next_ms > now_ms:
            return None
        at_ms, _, key = heapq.heappop(self._heap)
        return at_ms, self._due.pop(key)[2]


@dataclass(slots=True)
class Journal:
    """What has come of a request so far."""

    replies: list[Reply] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    changes: list[StateChange] = field(default_factory=list)
    #: The group's newest record; None when it has none, or a tombstone.
    written: GroupMetadataValue | None = None

    def reply(self, request: Request, answer: Answer) -> None:
        """Answer a request."""
        self.replies.append(Reply(request, answer))

    def write(
        self,
        now_ms: int,
        *records: tuple[Key, Value | None],
        producer_id: int | None = None,
        marker: Marker | None = None,
    ) -> None:
        """Write an operation."""
        for key, value in records:
            if isinstance(key, GroupMetadataKey):
                assert value is None or isinstance(value, GroupMetadataValue)
                self.written = value
        self.operations.append(
            Operation(timestamp_ms=now_ms, records=records, producer_id=producer_id, marker=marker)
        )

    def take(self) -> Outcome:
        """Everything, once."""
        outcome = Outcome(
            tuple(self.replies), tuple(self.operations), tuple(self.warnings), tuple(self.changes)
        )
        for told in (self.replies, self.operations, self.warnings, self.changes):
            told.clear()
        return outcome


@dataclass(slots=True)
class Rebalance:
    """The rebalances of one group."""

    group: ClassicGroup
    settings: Settings
    timers: Timers
    journal: Journal

    def keep_alive(self, member: GroupMember, now_ms: int, timeout_ms: int | None = None) -> None:
        """A sign of life: the member's session begins anew."""
        self.await_session(member.member_id, now_ms + (timeout_ms or member.session_timeout_ms))

    def await_session(self, member_id: str, until_ms: int) -> None:
        """Somebody who has not been heard of until then is gone."""
        self.timers.schedule(
            ("session", member_id), until_ms, lambda at_ms: self._expire_session(member_id, at_ms)
        )

    def forget(self, member_id: str) -> None:
        """A member is no more."""
        self.timers.cancel(("session", member_id))
        self.group.remove(member_id)

    def _expire_session(self, member_id: str, now_ms: int) -> None:
        member = self.group.members.get(member_id)
        if member is None:
            # It was given an id and has not come back with it; a rebalance may have waited for it.
            self.group.pending_joins.discard(member_id)
            self.complete_if_all_joined(now_ms)
        elif not member.satisfied:
            if member.joining is not None:
                self.journal.reply(member.joining, Answer(error=Error.UNKNOWN_MEMBER_ID))
            self.forget(member_id)
            self.prepare_or_complete(now_ms)

    def prepare_or_complete(self, now_ms: int) -> None:
        """The members have changed: begin a rebalance, or look whether the one in progress can go on."""
        if self.group.can_rebalance:
            self.prepare(now_ms)
        else:
            self.complete_if_all_joined(now_ms)

    def prepare(self, now_ms: int) -> None:
        """Begin a rebalance; the first one of an empty group waits for more members to come."""
        group = self.group
        if group.state is Phase.COMPLETING_REBALANCE:
            self._propagate(Error.REBALANCE_IN_PROGRESS, now_ms)
        self.timers.cancel(_SYNC)
        initial = group.state is Phase.EMPTY
        group.transition_to(Phase.PREPARING_REBALANCE, now_ms)
        if initial:
            delay_ms = self.settings.initial_rebalance_delay_ms
            self._wait_for_more(now_ms, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        elif group.all_members_joined:
            self.complete_join(now_ms)
        else:
            self.timers.schedule(_JOIN, now_ms + group.rebalance_timeout_ms, self.complete_join)

    def _wait_for_more(self, now_ms: int, delay_ms: int, remaining_ms: int) -> None:
        """Whoever comes during the delay prolongs it by another one, up to the rebalance timeout."""

        def look(at_ms: int) -> None:
            if self.group.new_member_added and remaining_ms:
                self.group.new_member_added = False
                longer_ms = min(self.settings.initial_rebalance_delay_ms, remaining_ms)
                self._wait_for_more(at_ms, longer_ms, max(remaining_ms - delay_ms, 0))
            else:
                self.complete_join(at_ms)

        self.timers.schedule(_JOIN, now_ms + delay_ms, look)

    def complete_if_all_joined(self, now_ms: int) -> None:
        """End the join phase when nobody is missing; that of an empty group ends by time alone."""
        group = self.group
        preparing = group.state is Phase.PREPARING_REBALANCE and group.previous_state is not Phase.EMPTY
        if preparing and group.all_members_joined:
            self.complete_join(now_ms)

    def complete_join(self, now_ms: int) -> None:
        """End the join phase: dynamic members that have not joined are gone, static ones stay."""
        group = self.group
        self.timers.cancel(_JOIN)
        missing = [one for one in group.members.values() if one.joining is None and one.instance_id is None]
        for member in missing:
            self.forget(member.member_id)
        if not group.elect_joined_leader() and group.members:
            # Static members that are away; nothing of this is written.
            self.timers.schedule(_JOIN, now_ms + group.rebalance_timeout_ms, self.complete_join)
            return
        group.next_generation(now_ms)
        if group.state is Phase.EMPTY:
            self.journal.write(now_ms, (GroupMetadataKey(group=group.group_id), group.record()))
            return
        for member in group.members.values():
            if member.joining is not None:
                self.journal.reply(member.joining, self.joined(member))
                member.joining = None
            self.keep_alive(member, now_ms)
            member.is_new = False
            group.pending_syncs[member.member_id] = None
        generation = group.generation
        self.timers.schedule(
            _SYNC, now_ms + group.rebalance_timeout_ms, lambda at_ms: self._expire_syncs(generation, at_ms)
        )

    def joined(self, member: GroupMember, *, skips_assignment: bool = False) -> Answer:
        """What a member of the present generation is told; only the leader is told of the others."""
        group = self.group
        leads = group.leader == member.member_id
        return Answer(
            member_id=member.member_id,
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol=group.protocol,
            leader=group.leader or "",
            members=tuple(
                (one.member_id, one.instance_id, one.metadata(group.protocol))
                for one in group.members.values()
            )
            if leads
            else (),
            skip_assignment=leads and skips_assignment,
        )

    def _expire_syncs(self, generation: int, now_ms: int) -> None:
        """Members that have not synced in time are gone."""
        group = self.group
        syncing = group.state in (Phase.COMPLETING_REBALANCE, Phase.STABLE)
        if generation != group.generation or not syncing or not group.pending_syncs:
            return
        for member_id in list(group.pending_syncs):
            self.forget(member_id)
        self.prepare(now_ms)

    def synced(self, member: GroupMember) -> None:
        """A member has synced; when all have, nobody is waited for."""
        self.group.pending_syncs.pop(member.member_id, None)
        if not self.group.pending_syncs:
            self.timers.cancel(_SYNC)

    def assign(self, assignments: dict[str, bytes], now_ms: int) -> None:
        """The leader has synced: the generation is written and everybody who waits is told its part."""
        group = self.group
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        self.journal.write(now_ms, (GroupMetadataKey(group=group.group_id), group.record()))
        self._propagate(Error.NONE, now_ms)
        group.transition_to(Phase.STABLE, now_ms)

    def _propagate(self, error: Error, now_ms: int) -> None:
        for member in self.group.members.values():
            if error is not Error.NONE:
                member.assignment = b""
            if member.syncing is not None:
                answer = self.share_of(member) if error is Error.NONE else Answer(error=error)
                self.journal.reply(member.syncing, answer)
                member.syncing = None
                self.keep_alive(member, now_ms)

    def share_of(self, member: GroupMember) -> Answer:
        """A member's assignment as SyncGroup answers it."""
        return Answer(
            protocol_type=self.group.protocol_type,
            protocol=self.group.protocol,
            assignment=member.assignment,
        )


def returned(answer: Answer, request: JoinGroup, former_leader: str | None) -> Answer:
    """What a replaced static member is told: an old client that leads must not begin to assign."""
    if request.skips_assignment:
        return answer
    return Answer(
        member_id=answer.member_id,
        generation=answer.generation,
        protocol_type=answer.protocol_type,
        protocol=answer.protocol,
        leader=former_leader or "",
    )
