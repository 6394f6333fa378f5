"""Everything that is kept of one group between two calls, and its form as bytes.

The layout is positional: a field may be added at the end of a struct with a default; anything else needs a new
version of the form.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from groupreplay.codecs import Malformed, Skipped, Value, decode_key, decode_value, encode_key, encode_value
from groupreplay.codecs.kafka_terms import Phase
from groupreplay.state.events.event import Evidence
from groupreplay.state.snapshot.group_state import GroupState
from groupreplay.state.snapshot.losses import Losses, OffsetSets
from groupreplay.state.snapshot.members import SlotHistory
from groupreplay.state.snapshot.observations import GroupRecord, PendingTransactions, ProbeAnswer
from groupreplay.state.snapshot.offsets import OffsetsSnapshot
from groupreplay.state.stored_form import DamagedStateError, StoredForm


class ConditionKey(NamedTuple):
    """The name of a condition and its subject: a slot, a topic partition; empty for the whole group."""

    kind: str
    subject: str


class ActiveCondition(msgspec.Struct, array_like=True):
    """A condition that was reported and not resolved. ``condition`` is the last one reported, as JSON.

    It is reported again when ``dedup_key`` changes, or for a value that is not yet in ``reported``. ``late``: it was
    reported too late for an alert.
    """

    severity: int
    dedup_key: tuple[str, ...]
    evidence: Evidence
    condition: bytes
    late: bool = False
    reported: tuple[str, ...] = ()


class Conditions(msgspec.Struct, array_like=True):
    """The active conditions, and when the detectors are to evaluate the group next (None: at its next change).

    ``after_commits``: they evaluated the group after the last run of commits.
    """

    active: dict[ConditionKey, ActiveCondition] = {}
    next_evaluation_ms: int | None = None
    after_commits: bool = False


class PendingRecord(msgspec.Struct, frozen=True, array_like=True):
    """A record of an operation whose end has not been read yet, as its bytes."""

    offset: int
    timestamp_ms: int
    key: bytes
    value: bytes | None


class LogPosition(msgspec.Struct, array_like=True):
    """The place in the log. ``last_offset`` is that of the last record applied or pending, -1 for none.

    ``clock_ms`` is the latest time of the log up to which everything that was due has been done. ``setbacks`` counts
    how often the clock of the log went back by more than a minute. ``begun_anew``: the state before was lost, so that a
    commit alone shows neither that the group was created nor that it has no members.
    """

    era: str = "0"
    partition: int = -1
    last_offset: int = -1
    last_timestamp_ms: int = -1
    clock_ms: int = -1
    pending: list[PendingRecord] = []
    setbacks: int = 0
    begun_anew: bool = False


class ProbeQueue(msgspec.Struct, array_like=True):
    """Probes ``waiting`` until the log has been read up to the time at which they were known.

    The latest probe comes first: the next one is taken from the end, whatever the number of those that wait.
    ``applied_ms`` is that time of the last one that was applied, ``applied_offset`` its offset. ``interval_ms`` is the
    interval at which the prober asks, according to its last answer.
    """

    waiting: list[ProbeAnswer] = []
    applied_ms: int = -1
    interval_ms: int = 10_000
    applied_offset: int = -1

    def add(self, probes: Iterable[ProbeAnswer]) -> None:
        """Let more probes wait; those that wait already are not added again."""
        self.waiting = sorted({*self.waiting, *probes}, key=_by_time, reverse=True)


def _by_time(probe: ProbeAnswer) -> tuple[int, int]:
    return probe.heard_ms, probe.offset


class GroupActivity(msgspec.Struct, array_like=True):
    """What the group did in all its life, deletions included.

    ``born_ms``: first record read, -1 for none. ``peopled``: the group has had members; ``empty``: it has none
    since. ``returns`` counts how often members came back to the empty group, ``commits`` all commits; ``widest``
    is the largest number of partitions with an offset. ``staffed_ms`` is when members came to the group that had none,
    -1 for never.
    """

    born_ms: int = -1
    peopled: bool = False
    empty: bool = False
    returns: int = 0
    commits: int = 0
    widest: int = 0
    staffed_ms: int = -1


class Repetitions(msgspec.Struct, array_like=True):
    """Events that the group can repeat without end: when each was emitted in the last minute, by a hash of it.

    ``suppressed`` counts those that were not emitted since the last one of their type, by name.
    """

    emitted: dict[bytes, int] = {}
    suppressed: dict[str, int] = {}


class GroupSnapshot(msgspec.Struct, array_like=True):
    """One part for each owner: the module that changes it.

    ``log`` and ``probes`` belong to ``state.group``, ``group`` to the modules that apply records and probes,
    ``conditions`` to the condition tracker. ``slot_history`` is None for a group that does not exist;
    ``document_digest`` is that of the last document that was written, empty for none. ``own_settings`` are those of the
    last answer about them (None: there was none), and so are ``transactions`` (None: none is open).
    """

    log: LogPosition = msgspec.field(default_factory=LogPosition)
    probes: ProbeQueue = msgspec.field(default_factory=ProbeQueue)
    group: GroupState = msgspec.field(default_factory=GroupState)
    offsets: OffsetsSnapshot | None = None
    losses: Losses = msgspec.field(default_factory=Losses)
    activity: GroupActivity = msgspec.field(default_factory=GroupActivity)
    slot_history: SlotHistory | None = None
    conditions: Conditions = msgspec.field(default_factory=Conditions)
    document_digest: bytes = b""
    repeats: Repetitions = msgspec.field(default_factory=Repetitions)
    sets: OffsetSets = msgspec.field(default_factory=OffsetSets)
    own_settings: dict[str, int] | None = None
    transactions: PendingTransactions | None = None

    def is_over(self, partitions: int) -> bool:
        """Whether the group does not exist, and nothing that was read of it must be kept; it has so many offsets."""
        if partitions or self.group.phase is not Phase.DEAD:
            return False
        kept = (
            self.log.pending,
            self.group.in_progress,
            self.losses.lost,
            self.losses.changes,
            self.sets.waiting,
            self.losses.unclear,
            self.conditions.active,
            self.transactions,
        )
        return not any(kept)


#: A field that is added to any struct of the snapshot raises ``reader``, unless an earlier release may lose it.
FORM: Final = StoredForm[GroupSnapshot]("snapshot", version=1, reader=1, kind=GroupSnapshot)


def write(snapshot: GroupSnapshot) -> bytes:
    """The present version."""
    return FORM.write(snapshot)


def after(ended: GroupSnapshot) -> GroupSnapshot:
    """What is known after a group that is over: its place in the log, what is still to be read, and its document."""
    position = LogPosition(era=ended.log.era, last_offset=ended.log.last_offset)
    waiting = ProbeQueue(waiting=ended.probes.waiting)
    return GroupSnapshot(position, waiting, document_digest=ended.document_digest)


def begun_anew(era: str) -> bytes:
    """A group whose state was lost: what its next records do not say is unknown, until its history is full."""
    return write(GroupSnapshot(LogPosition(era=era, begun_anew=True)))


def read(blob: bytes) -> GroupSnapshot:
    """The inverse of ``write``. Raises SnapshotError for another version and for damaged bytes."""
    return FORM.read(blob)


def pend(record: GroupRecord) -> PendingRecord:
    """A record as it is kept while its operation is open."""
    if record.raw is not None:
        return PendingRecord(record.offset, record.timestamp_ms, *record.raw)
    value = None if record.value is None else encode_value(record.value)
    return PendingRecord(record.offset, record.timestamp_ms, encode_key(record.key), value)


def pending_records(log: LogPosition, read: list[GroupRecord]) -> list[GroupRecord]:
    """The records of the open operation; they need no decoding if all of them were ``read`` by this call."""
    if len(read) == len(log.pending) and all(record.partition == log.partition for record in read):
        return read
    return [unpend(record, log.partition) for record in log.pending]


def unpend(pending: PendingRecord, partition: int) -> GroupRecord:
    """The inverse of ``pend``. Raises DamagedStateError when the bytes cannot be read any more."""
    key = decode_key(pending.key)
    if isinstance(key, Skipped | Malformed):
        raise DamagedStateError(f"pending record at offset {pending.offset} has an unreadable key")
    value: Value | Skipped | Malformed | None = decode_value(key, pending.value)
    if isinstance(value, Skipped | Malformed):
        raise DamagedStateError(f"pending record at offset {pending.offset} has an unreadable value")
    return GroupRecord(
        partition=partition, offset=pending.offset, timestamp_ms=pending.timestamp_ms, key=key, value=value
    )
