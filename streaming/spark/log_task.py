"""The function for ``mapInArrow`` that packs the log: its records are read when they are about to be passed.

So the caught-up time beside them is the time of the batch, by the brokers' clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.engine.horizons import Horizons
from groupreplay.streaming.engine.pack import pack


def pack_log(batches: Iterable[pa.RecordBatch], clock_correction_ms: int) -> Iterator[pa.RecordBatch]:
    """``pack`` with the time of this machine, corrected as ``Context.clock_correction_ms`` says."""
    return pack(batches, Horizons(now_ms() + clock_correction_ms))
