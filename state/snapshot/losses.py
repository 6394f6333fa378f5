"""Committed offsets that were lost, and commits that were more than progress."""

from __future__ import annotations

from collections.abc import Iterable

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
    """Offsets that were lost lately, and ``changes`` that are not reported yet, because their moment is not over.

    The latest change comes first: reports take the earliest from the end, whatever the number of those that wait.
    """

    lost: tuple[Lost, ...] = ()
    changes: list[Change] = []


def latest_first(changes: Iterable[Change]) -> list[Change]:
    """The order in which ``Losses`` holds them."""
    return sorted(changes, key=lambda one: one.timestamp_ms, reverse=True)
