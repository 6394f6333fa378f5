"""What is remembered of one group between two calls, and how it is written down.

Knows the fields and their version; must not know what they mean. The layout is positional: a field may be
added at the end with a default, anything else needs a new version with a reader for the old one.
"""

from __future__ import annotations

from typing import Final

import msgspec

from groupreplay.codecs import (
    Malformed,
    Skipped,
    Value,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from groupreplay.state.events.event import History
from groupreplay.state.kafka_terms import GroupType, Phase
from groupreplay.state.snapshot.activity import GroupActivity
from groupreplay.state.snapshot.conditions import ActiveCondition
from groupreplay.state.snapshot.losses import Change, Lost
from groupreplay.state.snapshot.members import Member
from groupreplay.state.snapshot.modern import Modern, group_epoch
from groupreplay.state.snapshot.observations import GroupRecord, Probe
from groupreplay.state.snapshot.offsets import OffsetsSnapshot
from groupreplay.state.snapshot.rebalance import OpenRound, RebalanceInProgress
from groupreplay.state.snapshot.slot_history import SlotHistory

VERSION: Final = 1


class SnapshotError(ValueError):
    """A snapshot that this release cannot read; names the version found and the one it writes."""


class PendingRecord(msgspec.Struct, frozen=True, array_like=True):
    """A record of an operation whose end has not been seen yet, as its bytes."""

    offset: int
    timestamp_ms: int
    key: bytes
    value: bytes | None


class GroupSnapshot(msgspec.Struct, array_like=True):
    """The state of one group. ``last_offset`` is the last record applied or pending, -1 for none.

    ``record_offset`` and ``record_timestamp_ms`` are those of the last group record; ``former`` keeps the
    members of the last generation while the group is Empty, ``orphans`` the last owners of partitions that
    nobody owns now (member id -> ranges by topic); ``document`` is a digest of the last document taken.
    ``modern`` is set for groups of the newer kinds only, for which ``phase`` says no more than Dead or not;
    ``completed_epoch`` is the group epoch at which their members were last reconciled.
    ``clock_ms`` is the latest moment that was served, ``alarm_ms`` when the detectors want to look again;
    ``probes`` wait until the log has been read up to their time, ``probed_ms`` is that of the last one applied.
    ``emptied_ms`` is when a classic group became Empty by its record, None where that does not say;
    ``lost`` are offsets that vanished, ``changes`` commits whose moment is not over yet.
    ``habits`` is what detectors remember of the time before.
    """

    era: str = "0"
    partition: int = -1
    last_offset: int = -1
    last_timestamp_ms: int = -1
    phase: Phase = Phase.DEAD
    group_type: GroupType = GroupType.CLASSIC
    history: History = History.PARTIAL
    generation: int | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    since_ms: int | None = None
    record_offset: int = -1
    record_timestamp_ms: int | None = None
    members: tuple[Member, ...] = ()
    former: tuple[Member, ...] = ()
    orphans: dict[str, dict[str, str]] = {}
    pending: tuple[PendingRecord, ...] = ()
    document: bytes = b""
    offsets: OffsetsSnapshot | None = None
    modern: Modern | None = None
    round: OpenRound | None = None
    completed_epoch: int | None = None
    clock_ms: int = -1
    alarm_ms: int | None = None
    probes: tuple[Probe, ...] = ()
    probed_ms: int = -1
    in_progress: RebalanceInProgress | None = None
    firing: dict[str, ActiveCondition] = {}
    emptied_ms: int | None = None
    life: GroupActivity = msgspec.field(default_factory=GroupActivity)
    lost: tuple[Lost, ...] = ()
    changes: tuple[Change, ...] = ()
    habits: SlotHistory | None = None
    probe_interval_ms: int = 10_000

    @property
    def simple(self) -> bool:
        """A group without a protocol type: somebody commits offsets, nobody is a member."""
        return self.group_type is GroupType.CLASSIC and not self.protocol_type and not self.members

    @property
    def round_number(self) -> int | None:
        """The generation, of the newer kinds the group epoch; None when there is none or it is not known."""
        return self.generation if self.modern is None else group_epoch(self.modern)


_DECODER: Final = msgspec.msgpack.Decoder(GroupSnapshot)
_ENCODER: Final = msgspec.msgpack.Encoder()


def write(saved: GroupSnapshot) -> bytes:
    """A version byte, then msgpack."""
    return bytes([VERSION]) + _ENCODER.encode(saved)


def read(blob: bytes) -> GroupSnapshot:
    """The inverse of ``write``. Raises SnapshotError for another version or damaged bytes."""
    if not blob or blob[0] != VERSION:
        found = blob[0] if blob else "nothing"
        raise SnapshotError(f"snapshot version {found}, this release reads version {VERSION}")
    try:
        return _DECODER.decode(memoryview(blob)[1:])
    except msgspec.DecodeError as error:
        raise SnapshotError(f"snapshot of version {VERSION} is damaged: {error}") from error


def pend(record: GroupRecord) -> PendingRecord:
    """A record as it is remembered while its operation is open."""
    value = None if record.value is None else encode_value(record.value)
    return PendingRecord(record.offset, record.timestamp_ms, encode_key(record.key), value)


def unpend(pending: PendingRecord, partition: int) -> GroupRecord:
    """The inverse of ``pend``. Raises SnapshotError when the bytes cannot be read any more."""
    key = decode_key(pending.key)
    if isinstance(key, Skipped | Malformed):
        raise SnapshotError(f"pending record at offset {pending.offset} has an unreadable key: {key}")
    value: Value | Skipped | Malformed | None = decode_value(key, pending.value)
    if isinstance(value, Skipped | Malformed):
        raise SnapshotError(f"pending record at offset {pending.offset} has an unreadable value: {value}")
    return GroupRecord(
        partition=partition, offset=pending.offset, timestamp_ms=pending.timestamp_ms, key=key, value=value
    )


__all__ = ["GroupSnapshot", "PendingRecord", "SnapshotError", "pend", "read", "unpend", "write"]
