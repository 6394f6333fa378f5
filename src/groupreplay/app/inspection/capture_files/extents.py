"""Counts what passes through a writer or reader: which offsets and times of each partition a capture holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from groupreplay.app.inspection.capture_files.context import PartitionExtent
from groupreplay.streaming.engine.packing.binary_columns import numbers


@dataclass(slots=True)
class _Counted:
    records: int = 0
    first_offset: int = 0
    last_offset: int = -1
    first_ms: int | None = None
    last_ms: int | None = None
    missing: int = 0
    gaps: int = 0


@dataclass(slots=True)
class ExtentCounter:
    """Takes the batches of each partition in the order of its offsets; then ``extents`` are known."""

    _found: dict[tuple[str, int], _Counted] = field(default_factory=dict)
    _bounds: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)

    def add(self, batch: pa.RecordBatch) -> None:
        """Count rows of one partition of one topic."""
        if not batch.num_rows:
            return
        place = batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py()
        offsets = numbers(batch.column("offset"))
        counted = self._found.get(place)
        if counted is None:
            counted = self._found[place] = _Counted(
                first_offset=int(offsets[0]), last_offset=int(offsets[0]) - 1
            )
        skipped = np.diff(offsets, prepend=counted.last_offset) - 1
        counted.records += len(offsets)
        counted.missing += int(skipped.sum())
        counted.gaps += int((skipped > 1).sum())
        counted.last_offset = int(offsets[-1])
        times = pc.min_max(
            pc.filter(batch.column("timestamp"), pc.greater_equal(batch.column("timestamp"), 0))
        )
        counted.first_ms = _least(counted.first_ms, times["min"].as_py())
        counted.last_ms = _greatest(counted.last_ms, times["max"].as_py())

    def note_bounds(self, topic: str, starts: Mapping[int, int], ends: Mapping[int, int]) -> None:
        """The bounds of partitions of a topic as the broker names them: the first offset, and the one after the last.

        With them, partitions without a record are listed, too, and what is missing before the first and after the last
        record counts.
        """
        self._bounds |= {(topic, number): (start, ends[number]) for number, start in starts.items()}

    def extents(self) -> list[PartitionExtent]:
        """The extents by topic and partition."""
        return [self._extent(place) for place in sorted({*self._found, *self._bounds})]

    def _extent(self, place: tuple[str, int]) -> PartitionExtent:
        topic, partition = place
        start, end = self._bounds.get(place, (None, None))
        counted = self._found.get(place)
        if counted is None:
            missing = 0 if start is None or end is None else end - start
            return PartitionExtent(
                topic=topic,
                partition=partition,
                log_start=start,
                log_end=end,
                missing=missing,
                gaps=int(missing > 1),
            )
        before = 0 if start is None else max(0, counted.first_offset - start)
        after = 0 if end is None else max(0, end - counted.last_offset - 1)
        return PartitionExtent(
            topic=topic,
            partition=partition,
            records=counted.records,
            first_offset=counted.first_offset,
            last_offset=counted.last_offset,
            first_ms=counted.first_ms,
            last_ms=counted.last_ms,
            log_start=start,
            log_end=None if end is None else max(end, counted.last_offset + 1),
            missing=counted.missing + before + after,
            gaps=counted.gaps + (before > 1) + (after > 1),
        )


def _least(first: int | None, second: int | None) -> int | None:
    known = [one for one in (first, second) if one is not None]
    return min(known, default=None)


def _greatest(first: int | None, second: int | None) -> int | None:
    known = [one for one in (first, second) if one is not None]
    return max(known, default=None)
