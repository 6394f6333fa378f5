"""The steps of a coordinator as lines of ``simulate --trace``, and the JSON Schema of such a line (docs/trace.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec


class TraceEntry(msgspec.Struct, frozen=True, tag_field="kind"):
    """One step: ``time_ms`` is simulated time since the epoch."""

    time_ms: int
    group_id: str


class RequestEntry(TraceEntry, frozen=True, tag="request", kw_only=True):
    """A request has come; ``state`` and ``members`` (their number) are those of the group before it.

    ``generation`` is a member epoch in a ConsumerGroupHeartbeat; null where the request has neither.
    """

    request: int
    api: str
    member_id: str | None
    instance_id: str | None
    client_id: str | None
    generation: int | None
    state: str
    members: int


class BranchEntry(TraceEntry, frozen=True, tag="branch", kw_only=True):
    """The coordinator has taken a branch: a method of Kafka's, and the line that Kafka logs there."""

    method: str
    says: str | None


class AnswerEntry(TraceEntry, frozen=True, tag="answer", kw_only=True):
    """The answer to a request, ``waited_ms`` after it; ``error_code`` is Kafka's number of the error."""

    request: int
    api: str
    error: str
    error_code: int
    member_id: str
    generation: int
    protocol: str | None
    leader: str
    members: int
    waited_ms: int


class TimerEntry(TraceEntry, frozen=True, tag="timer", kw_only=True):
    """A timer is set, extended, cancelled or has fired; ``due_ms`` is its time, ``was_due_ms`` the one before.

    ``timer`` is session (of a member of a classic group), consumer session, join, sync or revocation; join and sync
    have no member in a classic group.
    """

    change: str
    timer: str
    member_id: str | None
    due_ms: int
    was_due_ms: int | None


class RebalanceEntry(TraceEntry, frozen=True, tag="rebalance", kw_only=True):
    """A rebalance of a classic group begins; ``reason`` in Kafka's words."""

    state: str
    generation: int
    reason: str


class AwaitedEntry(TraceEntry, frozen=True, tag="awaited", kw_only=True):
    """Whom a phase of a rebalance still waits for.

    ``phase`` join: members that have joined, that have not rejoined, and ids that were given and have not joined yet;
    sync: members that have and have not sent a SyncGroup, and none pending.
    """

    phase: str
    arrived: tuple[str, ...]
    awaited: tuple[str, ...]
    pending: tuple[str, ...]


class VoteEntry(TraceEntry, frozen=True, tag="vote", kw_only=True):
    """The members have chosen the protocol of a generation.

    ``tally``: by protocol, how many members support it; ``candidates``: those that all support; ``votes``: by member,
    the first of its protocols that is a candidate.
    """

    generation: int
    tally: Mapping[str, int]
    candidates: tuple[str, ...]
    votes: Mapping[str, str]
    winner: str


class LeaderEntry(TraceEntry, frozen=True, tag="leader", kw_only=True):
    """Another member leads a classic group, or none does."""

    before: str | None
    after: str | None
    reason: str


class MemberEntry(TraceEntry, frozen=True, tag="member", kw_only=True):
    """A member was added, pending, replaced (by ``new_member_id``) or removed; ``reason`` says why."""

    change: str
    member_id: str
    instance_id: str | None
    new_member_id: str | None
    reason: str


class StateEntry(TraceEntry, frozen=True, tag="state", kw_only=True):
    """The group's state has changed; ``generation`` is a group epoch in a consumer group."""

    before: str
    after: str
    generation: int


class EpochEntry(TraceEntry, frozen=True, tag="epoch", kw_only=True):
    """The group epoch of a consumer group has risen."""

    epoch: int
    metadata_hash: int
    reason: str


class AssignmentEntry(TraceEntry, frozen=True, tag="assignment", kw_only=True):
    """The target assignment of a consumer group: computed, or delayed by ``group.consumer.assignment.interval.ms``.

    ``votes``: by assignor, how many members prefer it; ``targets``: by member, the number of its partitions.
    """

    epoch: int
    assignor: str | None
    votes: Mapping[str, int]
    targets: Mapping[str, int]
    delayed_until_ms: int | None


class ReconciliationEntry(TraceEntry, frozen=True, tag="reconciliation", kw_only=True):
    """A member of a consumer group has moved one step towards its target assignment (numbers of partitions)."""

    member_id: str
    before: str
    after: str
    epoch_before: int
    epoch_after: int
    assigned: int
    revoking: int
    unreleased: int


class AppendEntry(TraceEntry, frozen=True, tag="append", kw_only=True):
    """Records are written as one batch; ``records`` are their types, a tombstone ends with ``tombstone``.

    With an ``error`` nothing was written. Where a branch ``revertLastWrittenOffset`` follows, the coordinator takes
    back what the steps since the request have changed, except in a classic group that was there before.
    """

    records: tuple[str, ...]
    producer_id: int | None
    marker: str | None
    error: str | None = None


class PartitionEntry(TraceEntry, frozen=True, tag="partition", kw_only=True):
    """What the coordinator does for the group's partition of the offsets topic: closed, loading or active.

    A closed partition answers NOT_COORDINATOR, one that loads COORDINATOR_LOAD_IN_PROGRESS, and to a Heartbeat NONE.
    """

    after: str


AnyEntry: TypeAlias = (
    RequestEntry
    | BranchEntry
    | AnswerEntry
    | TimerEntry
    | RebalanceEntry
    | AwaitedEntry
    | VoteEntry
    | LeaderEntry
    | MemberEntry
    | StateEntry
    | EpochEntry
    | AssignmentEntry
    | ReconciliationEntry
    | AppendEntry
    | PartitionEntry
)


#: Its name beside those of the events.
TRACE_FILE: Final = "trace-file"
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def trace_schema() -> dict[str, Any]:
    """The schema of one line, whose ``kind`` says which fields it has."""
    return {"$schema": _DIALECT, "title": TRACE_FILE, **msgspec.json.schema(AnyEntry)}
