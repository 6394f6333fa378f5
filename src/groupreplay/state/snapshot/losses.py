"""Committed offsets that were lost or set, and commits that were more than progress."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from typing import Final

import msgspec

from groupreplay.codecs.kafka_terms import GroupType
from groupreplay.state.events.event import History
from groupreplay.state.events.offset_events import LossReason, RewindKind, SetDirection

#: More changes than this are sorted together with those that wait.
_FEW: Final = 8


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


class DeletedOffset(msgspec.Struct, frozen=True, array_like=True):
    """A committed offset that a tombstone has removed."""

    topic: str
    partition: int
    offset: int


class UnclearDeletion(msgspec.Struct, frozen=True, array_like=True):
    """Offsets that were removed at one moment, and not reported yet: the prober may know why until ``until_ms``.

    The other fields are those of the event; the group may be deleted meanwhile.
    """

    at_ms: int
    log_offset: int
    until_ms: int
    offsets: tuple[DeletedOffset, ...]
    deadline_ms: int | None
    mattered: bool
    group_type: GroupType
    simple: bool
    history: History
    assumed: dict[str, int] = {}
    assumed_release: str | None = None


class Losses(msgspec.Struct, array_like=True):
    """Offsets that were lost lately, and ``changes`` that are not reported yet, because their moment is not over.

    The earliest loss comes first, and the latest change: reports take the earliest change from the end, whatever the
    number of those that wait. ``unclear`` are deletions whose reason is not known yet.
    """

    lost: tuple[Lost, ...] = ()
    changes: list[Change] = []
    unclear: tuple[UnclearDeletion, ...] = ()


def add_changes(losses: Losses, changes: Sequence[Change]) -> None:
    """Let changes wait for the end of their moment."""
    if len(changes) > _FEW:
        waiting = [*losses.changes, *changes]
        losses.changes = sorted(waiting, key=lambda change: change.timestamp_ms, reverse=True)
        return
    for new in changes:
        # No sort of all: there can be thousands in one moment, in as many calls.
        insort(losses.changes, new, key=lambda change: -change.timestamp_ms)


class SetRange(msgspec.Struct, frozen=True, array_like=True):
    """An offset before and after an occasion.

    ``from_offset`` None: none was known. ``recreated``: its topic has another id than before.
    """

    from_offset: int | None
    to_offset: int
    recreated: bool = False

    def up_to(self, to_offset: int, recreated: bool) -> SetRange:
        """The same after one more set."""
        return SetRange(self.from_offset, to_offset, self.recreated or recreated)


class SetOccasion(msgspec.Struct, array_like=True):
    """Offsets that were set within a few seconds, by topic and partition; ``log_offset`` is that of the first set."""

    since_ms: int
    log_offset: int
    generation: int | None
    ranges: dict[str, dict[int, SetRange]] = {}


class SetPace(msgspec.Struct, frozen=True, array_like=True):
    """The last occasion, and how long after the one before it was; ``steady``: they come at a known pace."""

    generation: int | None
    last_ms: int
    direction: SetDirection | None
    gap_ms: int | None = None
    steady: bool = False

    def at_pace(self, gap_ms: int, *, steady: bool) -> SetPace:
        """The same occasion, as one of several."""
        return SetPace(self.generation, self.last_ms, self.direction, gap_ms, steady)


class OffsetSets(msgspec.Struct, array_like=True):
    """Occasions that are not over, the earliest first, and the pace of those before."""

    waiting: list[SetOccasion] = []
    pace: SetPace | None = None
