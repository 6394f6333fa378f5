"""The function for ``mapInArrow`` that packs the log: its records are read when they are about to be passed.

So the caught-up time beside them is the time of the batch, by the brokers' clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from groupreplay.state.plausible_times import UNKNOWN_MS
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.engine.packing.pack import pack
from groupreplay.streaming.engine.packing.record_times import Horizons

#: A clock that shows an earlier time has never been set; the limit is then that of a log without heartbeats.
_LONG_AGO_MS: Final = 1_700_000_000_000


def pack_log(batches: Iterable[pa.RecordBatch], clock_correction_ms: int) -> Iterator[pa.RecordBatch]:
    """``pack`` with the time of this machine, corrected as ``Context.clock_correction_ms`` says."""
    at_ms = now_ms() + clock_correction_ms
    return pack(batches, Horizons(at_ms if at_ms >= _LONG_AGO_MS else UNKNOWN_MS))
