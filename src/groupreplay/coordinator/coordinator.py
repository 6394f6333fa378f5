"""The coordinator of one group: takes requests and the time, returns answers and records.

It makes the decisions of Kafka's ``GroupMetadataManager`` and ``OffsetMetadataManager`` and writes their records, to
generate histories with known state changes and to check the replay of them. It is deterministic: the time is an
argument that never decreases, and ids come from the given random numbers. Requests of members are handled by
`classic`, `consumer` and `mixed`; this module handles offsets, deletion and descriptions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from groupreplay.codecs import OffsetCommitValue
from groupreplay.codecs.kafka_terms import CONSUMER_PROTOCOL_TYPE, ConsumerPhase, Phase
from groupreplay.coordinator.appends import RuntimeSnapshot, failed_answer
from groupreplay.coordinator.classic.classic_group import ClassicGroup, group_tombstone
from groupreplay.coordinator.classic.protocol import ClassicHandler
from groupreplay.coordinator.classic.rebalance import Rebalance
from groupreplay.coordinator.consumer import records as consumer_records
from groupreplay.coordinator.consumer.consumer_group import ConsumerGroup
from groupreplay.coordinator.consumer.protocol import ConsumerHandler
from groupreplay.coordinator.coordinator_state import CoordinatorState, DescribedGroup, described
from groupreplay.coordinator.mixed import MixedHandler
from groupreplay.coordinator.offsets import CommittedOffsets, TopicPartition
from groupreplay.coordinator.partition import (
    answer_without_coordinator,
    begin_loading,
    load,
    unload,
    validate_request,
    validate_session_timeout,
)
from groupreplay.coordinator.requests import (
    Answer,
    AppendFailed,
    ClassicHeartbeat,
    ConsumerGroupHeartbeat,
    DeleteGroup,
    EndTransaction,
    Error,
    JoinGroup,
    LeaveGroup,
    Marker,
    OffsetCommit,
    OffsetDelete,
    Outcome,
    PartitionState,
    Record,
    Refused,
    Request,
    SyncGroup,
    Thrown,
)

#: Requests in the middle of which Kafka may throw.
_MAY_THROW: Final = (JoinGroup, ConsumerGroupHeartbeat)
#: The time after which a timer of a consumer group is tried again.
_TIMER_RETRY_MS: Final = 500
#: The warning of the older coordinator, at each commit in a generation that has had both.
MIXED_COMMITS: Final = (
    "has received offset commits from consumers as well as transactional producers. Mixing both types of offset "
    "commits will generally result in surprises and should be avoided."
)


class Coordinator(CoordinatorState):
    """The coordinator of one group id."""

    @property
    def state(self) -> Phase | ConsumerPhase:
        """The group's state; Dead when the group does not exist."""
        group = self.group
        if group is None:
            return Phase.DEAD
        # The state of a consumer group follows from all of its members; it does not change between operations.
        return group.last_state if isinstance(group, ConsumerGroup) else group.state

    def handle(self, request: Request, now_ms: int) -> Outcome:
        """Handle a request, after all timers that were due before it.

        The answer to a JoinGroup or SyncGroup may come in a later outcome, when all members have joined or synced.
        """
        self._serve(now_ms)
        if self.trace.on:
            self.trace.received(request, self.state.value, len(getattr(self.group, "members", ())))
        try:
            answer = self._answer(request, now_ms)
        except Refused as refused:
            answer = Answer(error=refused.error, member_id=_echoed(request, refused.error))
        if answer is not None:
            self.journal.reply(request, answer)
        return self.journal.take()

    def _answer(self, request: Request, now_ms: int) -> Answer | None:
        """The answer; None while it waits. Raises ``Refused``."""
        scala = self.settings.scala
        validate_request(request, self.group_id, self.settings)
        if self.partition is not PartitionState.ACTIVE:
            return answer_without_coordinator(request, self.partition, scala=scala)
        snapshot = self._snapshot(may_throw=type(request) in _MAY_THROW)
        try:
            return _HANDLERS[type(request)](self, request, now_ms)
        except Thrown:
            assert snapshot is not None
            snapshot.take_back(self, now_ms)
            raise
        except AppendFailed as failed:
            self._take_back(snapshot, failed, now_ms)
            return failed_answer(request, failed, scala=scala)

    def _snapshot(self, *, may_throw: bool = False) -> RuntimeSnapshot | None:
        """The state before an operation; None where nothing can go wrong, and it is not needed."""
        group = self.group
        strays = group.has_strays if isinstance(group, ConsumerGroup) else group is not None
        needed = self.journal.failing is not None or (may_throw and strays)
        return RuntimeSnapshot.of(self) if needed else None

    def _take_back(self, snapshot: RuntimeSnapshot | None, failed: AppendFailed, now_ms: int) -> None:
        assert snapshot is not None
        snapshot.restore(self, failed.error, now_ms)

    def fail_appends(self, error: Error | None) -> None:
        """From now on appends fail with one of ``APPEND_ERRORS``; None: they succeed again."""
        self.journal.failing = error

    def advance(self, now_ms: int) -> Outcome:
        """Let time pass: run all timers that are due by now, each at its own time."""
        self._serve(now_ms)
        return self.journal.take()

    def next_deadline_ms(self) -> int | None:
        """When the next timer is due; None without timers."""
        return self.timers.next_deadline_ms()

    def clean_up(self, now_ms: int) -> Outcome:
        """The expiry check that the broker runs every ``offsets.retention.check.interval.ms``."""
        self._serve(now_ms)
        if self.group is not None and self.partition is PartitionState.ACTIVE:
            partitions = self.offsets.expired(self.group, self.settings.retention_ms, now_ms)
            self.trace.branch("cleanupGroupMetadata")
            self._clean(self.group, partitions, now_ms, expired=True)
        return self.journal.take()

    def _clean(
        self,
        group: ClassicGroup | ConsumerGroup,
        partitions: list[TopicPartition],
        now_ms: int,
        *,
        expired: bool = False,
    ) -> None:
        """Remove offsets, and the group if it has neither members nor offsets then."""
        snapshot = self._snapshot()
        records = self.offsets.remove(self.group_id, partitions, expired=expired)
        ends = group.is_empty and not self.offsets.keep_group
        try:
            self._write_removal(records + (self._group_tombstones(group) if ends else []), now_ms)
        except AppendFailed as failed:
            self._take_back(snapshot, failed, now_ms)
        else:
            if ends:
                self._end(group, now_ms)

    def _write_removal(self, records: list[Record], now_ms: int) -> None:
        """Write tombstones.

        If it fails, the older coordinator only logs that: the log keeps what the coordinator has forgotten, and the
        next coordinator loads it.
        """
        try:
            self.journal.write(now_ms, *records)
        except AppendFailed:
            if not self.settings.scala:
                raise

    def delete_topic(self, topic: str, now_ms: int) -> Outcome:
        """A topic is deleted: remove its offsets. Without a broker that has loaded them, they stay."""
        self._serve(now_ms)
        if self.partition is PartitionState.ACTIVE:
            partitions = [partition for partition in self.offsets.each_partition() if partition[0] == topic]
            if self.group is not None and self.settings.scala:
                # The older coordinator looks at every group then.
                self._clean(self.group, partitions, now_ms)
                return self.journal.take()
            snapshot = self._snapshot()
            try:
                self._write_removal(self.offsets.remove(self.group_id, partitions), now_ms)
            except AppendFailed as failed:
                self._take_back(snapshot, failed, now_ms)
        return self.journal.take()

    def unload(self, now_ms: int) -> Outcome:
        """The broker leads the partition no more: open requests are answered with NOT_COORDINATOR."""
        self._serve(now_ms)
        unload(self)
        return self.journal.take()

    def begin_loading(self, now_ms: int) -> Outcome:
        """Another broker leads the partition and loads it; call `load` when it has."""
        self._serve(now_ms)
        begin_loading(self)
        return self.journal.take()

    def load(self, now_ms: int) -> Outcome:
        """The broker has loaded the group from the log; a rebalance that was in progress is lost."""
        self._serve(now_ms)
        load(self, now_ms)
        return self.journal.take()

    def move(self, now_ms: int) -> Outcome:
        """Another broker becomes the coordinator, and has loaded the group at once."""
        self._serve(now_ms)
        unload(self)
        begin_loading(self)
        load(self, now_ms)
        return self.journal.take()

    def summary(self) -> DescribedGroup:
        """The group as DescribeGroups reports it; DescribeGroups finds classic groups only."""
        if self.partition is PartitionState.CLOSED:
            return DescribedGroup(state=Phase.DEAD, error=Error.NOT_COORDINATOR)
        if self.partition is PartitionState.LOADING:
            return DescribedGroup(state=Phase.DEAD, error=Error.COORDINATOR_LOAD_IN_PROGRESS)
        group = self.group
        return described(group) if isinstance(group, ClassicGroup) else DescribedGroup(state=Phase.DEAD)

    def _serve(self, now_ms: int) -> None:
        while (due := self.timers.take(now_ms)) is not None:
            at_ms, key, action = due
            snapshot = self._snapshot()
            try:
                action(at_ms)
            except AppendFailed as failed:
                self._take_back(snapshot, failed, at_ms)
                if isinstance(self.group, ConsumerGroup):
                    # Timers of classic groups are not tried again.
                    self.timers.schedule(key, at_ms + _TIMER_RETRY_MS, action)
        self.trace.now_ms = now_ms

    # -- members

    @property
    def _protocol(self) -> ClassicHandler | MixedHandler:
        """The handler for members of the classic protocol."""
        group = self.group
        return MixedHandler(self) if isinstance(group, ConsumerGroup) else ClassicHandler(self)

    def _join(self, request: JoinGroup, now_ms: int) -> Answer | None:
        validate_session_timeout(request, self.settings)
        if isinstance(self.group, ConsumerGroup) and not self.group.is_empty:
            try:
                return MixedHandler(self).join(request, now_ms)
            except Refused as refused:
                # Here Kafka throws, and such an answer has no member id.
                return Answer(error=refused.error)
        # A classic group replaces an empty consumer group.
        return ClassicHandler(self).join(request, now_ms)

    # -- offsets

    def _commit(self, request: OffsetCommit, now_ms: int) -> Answer:
        self.trace.branch("commitOffset" if request.producer_id is None else "commitTransactionalOffset")
        # Committed offsets alone make a simple group.
        if self.group is None and request.generation >= 0:
            self._refuse_unknown(request, now_ms)
        group = self.group or self.begin_classic(now_ms)
        if isinstance(group, ConsumerGroup):
            group.validate_commit(request, self.topics)
        else:
            group.validate_commit(request)
            member = group.members.get(request.member_id)
            lives = group.state in (Phase.STABLE, Phase.PREPARING_REBALANCE) and request.producer_id is None
            if member is not None and lives:
                Rebalance(self, group).keep_alive(member, now_ms)
        if self.settings.scala and self.offsets.is_mixed(request) and isinstance(group, ClassicGroup):
            self.journal.warnings.append(
                f"group: {self.group_id} with leader: {group.leader or 'null'} {MIXED_COMMITS}"
            )
        most = self.settings.offset_metadata_max_bytes
        refused = [commit for commit in request.commits if len(commit.metadata.encode()) > most]
        fits = [commit for commit in request.commits if commit not in refused] if refused else request.commits
        version = self.settings.written_version(OffsetCommitValue)
        records = self.offsets.commit(
            self.group_id, request, fits, now_ms, self.topics, version, since_4_4=self.settings.since_4_4
        )
        self.journal.write(now_ms, *records, producer_id=request.producer_id)
        return Answer(
            refused=tuple(
                (commit.topic, commit.partition, Error.OFFSET_METADATA_TOO_LARGE) for commit in refused
            )
        )

    def _refuse_unknown(self, request: OffsetCommit, now_ms: int) -> NoReturn:
        """A commit of a generation of a group that is not there."""
        in_transaction = request.producer_id is not None
        if in_transaction and self.settings.scala:
            # The older coordinator makes the group before it looks for the member.
            self.begin_classic(now_ms)
            raise Refused(Error.UNKNOWN_MEMBER_ID)
        # Requests before v9 and those of transactions have no other error for it.
        old = self.settings.scala or request.retention_ms is not None or in_transaction
        raise Refused(Error.ILLEGAL_GENERATION if old else Error.GROUP_ID_NOT_FOUND)

    def _end_transaction(self, request: EndTransaction, now_ms: int) -> Answer:
        has_pending = self.offsets.end_transaction(request.producer_id, committed=request.committed)
        logged = self.journal.logged
        if has_pending or (logged is not None and request.producer_id in logged.offsets.pending):
            marker = Marker.COMMIT if request.committed else Marker.ABORT
            self.journal.write(now_ms, producer_id=request.producer_id, marker=marker)
        return Answer()

    # -- administrators

    def _delete(self, _request: DeleteGroup, now_ms: int) -> Answer:
        self.trace.branch("deleteGroups")
        group = self.existing(Error.GROUP_ID_NOT_FOUND)
        if not group.is_empty:
            raise Refused(Error.NON_EMPTY_GROUP)
        records = self.offsets.remove(self.group_id, self.offsets.partitions())
        self._write_removal(records + self._group_tombstones(group), now_ms)
        self._end(group, now_ms)
        return Answer()

    def _group_tombstones(self, group: ClassicGroup | ConsumerGroup) -> list[Record]:
        if isinstance(group, ConsumerGroup):
            return consumer_records.group_tombstones(self.group_id)
        if self.settings.scala and group.generation == 0:
            return []
        return [group_tombstone(self.group_id)]

    def _end(self, group: ClassicGroup | ConsumerGroup, now_ms: int) -> None:
        """Remove the group."""
        self.group = self.forgotten = None
        if self.settings.scala:
            # What is left are pending offsets, which are the group's own.
            self.offsets = CommittedOffsets(scala=True)
        if isinstance(group, ConsumerGroup):
            group.transition_to(ConsumerPhase.DEAD, now_ms)
        else:
            group.transition_to(Phase.DEAD, now_ms)

    def _delete_offsets(self, request: OffsetDelete, now_ms: int) -> Answer:
        self.trace.branch("deleteOffsets")
        group = self.existing(Error.GROUP_ID_NOT_FOUND)
        others = isinstance(group, ClassicGroup) and group.protocol_type != CONSUMER_PROTOCOL_TYPE
        if others and not group.is_empty:
            raise Refused(Error.NON_EMPTY_GROUP)
        refused = [
            partition
            for partition in request.partitions
            if not group.is_empty and group.is_subscribed(partition[0])
        ]
        committed = set(self.offsets.partitions()) - set(refused)
        removed = [partition for partition in request.partitions if partition in committed]
        if not self.settings.scala:
            self.journal.write(now_ms, *self.offsets.remove(self.group_id, removed))
        elif len(refused) < len(request.partitions):
            self._clean(group, removed, now_ms)
        return Answer(refused=tuple((*partition, Error.GROUP_SUBSCRIBED_TO_TOPIC) for partition in refused))


def _echoed(request: Request, error: Error) -> str:
    """The member id in a refusal: that of a refused JoinGroup, unless the group is full or Kafka has thrown."""
    if isinstance(request, JoinGroup) and error not in (
        Error.GROUP_MAX_SIZE_REACHED,
        Error.UNKNOWN_SERVER_ERROR,
    ):
        return request.member_id
    return ""


_HANDLERS: Final[Mapping[type[Request], Callable[[Coordinator, Any, int], Answer | None]]] = {
    JoinGroup: Coordinator._join,
    SyncGroup: lambda self, request, now_ms: self._protocol.sync(request, now_ms),
    ClassicHeartbeat: lambda self, request, now_ms: self._protocol.heartbeat(request, now_ms),
    LeaveGroup: lambda self, request, now_ms: self._protocol.leave(request, now_ms),
    ConsumerGroupHeartbeat: lambda self, request, now_ms: ConsumerHandler(self).heartbeat(request, now_ms),
    OffsetCommit: Coordinator._commit,
    EndTransaction: Coordinator._end_transaction,
    DeleteGroup: Coordinator._delete,
    OffsetDelete: Coordinator._delete_offsets,
}
