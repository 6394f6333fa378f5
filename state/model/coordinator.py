"""The coordinator of one group, as a model: requests and time in, answers and records out.

It decides what Kafka's ``GroupMetadataManager`` and ``OffsetMetadataManager`` decide, and writes what they
write: the generator of histories whose truth is known, and the oracle for the replay of them. Pure: the time is
an argument that must not go back, ids come from the random numbers that it is given. Must not know partitions
of the log, or other groups. The protocols of members are in `coordinator_classic`, `coordinator_consumer` and
`coordinator_mixed`; here is what anybody may ask: offsets, deletion, what there is.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, Final

from groupreplay.codecs import GroupMetadataKey
from groupreplay.state.kafka_terms import CONSUMER_PROTOCOL_TYPE, ConsumerPhase, Phase
from groupreplay.state.model import consumer_records
from groupreplay.state.model.books import CoordinatorState
from groupreplay.state.model.classic_group import ClassicGroup
from groupreplay.state.model.classic_protocol import ClassicProtocol
from groupreplay.state.model.consumer_group import ConsumerGroup, Topics
from groupreplay.state.model.consumer_protocol import ConsumerProtocol
from groupreplay.state.model.consumer_records import Record
from groupreplay.state.model.mixed import MixedProtocol
from groupreplay.state.model.offsets import CommittedOffsets
from groupreplay.state.model.requests import (
    Answer,
    ConsumerGroupHeartbeat,
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
    SyncGroup,
)

#: Said once of a group, as Kafka's log says it.
MIXED_COMMITS: Final = (
    "received offset commits from consumers as well as transactional producers; mixing both types of offset "
    "commits will generally result in surprises and should be avoided"
)


class Coordinator:
    """What one group's coordinator holds and decides.

    ``topics`` are those of the cluster, which only consumer groups (KIP-848) ask for; they may change.
    """

    def __init__(
        self, group_id: str, settings: Settings, numbers: random.Random, topics: Topics | None = None
    ) -> None:
        self.group_id = group_id
        self.settings = settings
        self.books = CoordinatorState(
            group_id=group_id, settings=settings, numbers=numbers, topics={} if topics is None else topics
        )
        self._journal = self.books.journal

    @property
    def group(self) -> ClassicGroup | ConsumerGroup | None:
        """The group; None when there is none."""
        return self.books.group

    @property
    def offsets(self) -> CommittedOffsets:
        """What is committed, and what is pending in transactions."""
        return self.books.offsets

    @property
    def state(self) -> Phase | ConsumerPhase:
        """The group's state; Dead when there is none."""
        group = self.group
        if group is None:
            return Phase.DEAD
        # A consumer group's follows from all of its members, and does not change between operations.
        return group.told if isinstance(group, ConsumerGroup) else group.state

    def handle(self, request: Request, now_ms: int) -> Outcome:
        """Decide on a request, after everything that was due before it.

        A JoinGroup and a SyncGroup may have no answer in this outcome: it comes when the others are there.
        """
        self._serve(now_ms)
        try:
            answer = _HANDLERS[type(request)](self, request, now_ms)
        except Refused as refused:
            answer = Answer(error=refused.error, member_id=_echoed(request, refused.error))
        if answer is not None:
            self._journal.reply(request, answer)
        return self._journal.take()

    def advance(self, now_ms: int) -> Outcome:
        """Let time pass: everything that is due by now happens at its own moment."""
        self._serve(now_ms)
        return self._journal.take()

    def next_deadline_ms(self) -> int | None:
        """When something is due although nobody asks for it; None for never."""
        return self.books.timers.next_deadline_ms()

    def clean_up(self, now_ms: int) -> Outcome:
        """The clean-up that comes round every ``offsets.retention.check.interval.ms``."""
        self._serve(now_ms)
        if self.group is not None:
            expired = self.offsets.expired(self.group, self.settings.retention_ms, now_ms)
            records = self.offsets.remove(self.group_id, expired)
            if self.group.is_empty and not self.offsets:
                records += self._end(self.group, now_ms)
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
        if isinstance(self.group, ConsumerGroup):
            ConsumerProtocol(self.books).reload(self.group, now_ms)
        elif self.group is not None:
            ClassicProtocol(self.books).reload(self.group, now_ms)
        return self._journal.take()

    def overview(self) -> GroupOverview | None:
        """The group as ListGroups tells it, if it does."""
        group = self.group
        if group is None:
            return None
        kind = (group.protocol_type or "") if isinstance(group, ClassicGroup) else CONSUMER_PROTOCOL_TYPE
        return GroupOverview(group_id=self.group_id, protocol_type=kind, state=group.state)

    def summary(self) -> GroupSummary:
        """The group as DescribeGroups tells it, which knows classic groups only."""
        return (
            self.group.summary() if isinstance(self.group, ClassicGroup) else GroupSummary(state=Phase.DEAD)
        )

    def _serve(self, now_ms: int) -> None:
        while (due := self.books.timers.take(now_ms)) is not None:
            at_ms, action = due
            action(at_ms)

    # -- members

    @property
    def _protocol(self) -> ClassicProtocol | MixedProtocol:
        """Who answers members of the classic protocol; an empty consumer group makes room for a classic one."""
        group = self.group
        return MixedProtocol(self.books) if isinstance(group, ConsumerGroup) else ClassicProtocol(self.books)

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
        if isinstance(self.group, ConsumerGroup) and not self.group.is_empty:
            return MixedProtocol(self.books).join(request, now_ms)
        return ClassicProtocol(self.books).join(request, now_ms)

    def _sync(self, request: SyncGroup, now_ms: int) -> Answer | None:
        return self._protocol.sync(request, now_ms)

    def _heartbeat(self, request: Heartbeat, now_ms: int) -> Answer:
        return self._protocol.heartbeat(request, now_ms)

    def _leave(self, request: LeaveGroup, now_ms: int) -> Answer:
        return self._protocol.leave(request, now_ms)

    def _consumer_heartbeat(self, request: ConsumerGroupHeartbeat, now_ms: int) -> Answer:
        return ConsumerProtocol(self.books).heartbeat(request, now_ms)

    # -- offsets

    def _commit(self, request: OffsetCommit, now_ms: int) -> Answer:
        if self.group is None and request.generation >= 0:
            raise Refused(Error.ILLEGAL_GENERATION)
        # Offsets alone make a simple group.
        group = self.group or self.books.begin_classic(now_ms)
        if isinstance(group, ConsumerGroup):
            group.validate_commit(request, self.books.topics)
        else:
            group.validate_commit(request)
            member = group.members.get(request.member_id)
            if member is not None and group.state in (Phase.STABLE, Phase.PREPARING_REBALANCE):
                self.books.rebalance(group).keep_alive(member, now_ms)
        if self.offsets.begins_to_mix(request):
            self._journal.warnings.append(f"group {self.group_id} {MIXED_COMMITS}")
        most = self.settings.offset_metadata_max_bytes
        refused = [one for one in request.commits if len(one.metadata.encode()) > most]
        fits = [one for one in request.commits if one not in refused] if refused else request.commits
        topic_ids = {name: topic.topic_id for name, topic in self.books.topics.items()}
        records = self.offsets.commit(self.group_id, request, fits, now_ms, topic_ids)
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
        group = self.books.existing(Error.GROUP_ID_NOT_FOUND)
        if not group.is_empty:
            raise Refused(Error.NON_EMPTY_GROUP)
        records = self.offsets.remove(self.group_id, self.offsets.places()) + self._end(group, now_ms)
        if records:
            self._journal.write(now_ms, *records)
        return Answer()

    def _end(self, group: ClassicGroup | ConsumerGroup, now_ms: int) -> list[Record]:
        """The group ceases to be; its tombstones."""
        self.books.group = None
        self.offsets.committed_by.clear()
        self.books.timers.clear()
        if isinstance(group, ConsumerGroup):
            group.become(ConsumerPhase.DEAD, now_ms)
            return consumer_records.ended(self.group_id)
        group.transition_to(Phase.DEAD, now_ms)
        if self.settings.scala and group.generation == 0:
            return []
        return [(GroupMetadataKey(group=self.group_id), None)]

    def _delete_offsets(self, request: OffsetDelete, now_ms: int) -> Answer:
        group = self.books.existing(Error.GROUP_ID_NOT_FOUND)
        others = isinstance(group, ClassicGroup) and group.protocol_type != CONSUMER_PROTOCOL_TYPE
        if others and not group.is_empty:
            raise Refused(Error.NON_EMPTY_GROUP)
        refused = [
            place for place in request.partitions if not group.is_empty and group.is_subscribed(place[0])
        ]
        known = set(self.offsets.places()) - set(refused)
        records = self.offsets.remove(self.group_id, [one for one in request.partitions if one in known])
        if records:
            self._journal.write(now_ms, *records)
        return Answer(refused=tuple((*place, Error.GROUP_SUBSCRIBED_TO_TOPIC) for place in refused))


def _echoed(request: Request, error: Error) -> str:
    """A JoinGroup that is refused is told the id that it came with, unless there was no room."""
    if isinstance(request, JoinGroup) and error is not Error.GROUP_MAX_SIZE_REACHED:
        return request.member_id
    return ""


_HANDLERS: Final[Mapping[type[Request], Callable[[Coordinator, Any, int], Answer | None]]] = {
    JoinGroup: Coordinator._join,
    SyncGroup: Coordinator._sync,
    Heartbeat: Coordinator._heartbeat,
    LeaveGroup: Coordinator._leave,
    ConsumerGroupHeartbeat: Coordinator._consumer_heartbeat,
    OffsetCommit: Coordinator._commit,
    EndTransaction: Coordinator._end_transaction,
    DeleteGroup: Coordinator._delete,
    OffsetDelete: Coordinator._delete_offsets,
}
