"""Snapshots of version 1: one flat array of fields, which older releases have written into checkpoints."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

from groupreplay.codecs.kafka_terms import GroupType, Phase
from groupreplay.state.events.event import Evidence, History
from groupreplay.state.snapshot.conditions import ActiveCondition, ConditionKey, Conditions
from groupreplay.state.snapshot.group_snapshot import GroupActivity, GroupSnapshot
from groupreplay.state.snapshot.group_state import (
    ClassicGeneration,
    GroupState,
    OpenRebalance,
    RebalanceInProgress,
)
from groupreplay.state.snapshot.log_position import LogPosition, PendingRecord, ProbeQueue
from groupreplay.state.snapshot.losses import Change, Losses, Lost, latest_first
from groupreplay.state.snapshot.members import Member
from groupreplay.state.snapshot.modern import Modern
from groupreplay.state.snapshot.observations import Probe
from groupreplay.state.snapshot.offsets import OffsetsSnapshot
from groupreplay.state.snapshot.slot_history import SlotHistory

VERSION: Final = 1


class TextKeyCondition(msgspec.Struct, array_like=True):
    """An active condition of version 1; its key was the text ``NAME subject``."""

    severity: int
    dedup_key: str
    evidence: Evidence
    condition: bytes
    late: bool = False


class _FlatSnapshot(msgspec.Struct, array_like=True):
    """The fields of version 1 in their order, with the defaults for the shorter arrays of its first releases."""

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
    pending: list[PendingRecord] = []
    document: bytes = b""
    offsets: OffsetsSnapshot | None = None
    modern: Modern | None = None
    open_rebalance: OpenRebalance | None = None
    completed_epoch: int | None = None
    clock_ms: int = -1
    alarm_ms: int | None = None
    probes: tuple[Probe, ...] = ()
    probed_ms: int = -1
    in_progress: RebalanceInProgress | None = None
    firing: dict[str, TextKeyCondition] = {}
    emptied_ms: int | None = None
    life: GroupActivity = msgspec.field(default_factory=GroupActivity)
    lost: tuple[Lost, ...] = ()
    changes: tuple[Change, ...] = ()
    habits: SlotHistory | None = None
    probe_interval_ms: int = 10_000


_DECODER: Final = msgspec.msgpack.Decoder(_FlatSnapshot)
_Part = TypeVar("_Part", bound=msgspec.Struct)


def read(body: bytes | memoryview) -> GroupSnapshot:
    """The snapshot behind the version byte, in today's parts. Raises ``msgspec.DecodeError``."""
    flat = _DECODER.decode(body)
    return GroupSnapshot(
        log=_part(LogPosition, flat),
        probes=ProbeQueue(list(flat.probes), flat.probed_ms, flat.probe_interval_ms),
        group=_part(GroupState, flat, classic=_part(ClassicGeneration, flat)),
        offsets=flat.offsets,
        losses=Losses(flat.lost, latest_first(flat.changes)),
        activity=flat.life,
        slot_history=flat.habits,
        conditions=Conditions(active_conditions(flat.firing), flat.alarm_ms),
        document_digest=flat.document,
    )


def active_conditions(firing: dict[str, TextKeyCondition]) -> dict[ConditionKey, ActiveCondition]:
    """The active conditions of version 1 with typed keys."""
    found = {}
    for text, one in firing.items():
        kind, _, subject = text.partition(" ")
        # Of a stuck rebalance: the reasons reported so far, "wedged" or nothing, and member ids.
        first, *others = one.dedup_key.split("\0")
        found[ConditionKey(kind, subject)] = ActiveCondition(
            severity=one.severity,
            dedup_key=tuple(others) if others else tuple(filter(None, (first,))),
            evidence=one.evidence,
            condition=one.condition,
            late=one.late,
            reported=tuple(first.split(",")) if others else (),
        )
    return found


def _part(kind: type[_Part], flat: _FlatSnapshot, **others: Any) -> _Part:
    """A part of today's snapshot from the fields of the same names; newer fields have their defaults."""
    known = [name for name in kind.__struct_fields__ if name not in others and hasattr(flat, name)]
    return kind(**{name: getattr(flat, name) for name in known}, **others)
