"""The state that the coordinator keeps for one group id: the group, its offsets, its timers and its journal.

The handlers of the three protocols and `classic.rebalance` read and change this state.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from groupreplay.codecs import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey
from groupreplay.codecs.consumer import ConsumerGroupMetadataKey
from groupreplay.codecs.kafka_terms import ConsumerPhase, Phase
from groupreplay.coordinator.classic.classic_group import ClassicGroup, GroupMember
from groupreplay.coordinator.consumer.consumer_group import ConsumerGroup, Topics
from groupreplay.coordinator.offsets import CommittedOffsets, LoggedOffsets
from groupreplay.coordinator.requests import (
    Answer,
    AppendFailed,
    Error,
    Marker,
    Operation,
    Outcome,
    PartitionState,
    Record,
    Refused,
    Reply,
    Request,
    Settings,
    StateChange,
)
from groupreplay.coordinator.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedMember:
    """A member as DescribeGroups reports it; metadata and assignment are empty unless the group is Stable."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes = b""
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """The group as DescribeGroups reports it; an unknown group is Dead. With an ``error`` nothing is known of it."""

    state: Phase
    error: Error = Error.NONE
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()


def described(group: ClassicGroup) -> DescribedGroup:
    """A classic group's part of the answer."""
    stable = group.state is Phase.STABLE
    return DescribedGroup(
        state=group.state,
        protocol_type=group.protocol_type or "",
        protocol=group.protocol or "" if stable else "",
        members=tuple(
            DescribedMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                metadata=member.metadata(group.protocol) if stable else b"",
                assignment=member.assignment if stable else b"",
            )
            for member in group.members.values()
        ),
    )


#: What a timer does, given the time at which it was due.
TimerAction = Callable[[int], None]
#: The kind and the member ("" for a timer of the whole group). Timers outlive the type of their group, so those of a
#: consumer group that a classic group could also set have "consumer" as a third part.
TimerKey = tuple[str, ...]
#: The heap is only rebuilt when it has more stale timers than this.
_FEW = 16


@dataclass(slots=True)
class Timers:
    """Actions by key, each due at a time. Timers with equal times run in the order in which they were set."""

    _due: dict[TimerKey, tuple[int, int, TimerAction]] = field(default_factory=dict)
    #: (time, sequence number, key). Most sessions are extended before they end, so many entries are stale.
    _heap: list[tuple[int, int, TimerKey]] = field(default_factory=list)
    _set: int = 0
    trace: Trace = field(default_factory=lambda: Trace(""))

    def schedule(self, key: TimerKey, at_ms: int, action: TimerAction) -> None:
        """Set a timer; it replaces a timer with the same key."""
        if self.trace.on:
            before = self._due.get(key)
            self.trace.timer("set" if before is None else "extended", key, at_ms, before and before[0])
        self._set += 1
        self._due[key] = (at_ms, self._set, action)
        heapq.heappush(self._heap, (at_ms, self._set, key))
        if len(self._heap) > 4 * len(self._due) + _FEW:
            self._heap = sorted((at_ms, number, key) for key, (at_ms, number, _) in self._due.items())

    def is_set(self, key: TimerKey) -> bool:
        """Whether a timer is set."""
        return key in self._due

    def cancel(self, key: TimerKey) -> None:
        """Remove a timer if it is set."""
        due = self._due.pop(key, None)
        if due is not None:
            self.trace.timer("cancelled", key, due[0])

    def clear(self) -> None:
        """Remove all timers."""
        for key, due in self._due.items():
            self.trace.timer("cancelled", key, due[0])
        self._due.clear()
        self._heap.clear()

    def next_deadline_ms(self) -> int | None:
        """When the next timer is due; None without timers."""
        while self._heap:
            at_ms, number, key = self._heap[0]
            if key in self._due and self._due[key][1] == number:
                return at_ms
            heapq.heappop(self._heap)
        return None

    def take(self, now_ms: int) -> tuple[int, TimerKey, TimerAction] | None:
        """Remove and return the next timer that is due by now, with its time and its key."""
        next_ms = self.next_deadline_ms()
        if next_ms is None or next_ms > now_ms:
            return None
        at_ms, _, key = heapq.heappop(self._heap)
        self.trace.now_ms = at_ms
        self.trace.timer("fired", key, at_ms)
        return at_ms, key, self._due.pop(key)[2]


@dataclass(slots=True)
class Journal:
    """The results of the current request: replies, records, warnings and state changes."""

    replies: list[Reply] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    changes: list[StateChange] = field(default_factory=list)
    #: The newest GroupMetadata value of the group; None when there is none or it is a tombstone.
    written: GroupMetadataValue | None = None
    #: Whether the log has a record behind the newest tombstone of the group that makes a group, a commit for example.
    has_records: bool = False
    #: How many operations have been written.
    written_count: int = 0
    #: The offsets in the log, if the coordinator's own may be others.
    logged: LoggedOffsets | None = None
    #: Why appends fail at present; None: they succeed.
    failing: Error | None = None
    trace: Trace = field(default_factory=lambda: Trace(""))

    def reply(self, request: Request, answer: Answer) -> None:
        """Answer a request."""
        self.trace.answered(request, answer)
        self.replies.append(Reply(request, answer))

    def refuse_pending(self, member: GroupMember, error: Error) -> None:
        """Answer the member's open JoinGroup and SyncGroup with an error."""
        if member.joining is not None:
            self.reply(member.joining, Answer(error=error, member_id=member.member_id))
        if member.syncing is not None:
            self.reply(member.syncing, Answer(error=error))
        member.joining = member.syncing = None

    def write(
        self,
        now_ms: int,
        *records: Record,
        producer_id: int | None = None,
        marker: Marker | None = None,
    ) -> None:
        """Write records as one operation, unless there is nothing to write.

        Raises ``AppendFailed`` while appends fail.
        """
        if not records and marker is None:
            return
        if self.failing is not None:
            self.trace.append(records, producer_id, marker, self.failing)
            raise AppendFailed(self.failing)
        for key, value in records:
            if isinstance(key, GroupMetadataKey):
                assert value is None or isinstance(value, GroupMetadataValue)
                self.written = value
                self.has_records = value is not None
            elif isinstance(key, ConsumerGroupMetadataKey) and value is None:
                self.has_records = False
            elif isinstance(key, OffsetCommitKey) and value is not None:
                self.has_records = True
        if self.logged is not None:
            self.logged.append(records, producer_id, marker)
        self.written_count += 1
        self.trace.append(records, producer_id, marker)
        self.operations.append(
            Operation(timestamp_ms=now_ms, records=records, producer_id=producer_id, marker=marker)
        )

    def forget_changes(self, count: int) -> None:
        """Keep only this number of state changes."""
        self.trace.forget_changes(count)
        del self.changes[count:]

    def take(self) -> Outcome:
        """Return everything and start empty again."""
        outcome = Outcome(
            tuple(self.replies),
            tuple(self.operations),
            tuple(self.warnings),
            tuple(self.changes),
            self.trace.take(),
        )
        for entries in (self.replies, self.operations, self.warnings, self.changes):
            entries.clear()
        return outcome


@dataclass(slots=True)
class CoordinatorState:
    """Everything that the coordinator keeps for one group id.

    ``topics`` are the cluster's, which only consumer groups (KIP-848) need; their owner may change them. With
    ``traced`` the outcomes have a trace.
    """

    group_id: str
    settings: Settings
    numbers: random.Random
    topics: Topics = field(default_factory=dict)
    traced: bool = False
    partition: PartitionState = PartitionState.ACTIVE
    group: ClassicGroup | ConsumerGroup | None = None
    offsets: CommittedOffsets = field(default_factory=CommittedOffsets)
    timers: Timers = field(default_factory=Timers)
    journal: Journal = field(default_factory=Journal)
    trace: Trace = field(init=False)
    #: An empty consumer group that is only in the log any more, and how many operations had been written then.
    forgotten: ConsumerGroup | None = None
    forgotten_after: int = 0
    #: The version of the topics (of Kafka's metadata image); whoever changes them raises it.
    topics_version: int = 0
    _known_topics: frozenset[str] = frozenset()
    _newest_topic: int = -1

    def __post_init__(self) -> None:
        self.trace = Trace(self.group_id, self.traced, changes=self.journal.changes)
        self.timers.trace = self.journal.trace = self.trace
        if self.settings.scala:
            self.offsets.scala = True
            self.journal.logged = LoggedOffsets()

    @property
    def newest_topic(self) -> int:
        """The version of the topics that had the newest one, as far as a group has looked; -1 without topics."""
        names = frozenset(self.topics)
        if not names <= self._known_topics:
            self._newest_topic = self.topics_version
        self._known_topics = names
        return self._newest_topic

    def load_topics(self) -> None:
        """To a broker that has become the coordinator all topics are new."""
        self._known_topics, self._newest_topic = frozenset(self.topics), self.topics_version

    def existing(self, missing: Error = Error.UNKNOWN_MEMBER_ID) -> ClassicGroup | ConsumerGroup:
        """The group of either type. Raises ``Refused`` with ``missing`` when there is none."""
        if self.group is None:
            raise Refused(missing)
        return self.group

    def classic(self) -> ClassicGroup:
        """The classic group. Raises ``Refused`` when the group id has none."""
        if not isinstance(self.group, ClassicGroup):
            raise Refused(Error.UNKNOWN_MEMBER_ID)
        return self.group

    def forget_group(self, group: ConsumerGroup, now_ms: int) -> None:
        """Forget an empty consumer group without writing a record, as Kafka does."""
        group.transition_to(ConsumerPhase.DEAD, now_ms)
        self.forgotten, self.forgotten_after, self.group = group, self.journal.written_count, None

    def remember_group(self, now_ms: int) -> None:
        """The forgotten group takes the place of what there is now; without one nothing changes."""
        group = self.forgotten
        if group is None or isinstance(self.group, ConsumerGroup):
            return
        before = Phase.DEAD if self.group is None else self.group.state
        self.journal.changes.append(StateChange(now_ms, before, ConsumerPhase.EMPTY, group.epoch))
        self.group, self.forgotten = group, None
        group.last_state = ConsumerPhase.EMPTY

    def begin_classic(self, now_ms: int, *, new: bool = True) -> ClassicGroup:
        """Create an Empty classic group; ``new`` is False where it replaces an empty consumer group."""
        changes = self.journal.changes
        if new:
            changes.append(StateChange(now_ms, Phase.DEAD, Phase.EMPTY, 0))
        self.group = ClassicGroup(
            group_id=self.group_id,
            current_state_timestamp_ms=now_ms,
            changes=changes,
            scala=self.settings.scala,
            version=self.settings.written_version(GroupMetadataValue),
        )
        return self.group
