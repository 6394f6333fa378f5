"""Records as Arrow batches: the form in which every reader of a log hands them on, and columns as NumPy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from groupreplay.state.plausible_times import LATEST_MS

#: The columns of Spark's Kafka source; ``timestamp`` in milliseconds since 1970, ``timestampType`` as Kafka
#: numbers it (0 set by the client, 1 set by the broker).
ROW_SCHEMA: Final = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("timestampType", pa.int32(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
    ]
)
#: Rows of a batch, at most.
BATCH_ROWS: Final = 50_000


class ProgressCallback(Protocol):
    """Receives the progress of a long read."""

    def __call__(self, done: int, total: int | None) -> None:
        """``done`` of ``total`` rows, both absolute; ``total`` None: unknown."""


def no_progress(done: int, total: int | None) -> None:
    """For callers that show nothing."""


class LogExtent:
    """Counts the records that pass by; ``first_ms`` and ``last_ms`` are None without a record whose time can be."""

    def __init__(self) -> None:
        self.records = 0
        self.first_ms: int | None = None
        self.last_ms: int | None = None

    def reading(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches."""
        for batch in batches:
            self.add(batch)
            yield batch

    def add(self, batch: pa.RecordBatch) -> None:
        """Count a batch."""
        self.records += batch.num_rows
        bounds = plausible_bounds(batch.column("timestamp"))
        if bounds is not None:
            self.first_ms = bounds[0] if self.first_ms is None else min(self.first_ms, bounds[0])
            self.last_ms = bounds[1] if self.last_ms is None else max(self.last_ms, bounds[1])


def plausible_bounds(times_ms: pa.Array | pa.ChunkedArray) -> tuple[int, int] | None:
    """The earliest and the latest of the times that can be (``plausible_times``); None without any."""
    bounds = pc.min_max(times_ms).as_py()
    if bounds["max"] is not None and (bounds["min"] < 0 or bounds["max"] > LATEST_MS):
        can_be = pc.and_(pc.greater_equal(times_ms, 0), pc.less_equal(times_ms, LATEST_MS))
        bounds = pc.min_max(times_ms.filter(can_be)).as_py()
    return None if bounds["max"] is None else (bounds["min"], bounds["max"])


def keys_and_values(batch: pa.RecordBatch) -> Iterator[tuple[bytes | None, bytes | None]]:
    """The messages of a batch."""
    return zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True)


#: ``mallopt``'s numbers, from glibc's malloc.h.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
#: One chunk of ``pack`` needs about half of this.
_KEPT_BYTES: Final = 128 << 20
#: Larger blocks come from the system and go back at once. Some releases of glibc refuse more than 32 MB.
_LARGEST_KEPT_BYTES: Final = 32 << 20


@cache
def keep_freed_memory() -> None:
    """Lets the process keep up to 128 MB of freed memory between chunks.

    The system maps and zeroes every page that it hands out again: with glibc's own thresholds that took half of the
    time of ``pack``. The peak of the memory stays the same.
    """
    with suppress(OSError, AttributeError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_KEPT_BYTES)


def numbers(column: pa.Array) -> npt.NDArray[Any]:
    """A column of numbers without nulls, without a copy. Arrow's own ``to_numpy`` would import pandas."""
    return np.from_dlpack(column)
