"""The output of ``pack`` for raw records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from groupreplay.streaming.engine.packing.pack import COUNTED_SCHEMA, pack
from groupreplay.streaming.engine.packing.record_times import Horizons
from support.histories.raw_records import Raw, batches


def packed_by_key(
    rows: Sequence[Raw], size: int = 10_000, *, caught_up_ms: int = 0
) -> dict[bytes, list[bytes]]:
    """The packed blobs of each key, in the order in which they came; ``size`` rows a batch."""
    blobs: defaultdict[bytes, list[bytes]] = defaultdict(list)
    for batch in pack(batches(rows, size), Horizons(caught_up_ms)):
        assert batch.schema == COUNTED_SCHEMA
        assert batch["caught_up"].null_count == batch.num_rows
        for key, packed in zip(batch["key"].to_pylist(), batch["packed"].to_pylist(), strict=True):
            blobs[key].append(packed)
    return dict(blobs)
