"""The times of a chunk's records: those that cannot be are replaced and reported, the records are applied.

A record whose timestamp cannot be has the time of the record of its group before it, so that it does not move the
group's clock. Where that record is in an earlier chunk, the time is ``NO_TIMESTAMP``, and the group's state has it. A
commit whose own time cannot be has that of its record. ``state.plausible_times`` has the limits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from groupreplay.state.plausible_times import (
    NO_TIMESTAMP,
    SETBACK_MS,
    STEP_MS,
    UNDATED_COMMIT_MS,
    Times,
    limit_ms,
    limits_ms,
)
from groupreplay.streaming.engine.packing.binary_columns import Flags, Ints
from groupreplay.streaming.engine.packing.horizons import Horizons


@dataclass(frozen=True, slots=True)
class Stretches:
    """The rows of a chunk by Kafka partition: each stretch has the rows of one, in log order."""

    partition: Ints
    offset: Ints
    ends: Ints

    def __iter__(self) -> Iterator[tuple[int, slice]]:
        """Partition and rows of each stretch."""
        begin = 0
        for end in (self.ends + 1).tolist():
            yield int(self.partition[begin]), slice(begin, end)
            begin = end


class Undated(NamedTuple):
    """The first of some records of one partition and ``STEP_MS`` with a time that cannot be."""

    row: int
    others: int


@dataclass(frozen=True, slots=True)
class RecordTimes:
    """The times of a chunk, as ``pack`` applies them.

    ``record_ms``: by row; ``NO_TIMESTAMP`` where the chunk has no time for it. ``caught_up_ms`` is empty unless a time
    cannot be; then ``bad_record`` and ``bad_inside`` mark the rows whose record or commit has it. ``cuts`` marks
    rows after which a run of commits must end, None for no row.
    """

    record_ms: Times
    inside_ms: Times
    caught_up_ms: Times
    bad_record: Flags
    bad_inside: Flags
    cuts: Flags | None = None

    def read_ms(self, row: int) -> int | None:
        """The caught-up time of a record that has no time of its own, or one that cannot be; None for all others."""
        if not len(self.caught_up_ms) or not (self.bad_record[row] or self.record_ms[row] < 0):
            return None
        return int(self.caught_up_ms[row])

    def undated(self, applied: Flags, partition: Ints) -> list[Undated]:
        """What is to be reported of the rows that are applied: one record of each partition and ``STEP_MS``."""
        if not len(self.caught_up_ms):
            return []
        rows = np.flatnonzero(applied & (self.bad_record | self.bad_inside))
        if not len(rows):
            return []
        steps = self.caught_up_ms[rows] // STEP_MS
        _, first, counts = np.unique(
            np.stack([partition[rows], steps]), axis=1, return_index=True, return_counts=True
        )
        return [Undated(*pair) for pair in zip(rows[first].tolist(), (counts - 1).tolist(), strict=True)]


_NONE: Final = np.zeros(0, bool)
_NO_TIMES: Final = np.zeros(0, np.int64)


def check(record_ms: Times, inside_ms: Times, stretches: Stretches, horizons: Horizons) -> RecordTimes:
    """Finds the times that cannot be; ``inside_ms`` is 0 for rows that are no commits."""
    least_ms = min(
        limit_ms(horizons.first_ms(partition, int(stretches.offset[rows.start])))
        for partition, rows in stretches
    )
    if _within(record_ms, least_ms) and _within(inside_ms, least_ms):
        return RecordTimes(record_ms, inside_ms, _NO_TIMES, _NONE, _NONE)
    caught_up_ms = np.concatenate(
        [horizons.caught_up_ms(partition, stretches.offset[rows]) for partition, rows in stretches]
    )
    limits = limits_ms(caught_up_ms)
    return RecordTimes(
        record_ms, inside_ms, caught_up_ms, _cannot_be(record_ms, limits), _cannot_be(inside_ms, limits)
    )


def _within(times: Times, least_ms: int) -> bool:
    return bool(times.max() <= least_ms) and bool(times.min() >= 0)


def _cannot_be(times: Times, limits: Times) -> Flags:
    flags: Flags = (times > limits) | (times < NO_TIMESTAMP)
    return flags


def settle(times: RecordTimes, applied: Flags, stream: Ints, stretches: Stretches) -> RecordTimes:
    """Replaces the times that cannot be, and finds where a stream's clock went back.

    ``applied`` marks the rows that reach a group. A run of commits ends before a record without a time in the chunk
    has one again, and before a record that is more than ``SETBACK_MS`` earlier than the record of its group before.
    """
    if not len(times.caught_up_ms) and not any(
        goes_back(times.record_ms[rows], SETBACK_MS) for _, rows in stretches
    ):
        return times
    rows = np.flatnonzero(applied & (stream >= 0))
    # Stable: by stream, and inside a stream in the order of the log.
    rows = rows[np.argsort(stream[rows], kind="stable")]
    is_next = np.zeros(len(rows), bool)
    np.equal(stream[rows[1:]], stream[rows[:-1]], out=is_next[1:])
    record_ms = times.record_ms.copy()
    if len(times.caught_up_ms):
        # Rows that reach no group have their own way, with ``read_ms``.
        record_ms[rows] = _filled(record_ms[rows], times.bad_record[rows], is_next)
    inside_ms = _inside_times(times, record_ms)
    ordered = record_ms[rows]
    changes = np.zeros(len(rows), bool)
    before, after = ordered[:-1], ordered[1:]
    changes[1:] = is_next[1:] & ((after < before - SETBACK_MS) | ((before < 0) & (after >= 0)))
    cuts = np.zeros(len(record_ms), bool)
    cuts[rows[np.flatnonzero(changes) - 1]] = True
    return RecordTimes(record_ms, inside_ms, times.caught_up_ms, times.bad_record, times.bad_inside, cuts)


def goes_back(record_ms: Times, by_ms: int) -> bool:
    """Whether any record of a partition is earlier by more than this than one before it."""
    # Nearly always one of the two is true; the exact answer costs more than both.
    if int(record_ms.max()) - int(record_ms.min()) <= by_ms or not (record_ms[1:] < record_ms[:-1]).any():
        return False
    return bool((np.maximum.accumulate(record_ms) - record_ms).max() > by_ms)


def _filled(times: Times, cannot_be: Flags, is_next: Flags) -> Times:
    """Each time that cannot be, or is none, is that of the last record of its stream before it that has one."""
    has_none = cannot_be | (times < 0)
    place = np.where(has_none & is_next, 0, np.arange(len(times)))
    filled: Times = np.where(has_none, NO_TIMESTAMP, times)[np.maximum.accumulate(place)]
    return filled


def _inside_times(times: RecordTimes, record_ms: Times) -> Times:
    """A commit without a time of its own has that of its record."""
    if not len(times.caught_up_ms):
        return times.inside_ms
    own = ~(times.bad_record | times.bad_inside) & (times.inside_ms >= 0)
    replaced = np.where(record_ms < 0, UNDATED_COMMIT_MS, record_ms)
    inside_ms: Times = np.where(own, times.inside_ms, replaced)
    return inside_ms
