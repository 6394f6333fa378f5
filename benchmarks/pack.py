"""How many offset commits a second ``pack`` folds on one core.

    python benchmarks/pack.py [--records 2000000] [--groups 1000] [--partitions 50]

Synthetic v4 commits, each one group's commit of one partition, with all keys coming round again and again. To
compare two commits of this repository, run it three times on each and compare the best figures.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pyarrow as pa

from groupreplay.codecs import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from groupreplay.streaming.pack import pack

_BATCH = 100_000


def commits(records: int, groups: int, partitions: int) -> list[pa.RecordBatch]:
    """Batches of commits, key after key, so that the whole key set comes round again and again."""
    keys = pa.array(
        [
            encode_key(OffsetCommitKey(group=f"group-{group:05}", topic="orders", partition=partition))
            for group in range(groups)
            for partition in range(partitions)
        ],
        pa.binary(),
    )
    value = encode_value(OffsetCommitValue(version=4, offset=0, metadata="", commit_timestamp_ms=0))
    batches = []
    for start in range(0, records, _BATCH):
        offset = np.arange(start, min(start + _BATCH, records))
        values = np.tile(np.frombuffer(value, np.uint8), (len(offset), 1))
        values[:, 2:10] = offset.astype(">i8").view(np.uint8).reshape(-1, 8)
        values[:, 15:23] = (offset * 1_000).astype(">i8").view(np.uint8).reshape(-1, 8)
        columns = [
            pa.array(np.zeros(len(offset), np.int32)),
            pa.array(offset),
            pa.array(offset * 1_000),
            keys.take(pa.array(offset % len(keys))),
            pa.Array.from_buffers(
                pa.binary(),
                len(offset),
                [
                    None,
                    pa.py_buffer(np.arange(len(offset) + 1, dtype=np.int32) * len(value)),
                    pa.py_buffer(values.tobytes()),
                ],
            ),
        ]
        names = ["partition", "offset", "timestamp_ms", "key", "value"]
        batches.append(pa.RecordBatch.from_arrays(columns, names=names))
    return batches


def main() -> None:
    """Prints records a second, for a first and for later passes over the same records."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--partitions", type=int, default=50)
    asked = parser.parse_args()
    batches = commits(asked.records, asked.groups, asked.partitions)
    for name in ("first pass", "second pass", "third pass"):
        begin = time.perf_counter()
        rows = sum(batch.num_rows for batch in pack(iter(batches)))
        seconds = time.perf_counter() - begin
        print(f"{name}: {asked.records / seconds / 1e6:.2f} M records/s ({seconds:.2f} s, {rows} rows out)")


if __name__ == "__main__":
    main()
