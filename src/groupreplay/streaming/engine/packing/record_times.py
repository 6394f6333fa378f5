"""The times of a chunk's records: those that cannot be are replaced and reported, the records are applied.

A record whose timestamp cannot be has the time of the record of its group before it, so that it does not move the
group's clock. Where that record is in an earlier chunk, the time is ``NO_TIMESTAMP``, and the group's state has it. A
commit whose own time cannot be has that of its record. ``state.plausible_times`` has the limits, which depend on the
caught-up time beside each record (``Horizons``). Runs of commits end where a group was silent.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from groupreplay.state.plausible_times import (
    LATEST_MS,
    NO_TIMESTAMP,
    SETBACK_MS,
    STEP_MS,
    UNDATED_COMMIT_MS,
    UNKNOWN_MS,
    Times,
    limit_ms,
    limits_ms,
)
from groupreplay.state.snapshot.observations import REST_MS, SILENCE_MS
from groupreplay.streaming.contract.messages import RESERVED
from groupreplay.streaming.contract.probe_messages import HeartbeatMessage, decode_message
from groupreplay.streaming.engine.packing.key_columns import Flags, Ints


@dataclass(slots=True)
class _Ends:
    """Of one partition: the end offsets of heartbeats, rising, and their times."""

    offsets: array[int] = field(default_factory=lambda: array("q"))
    times_ms: array[int] = field(default_factory=lambda: array("q"))

    def note(self, end: int, at_ms: int) -> None:
        """One more heartbeat; of each ``STEP_MS`` the last is kept: a year has a hundred thousand for each partition.

        One that goes back in time or in the log was written by another clock, or forged.
        """
        if self.offsets and (end < self.offsets[-1] or at_ms < self.times_ms[-1]):
            return
        if self.offsets and self.times_ms[-1] // STEP_MS == at_ms // STEP_MS:
            self.offsets[-1], self.times_ms[-1] = end, at_ms
        elif not self.offsets or end > self.offsets[-1]:
            self.offsets.append(end)
            self.times_ms.append(at_ms)


@dataclass(slots=True)
class Horizons:
    """The caught-up time of each record of the log.

    It is that of the first heartbeat whose end offset is behind the record, to five minutes; ``otherwise_ms`` where
    there is none. In the running job a record is read when it is about to be passed: there it is the time of the batch.
    """

    otherwise_ms: int = UNKNOWN_MS
    _ends: dict[int, _Ends] = field(default_factory=dict)

    def note(self, heartbeat: HeartbeatMessage) -> None:
        """Adds a heartbeat; they come in the order of their topic."""
        if heartbeat.caught_up_ms is None:
            return
        for partition, end in heartbeat.offsets.items():
            # Whoever wrote a larger number, it is no offset.
            if end < 1 << 63:
                self._ends.setdefault(partition, _Ends()).note(end, heartbeat.caught_up_ms)

    def reading(
        self, batches: Iterable[pa.RecordBatch], cluster_id: str, era: str
    ) -> Iterator[pa.RecordBatch]:
        """The same batches of messages; adds the heartbeats among them that are about this log."""
        for batch in batches:
            for key, value in zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True):
                # The keys of all other messages are group ids, which are many.
                message = decode_message(key, value) if key == RESERVED else None
                if not isinstance(message, HeartbeatMessage):
                    continue
                if (message.cluster_id, message.era) == (cluster_id, era):
                    self.note(message)
            yield batch

    def last_limit_ms(self) -> int:
        """The latest time that can be in any message written before the last heartbeat."""
        return limit_ms(max((ends.times_ms[-1] for ends in self._ends.values()), default=self.otherwise_ms))

    def first_ms(self, partition: int, offset: int) -> int:
        """The caught-up time of one record; that of later records of the partition is not earlier, unless unknown."""
        ends = self._ends.get(partition)
        place = bisect_right(ends.offsets, offset) if ends else 0
        return ends.times_ms[place] if ends and place < len(ends.offsets) else self.otherwise_ms

    def latest_ms(self, partition: int, offsets: Times, times_ms: Times) -> int:
        """The latest of the times of records of one partition, none of which is after its caught-up time."""
        caught_up_ms = self.caught_up_ms(partition, offsets)
        known = np.where(caught_up_ms > UNKNOWN_MS, np.minimum(times_ms, caught_up_ms), times_ms)
        return int(known[known <= LATEST_MS].max(initial=UNKNOWN_MS))

    def caught_up_ms(self, partition: int, offsets: Times) -> Times:
        """The caught-up times of records of one partition."""
        ends = self._ends.get(partition)
        if ends is None:
            return np.full(len(offsets), self.otherwise_ms, np.int64)
        times = np.append(np.frombuffer(ends.times_ms, np.int64), self.otherwise_ms)
        return times[np.searchsorted(np.frombuffer(ends.offsets, np.int64), offsets, side="right")]


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


#: A table of streams and quarters of a silence, if it is not larger: it is read several times.
_MOST_QUARTERS: Final = 2_000_000
#: Where a clock goes back by more, a quarter can be filled by a record from before the silence, or after it.
_MOST_BACK_MS: Final = 20_000


def pauses(
    record_ms: Ints, is_commit: Flags, applied: Flags, stream: Ints, slot: Ints, stretches: Stretches
) -> Iterator[Flags]:
    """The rows after which a run ends because of a pause: of its stream, or of one of its slots."""
    silences = silence_cuts(record_ms, applied, stream, stretches)
    rests = rest_cuts(record_ms, is_commit, applied, stream, slot, stretches)
    yield from (cuts for cuts in (silences, rests) if cuts is not None)


def silence_cuts(record_ms: Ints, applied: Flags, stream: Ints, stretches: Stretches) -> Flags | None:
    """The rows after which their stream has no row for ``SILENCE_MS``; None if there is none.

    ``applied`` marks the rows that reach a group; the rows of a stream are in the order of the log.
    """
    silences = _silences(record_ms, np.flatnonzero(applied & (stream >= 0)), stream, SILENCE_MS, stretches)
    return None if silences is None else _flags(silences[0], len(record_ms))


def rest_cuts(
    record_ms: Ints, is_commit: Flags, applied: Flags, stream: Ints, slot: Ints, stretches: Stretches
) -> Flags | None:
    """The rows of a stream before a commit of a slot that had none for ``REST_MS``; None if there is none.

    The later commit moves the deadlines of its partition: what was due before it must be evaluated before it.
    """
    rests = _silences(record_ms, np.flatnonzero(is_commit), slot, REST_MS, stretches)
    if rests is None:
        return None
    return before_requests(rests[1], np.flatnonzero(applied & (stream >= 0)), stream, record_ms)


def before_requests(later: Ints, rows: Ints, stream: Ints, record_ms: Ints) -> Flags:
    """Of these rows of streams those before the requests with the ``later`` ones.

    Commits of one request have one time, and stay together.
    """
    bits = len(record_ms).bit_length()
    ordered = np.sort(stream[rows] << bits | rows)
    rows, of = ordered & ((1 << bits) - 1), ordered >> bits
    begins = np.r_[True, (of[1:] != of[:-1]) | (record_ms[rows[1:]] != record_ms[rows[:-1]])]
    first = np.maximum.accumulate(np.where(begins, np.arange(len(rows)), 0))
    before = first[np.searchsorted(ordered, stream[later] << bits | later)] - 1
    # Before the first request of a stream there is nothing to end.
    before = before[(before >= 0) & (of[before] == stream[later])]
    return _flags(rows[before], len(record_ms))


def _silences(
    record_ms: Ints, rows: Ints, stream: Ints, least_ms: int, stretches: Stretches
) -> tuple[Ints, Ints] | None:
    """The rows before and after the silences of so long of a stream (or slot); None if there is none."""
    # Live chunks are seconds long. (As Python's numbers: times that cannot be may be as far apart as they like.)
    if int(record_ms.max()) - int(record_ms.min()) < least_ms:
        return None
    if not any(goes_back(record_ms[of_partition], _MOST_BACK_MS) for _, of_partition in stretches):
        rows = _maybe_silent(rows, record_ms, stream, least_ms)
    if not len(rows):
        return None
    bits = len(record_ms).bit_length()
    # Stream and row in one number: sorting these numbers is faster than a stable sort by stream.
    ordered = stream[rows] << bits | rows
    ordered.sort()
    rows, of = ordered & ((1 << bits) - 1), ordered >> bits
    before, after = record_ms[rows[:-1]], record_ms[rows[1:]]
    found = (of[1:] == of[:-1]) & (before >= 0) & (after - before >= least_ms)
    return (rows[:-1][found], rows[1:][found]) if found.any() else None


def _flags(rows: Ints, count: int) -> Flags:
    flags = np.zeros(count, bool)
    flags[rows] = True
    return flags


def _maybe_silent(rows: Ints, record_ms: Ints, stream: Ints, least_ms: int) -> Ints:
    """Those of the rows whose stream has an empty quarter of a silence between two that are not: all silences do.

    It needs no sort, and nearly all streams of a chunk are never silent.
    """
    at_ms, of = record_ms[rows], stream[rows]
    if not len(rows) or at_ms.min() < 0:
        return rows
    quarter = (at_ms - at_ms.min()) // (least_ms // 4)
    width, streams = int(quarter.max()) + 1, int(of.max()) + 1
    if width * streams > _MOST_QUARTERS:
        return rows
    filled = np.zeros((streams, width), bool)
    filled[of, quarter] = True
    # Between its first quarter and its last one, a stream has as many of them as lie between the two.
    first, last = filled.argmax(axis=1), width - 1 - filled[:, ::-1].argmax(axis=1)
    silent = filled.sum(axis=1) < last - first + 1
    kept: Ints = rows[silent[of]]
    return kept
