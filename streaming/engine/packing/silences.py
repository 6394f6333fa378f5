"""Where a group was silent inside a chunk: its runs of commits end there, so that its state sees the silence."""

from __future__ import annotations

import numpy as np

from groupreplay.state.snapshot.observations import SILENCE_MS
from groupreplay.streaming.engine.packing.binary_columns import Flags, Ints


def silence_cuts(record_ms: Ints, applied: Flags, stream: Ints) -> Flags | None:
    """The rows after which their stream has no row for ``SILENCE_MS``; None if there is none.

    ``applied`` marks the rows that reach a group; the rows of a stream are in the order of the log.
    """
    # Live chunks are seconds long. (As Python's numbers: times that cannot be may be as far apart as they like.)
    if int(record_ms.max()) - int(record_ms.min()) < SILENCE_MS:
        return None
    rows = np.flatnonzero(applied & (stream >= 0))
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
