"""The function for ``mapInArrow`` that packs the log: its records are read when they are about to be passed.

So the caught-up time beside them is the time of the batch, by the brokers' clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from groupreplay.state.plausible_times import UNKNOWN_MS
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.engine.packing.horizons import Horizons
from groupreplay.streaming.engine.packing.pack import COUNTED_SCHEMA, pack
from groupreplay.streaming.engine.wire import HEARTBEAT_TAG

#: A clock that shows an earlier time has never been set; the limit is then that of a log without heartbeats.
_LONG_AGO_MS: Final = 1_700_000_000_000


def pack_log(batches: Iterable[pa.RecordBatch], clock_correction_ms: int) -> Iterator[pa.RecordBatch]:
    """``pack`` with the time of this machine, corrected as ``Context.clock_correction_ms`` says."""
    at_ms = now_ms() + clock_correction_ms
    return pack(batches, Horizons(at_ms if at_ms >= _LONG_AGO_MS else UNKNOWN_MS))


def pack_stream(batches: Iterable[pa.RecordBatch], *, timed: bool) -> Iterator[pa.RecordBatch]:
    """``pack_log``; ``timed`` adds a row with the time of the newest record, which becomes the watermark.

    A record that is dated after now does not count.
    """
    latest_ms, limit_ms = 0, now_ms()

    def noting() -> Iterator[pa.RecordBatch]:
        nonlocal latest_ms
        for batch in batches:
            times = batch.column("timestamp_ms")
            latest_ms = max(latest_ms, pc.max(times.filter(pc.less_equal(times, limit_ms))).as_py() or 0)
            yield batch

    yield from pack_log(noting(), clock_correction_ms=0)
    if timed and latest_ms:
        columns = [[HEARTBEAT_TAG], [None], [1_000 * latest_ms], [None]]
        arrays = [pa.array(values, field.type) for values, field in zip(columns, COUNTED_SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=COUNTED_SCHEMA)
