"""Committed offsets that were lost or moved, as the snapshot keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from groupreplay.state.events.offset_events import (
    LossReason,
    RewindKind,
)

if TYPE_CHECKING:
    pass


class Lost(msgspec.Struct, frozen=True, array_like=True):
    """A committed offset that is gone; ``mattered`` says so of its group at that time."""

    topic: str
    partition: int
    offset: int
    at_ms: int
    reason: LossReason
    mattered: bool


class Change(msgspec.Struct, frozen=True, array_like=True):
    """A commit that is more than progress: below the one before (``kind``), or the first after a loss (``lost``)."""

    timestamp_ms: int
    log_offset: int
    topic: str
    partition: int
    old_offset: int
    new_offset: int
    kind: RewindKind | None = None
    lost: Lost | None = None
