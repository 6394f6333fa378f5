"""Where a group was silent inside a chunk: its runs of commits end there, so that its state sees the silence."""

from __future__ import annotations

from typing import Final

import numpy as np

from groupreplay.state.snapshot.observations import SILENCE_MS
from groupreplay.streaming.engine.packing.binary_columns import Flags, Ints
from groupreplay.streaming.engine.packing.record_times import Stretches, goes_back

#: A table of streams and quarters of a silence, if it is not larger: it is read several times.
_MOST_QUARTERS: Final = 2_000_000
_QUARTER_MS: Final = SILENCE_MS // 4
#: Where a clock goes back by more, a quarter can be filled by a record from before the silence, or after it.
_MOST_BACK_MS: Final = 20_000


def silence_cuts(record_ms: Ints, applied: Flags, stream: Ints, stretches: Stretches) -> Flags | None:
    """The rows after which their stream has no row for ``SILENCE_MS``; None if there is none.

    ``applied`` marks the rows that reach a group; the rows of a stream are in the order of the log.
    """
    # Live chunks are seconds long. (As Python's numbers: times that cannot be may be as far apart as they like.)
    if int(record_ms.max()) - int(record_ms.min()) < SILENCE_MS:
        return None
    rows = np.flatnonzero(applied & (stream >= 0))
    if not any(goes_back(record_ms[of_partition], _MOST_BACK_MS) for _, of_partition in stretches):
        rows = _maybe_silent(rows, record_ms, stream)
    if not len(rows):
        return None
    bits = len(record_ms).bit_length()
    # Stream and row in one number: sorting these numbers is faster than a stable sort by stream.
    ordered = stream[rows] << bits | rows
    ordered.sort()
    rows, of = ordered & ((1 << bits) - 1), ordered >> bits
    before, after = record_ms[rows[:-1]], record_ms[rows[1:]]
    found = (of[1:] == of[:-1]) & (before >= 0) & (after - before >= SILENCE_MS)
    if not found.any():
        return None
    cuts = np.zeros(len(record_ms), bool)
    cuts[rows[:-1][found]] = True
    return cuts


def _maybe_silent(rows: Ints, record_ms: Ints, stream: Ints) -> Ints:
    """Those of the rows whose stream has an empty quarter of ``SILENCE_MS`` between two that are not: all silences do.

    It needs no sort, and nearly all streams of a chunk are never silent.
    """
    at_ms, of = record_ms[rows], stream[rows]
    if not len(rows) or at_ms.min() < 0:
        return rows
    quarter = (at_ms - at_ms.min()) // _QUARTER_MS
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
