"""Collects what the coordinator does, step by step. Without a trace nothing is collected, and no text is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from groupreplay.coordinator.requests import (
    Answer,
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
    PartitionState,
    Record,
    Request,
    StateChange,
    SyncGroup,
)
from groupreplay.coordinator.trace_entries import (
    AnswerEntry,
    AnyEntry,
    AppendEntry,
    BranchEntry,
    LeaderEntry,
    MemberEntry,
    PartitionEntry,
    RebalanceEntry,
    RequestEntry,
    StateEntry,
    TimerEntry,
)

#: When, and in which group.
Place: TypeAlias = tuple[int, str]
#: The names of Kafka's requests.
APIS: Final[Mapping[type[Request], str]] = {
    JoinGroup: "JoinGroup",
    SyncGroup: "SyncGroup",
    ClassicHeartbeat: "Heartbeat",
    LeaveGroup: "LeaveGroup",
    ConsumerGroupHeartbeat: "ConsumerGroupHeartbeat",
    OffsetCommit: "OffsetCommit",
    EndTransaction: "WriteTxnMarkers",
    DeleteGroup: "DeleteGroups",
    OffsetDelete: "OffsetDelete",
}
#: Kafka's numbers of the errors (``org.apache.kafka.common.protocol.Errors``).
ERROR_CODES: Final[Mapping[Error, int]] = {
    Error.UNKNOWN_SERVER_ERROR: -1,
    Error.NONE: 0,
    Error.UNKNOWN_TOPIC_OR_PARTITION: 3,
    Error.NOT_LEADER_OR_FOLLOWER: 6,
    Error.MESSAGE_TOO_LARGE: 10,
    Error.OFFSET_METADATA_TOO_LARGE: 12,
    Error.COORDINATOR_LOAD_IN_PROGRESS: 14,
    Error.COORDINATOR_NOT_AVAILABLE: 15,
    Error.NOT_COORDINATOR: 16,
    Error.NOT_ENOUGH_REPLICAS: 19,
    Error.ILLEGAL_GENERATION: 22,
    Error.INCONSISTENT_GROUP_PROTOCOL: 23,
    Error.INVALID_GROUP_ID: 24,
    Error.UNKNOWN_MEMBER_ID: 25,
    Error.INVALID_SESSION_TIMEOUT: 26,
    Error.REBALANCE_IN_PROGRESS: 27,
    Error.INVALID_COMMIT_OFFSET_SIZE: 28,
    Error.UNSUPPORTED_VERSION: 35,
    Error.INVALID_REQUEST: 42,
    Error.KAFKA_STORAGE_ERROR: 56,
    Error.NON_EMPTY_GROUP: 68,
    Error.GROUP_ID_NOT_FOUND: 69,
    Error.MEMBER_ID_REQUIRED: 79,
    Error.GROUP_MAX_SIZE_REACHED: 81,
    Error.FENCED_INSTANCE_ID: 82,
    Error.GROUP_SUBSCRIBED_TO_TOPIC: 86,
    Error.FENCED_MEMBER_EPOCH: 110,
    Error.UNRELEASED_INSTANCE_ID: 111,
    Error.UNSUPPORTED_ASSIGNOR: 112,
    Error.STALE_MEMBER_EPOCH: 113,
    Error.INVALID_REGULAR_EXPRESSION: 128,
}


@dataclass(slots=True)
class Trace:
    """The entries of the current operation. Whoever adds one asks first whether the trace is ``on``."""

    group_id: str
    on: bool = False
    now_ms: int = 0
    entries: list[AnyEntry] = field(default_factory=list)
    #: Those of the journal, which come between the entries.
    changes: Sequence[StateChange] = ()
    _changes_seen: int = 0
    #: Open requests by identity: their number and time. The coordinator holds the requests until it answers them.
    _open: dict[int, tuple[int, int]] = field(default_factory=dict)
    _requests: int = 0

    @property
    def here(self) -> Place:
        """The first fields of an entry."""
        return self.now_ms, self.group_id

    def take(self) -> tuple[AnyEntry, ...]:
        """Return the entries and start empty again; call it before the changes are taken."""
        if not self.on:
            return ()
        self._add_changes()
        entries = tuple(self.entries)
        self.entries.clear()
        self._changes_seen = 0
        return entries

    def add(self, entry: AnyEntry) -> None:
        """Add an entry, behind the state changes before it."""
        self._add_changes()
        self.entries.append(entry)

    def _add_changes(self) -> None:
        for change in self.changes[self._changes_seen :]:
            before, after = change.before.value, change.after.value
            self.entries.append(
                StateEntry(
                    change.at_ms, self.group_id, before=before, after=after, generation=change.generation
                )
            )
        self._changes_seen = len(self.changes)

    def branch(self, method: str, says: str | None = None, *values: object) -> None:
        """A branch; ``says`` is a template of ``%`` for the values, as in ``logging``."""
        if self.on:
            text = None if says is None else says % values
            self.add(BranchEntry(*self.here, method=method, says=text))

    def rebalance(self, state: str, generation: int, reason: str) -> None:
        """A rebalance of a classic group begins."""
        if self.on:
            self.add(RebalanceEntry(*self.here, state=state, generation=generation, reason=reason))

    def member(
        self,
        change: str,
        member_id: str,
        instance_id: str | None,
        reason: str,
        new_member_id: str | None = None,
    ) -> None:
        """A member was added, pending, replaced or removed."""
        if self.on:
            self.add(
                MemberEntry(
                    *self.here,
                    change=change,
                    member_id=member_id,
                    instance_id=instance_id,
                    new_member_id=new_member_id,
                    reason=reason,
                )
            )

    def leader(self, before: str | None, after: str | None, reason: str) -> None:
        """Another member may lead now."""
        if self.on and before != after:
            self.add(LeaderEntry(*self.here, before=before, after=after, reason=reason))

    def timer(self, change: str, key: tuple[str, ...], due_ms: int, was_due_ms: int | None = None) -> None:
        """A timer is set, extended, cancelled or has fired."""
        if self.on:
            kind, member_id, *of_type = key
            self.add(
                TimerEntry(
                    *self.here,
                    change=change,
                    # A member of a converted group may have one of each type.
                    timer=" ".join((*of_type, kind)) if kind == "session" else kind,
                    member_id=member_id or None,
                    due_ms=due_ms,
                    was_due_ms=was_due_ms,
                )
            )

    def partition(self, state: PartitionState) -> None:
        """Another broker leads the partition of the group, or has loaded it."""
        if self.on:
            self.add(PartitionEntry(*self.here, after=state.value))

    def forget_changes(self, count: int) -> None:
        """Only this number of the changes is left; those before the end of a failed operation stay in the trace."""
        self._changes_seen = min(self._changes_seen, count)

    def append(
        self,
        records: Sequence[Record],
        producer_id: int | None,
        marker: Marker | None,
        error: Error | None = None,
    ) -> None:
        """Records are written, or the leader has refused them."""
        if self.on:
            kinds = [
                type(key).__name__.removesuffix("Key") + ("" if value is not None else " tombstone")
                for key, value in records
            ]
            name = None if marker is None else marker.value
            why = None if error is None else error.value
            self.add(
                AppendEntry(*self.here, records=tuple(kinds), producer_id=producer_id, marker=name, error=why)
            )

    def received(self, request: Request, state: str, members: int) -> None:
        """A request has come."""
        if not self.on:
            return
        self._requests += 1
        self._open[id(request)] = self._requests, self.now_ms
        entry = RequestEntry(
            *self.here,
            request=self._requests,
            api=APIS[type(request)],
            member_id=getattr(request, "member_id", None),
            instance_id=getattr(request, "instance_id", None),
            client_id=getattr(request, "client_id", None),
            generation=getattr(request, "generation", getattr(request, "member_epoch", None)),
            state=state,
            members=members,
        )
        self.add(entry)

    def answered(self, request: Request, answer: Answer) -> None:
        """A request is answered, now or after it has waited."""
        if not self.on:
            return
        number, since_ms = self._open.pop(id(request))
        entry = AnswerEntry(
            *self.here,
            request=number,
            api=APIS[type(request)],
            error=answer.error.value,
            error_code=ERROR_CODES[answer.error],
            member_id=answer.member_id,
            generation=answer.generation,
            protocol=answer.protocol,
            leader=answer.leader,
            members=len(answer.members),
            waited_ms=self.now_ms - since_ms,
        )
        self.add(entry)
