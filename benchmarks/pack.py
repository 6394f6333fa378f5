"""Offset commits per second that ``pack`` decodes and folds on one core.

    python benchmarks/pack.py [--groups 1000] [--partitions 50] [--commits 40] [--log-partitions 50]
    small: --groups 10 --partitions 5 --commits 4 --log-partitions 2

Synthetic v4 commits in the layout of a real log: the groups spread over the partitions of the offsets topic; each
commit of a group is one stretch of records; the order of the groups changes from round to round. With
``--log-partitions 1`` all groups share one partition, which is the worst case: equal keys are far apart.
Seconds are CPU seconds of this process; the best of several passes counts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from page import flag_parser

from groupreplay.codecs import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from groupreplay.streaming.engine.packing.pack import INPUT_COLUMNS, pack

_BATCH = 100_000
_START_MS = 1_700_000_000_000
_SECOND_MS = 1_000
_PASSES = 5


def commits(
    groups: int, partitions: int, rounds: int, log_partitions: int, *, batch: int = _BATCH
) -> list[pa.RecordBatch]:
    """Batches in log order; in each round every group commits all its partitions."""
    return [
        rows
        for number in range(log_partitions)
        for rows in _partition(range(number, groups, log_partitions), partitions, rounds, number, batch)
    ]


def _partition(
    groups: range, partitions: int, rounds: int, number: int, batch: int
) -> Iterator[pa.RecordBatch]:
    keys = pa.array(
        [
            encode_key(OffsetCommitKey(group=f"group-{group:05}", topic="orders", partition=partition))
            for group in groups
            for partition in range(partitions)
        ],
        pa.binary(),
    )
    random = np.random.default_rng(number)
    order = np.concatenate([random.permutation(len(groups)) for _ in range(rounds)])
    chosen = (order[:, None] * partitions + np.arange(partitions)).ravel()
    at_ms = np.repeat(_START_MS + np.arange(len(order)) * _SECOND_MS, partitions)
    committed = np.repeat(np.repeat(np.arange(rounds) * 100, len(groups)), partitions)
    for start in range(0, len(chosen), batch):
        rows = slice(start, start + batch)
        size = len(chosen[rows])
        columns = [
            pa.array(np.full(size, number, np.int32)),
            pa.array(np.arange(start, start + size)),
            pa.array(at_ms[rows]),
            keys.take(pa.array(chosen[rows])),
            _values(committed[rows], at_ms[rows]),
        ]
        yield pa.RecordBatch.from_arrays(columns, names=list(INPUT_COLUMNS))


def _values(offset: npt.NDArray[np.int64], at_ms: npt.NDArray[np.int64]) -> pa.Array:
    value = encode_value(OffsetCommitValue(version=4, offset=0, metadata="", commit_timestamp_ms=0))
    values = np.tile(np.frombuffer(value, np.uint8), (len(offset), 1))
    values[:, 2:10] = offset.astype(">i8").view(np.uint8).reshape(-1, 8)
    values[:, 15:23] = at_ms.astype(">i8").view(np.uint8).reshape(-1, 8)
    ends = np.arange(len(offset) + 1, dtype=np.int32) * len(value)
    return pa.Array.from_buffers(
        pa.binary(), len(offset), [None, pa.py_buffer(ends), pa.py_buffer(values.tobytes())]
    )


def main() -> None:
    """Prints records a second of several passes over the same records."""
    parser = flag_parser(__doc__)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--partitions", type=int, default=50)
    parser.add_argument("--commits", type=int, default=40)
    parser.add_argument("--log-partitions", type=int, default=50)
    asked = parser.parse_args()
    batches = commits(asked.groups, asked.partitions, asked.commits, asked.log_partitions)
    records = sum(batch.num_rows for batch in batches)
    seconds = []
    for _ in range(_PASSES):
        begin = time.process_time()
        rows = sum(batch.num_rows for batch in pack(iter(batches)))
        seconds.append(time.process_time() - begin)
        print(f"{records / seconds[-1] / 1e6:.2f} M records/s of one core ({rows} rows out)")
    print(f"best: {records / min(seconds) / 1e6:.2f} M records/s ({records:,} records, {min(seconds):.2f} s)")


if __name__ == "__main__":
    main()
