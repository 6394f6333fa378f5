"""Committed offsets that were lost, and commits that were more than progress."""

from __future__ import annotations

import msgspec

from groupreplay.state.events.offset_events import LossReason, RewindKind


class Lost(msgspec.Struct, frozen=True, array_like=True):
    """A committed offset that was deleted; ``mattered``: its group was significant at that time."""

    topic: str
    partition: int
    offset: int
    at_ms: int
    reason: LossReason
    mattered: bool


class Change(msgspec.Struct, frozen=True, array_like=True):
    """A commit below the one before (``kind``), or the first commit after a loss (``lost``)."""

    timestamp_ms: int
    log_offset: int
    topic: str
    partition: int
    old_offset: int
    new_offset: int
    kind: RewindKind | None = None
    lost: Lost | None = None


class Losses(msgspec.Struct, array_like=True):
    """Offsets that were lost lately, and ``changes`` that are not reported yet, because their moment is not over."""

    lost: tuple[Lost, ...] = ()
    changes: tuple[Change, ...] = ()
