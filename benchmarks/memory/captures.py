"""Seconds and memory of a replay from captures that other programs wrote, compared with our own capture.

    python benchmarks/memory/captures.py [--records 1000000] [--repeat 5]
    small: --records 2000 --repeat 1

The same commits stand in several Parquet files: as ``capture`` writes them (a row group for each partition); in one row
group for all 50 partitions, with one partition after the other, in the order of time, and in no order; and in DuckDB's
own row groups. The last file has one row group with twenty times as many records. Each replay is a process of its own.
Its CPU seconds, without those of the start, are compared with our own capture's in the same round. Memory is the peak
of the process.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.contract.log import ROW_SCHEMA
from groupreplay.streaming.sources.capture import CaptureWriter

sys.path.insert(0, str(Path(__file__).parents[1]))

from pack import commits
from page import flag_parser, put, show_progress

_GROUPS: Final = 1_000
_PARTITIONS: Final = 50
_LARGE: Final = 20
_TITLES: Final = {
    "own": "our own capture",
    "partitions": "one row group, one partition after the other",
    "time": "one row group, in the order of time",
    "none": "one row group, rows in no order",
    "duckdb": "DuckDB, rows in no order",
}
_PROGRAM: Final = """
import resource, sys
from pathlib import Path
from groupreplay.state import Context
from groupreplay.streaming.engine.replay import Replay
from groupreplay.streaming.sources.capture import read_captures

def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime

begin = cpu()
rows = read_captures([Path(sys.argv[1])])
for _ in Replay(Context(cluster_id="c", era="e")).feed(rows):
    pass
used = cpu() - begin
# Not ru_maxrss, which begins with the memory of the process that started this one.
status = Path("/proc/self/status").read_text()
print(used, int(status.split("VmHWM:")[1].split()[0]) / 1024)
"""


def batches(records: int) -> Iterator[pa.RecordBatch]:
    """Commits with the columns of a capture."""
    rounds = max(1, records // (_GROUPS * _PARTITIONS))
    for batch in commits(_GROUPS, _PARTITIONS, rounds, _PARTITIONS, batch=50_000):
        size = batch.num_rows
        topic = pa.repeat(pa.scalar(OFFSETS_TOPIC), size)
        kind = pa.repeat(pa.scalar(1, pa.int32()), size)
        partition, offset, at_ms, key, value = batch.columns
        yield pa.RecordBatch.from_arrays(
            [topic, partition, offset, at_ms, kind, key, value], schema=ROW_SCHEMA
        )


def write_captures(folder: Path, records: int) -> int:
    """Writes all files; returns the number of records."""
    with CaptureWriter(folder / "own.parquet", cluster_id="c", era="e") as writer:
        for batch in batches(records):
            writer.write(batch)
    table = pq.read_table(folder / "own.parquet").replace_schema_metadata(None)
    orders = {
        "partitions": np.arange(table.num_rows),
        "time": np.argsort(table["timestamp"].to_numpy(), kind="stable"),
        "none": np.random.default_rng(0).permutation(table.num_rows),
    }
    for name, order in orders.items():
        pq.write_table(table.take(order), folder / f"{name}.parquet", row_group_size=table.num_rows)
    source, target = folder / "none.parquet", folder / "duckdb.parquet"
    duckdb.sql(f"COPY (FROM '{source}') TO '{target}' (FORMAT parquet)")
    return int(table.num_rows)


def write_large(path: Path, records: int) -> int:
    """One row group with many times as many records, every partition's in several stretches out of order."""
    count = 0
    with pq.ParquetWriter(path, ROW_SCHEMA) as writer:
        held = [batch for batch in batches(records) if batch.num_rows]
        moved = np.random.default_rng(0).permutation(_LARGE)
        tables = []
        for times in moved:
            for batch in held:
                offset = pa.array(batch.column("offset").to_numpy() + int(times) * records)
                tables.append(batch.set_column(2, ROW_SCHEMA.field("offset"), offset))
        table = pa.Table.from_batches(tables)
        writer.write_table(table, row_group_size=table.num_rows)
        count = table.num_rows
    return int(count)


def replayed(path: Path) -> tuple[float, float]:
    """CPU seconds and peak MiB of a replay in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, path],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ,
        timeout=1_800,
    )
    seconds, memory = done.stdout.split()
    return float(seconds), float(memory)


def main() -> None:
    """Prints a row for each file."""
    parser = flag_parser(__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--page", action="store_true")
    asked = parser.parse_args()
    lines = [
        "| capture | records | MB | CPU s | to our own | peak MiB |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    with TemporaryDirectory(prefix="groupreplay-bench-") as name:
        folder = Path(name)
        count = write_captures(folder, asked.records)
        rounds = []
        for number in range(asked.repeat):
            show_progress(f"round {number + 1} of {asked.repeat}")
            rounds.append({kind: replayed(folder / f"{kind}.parquet") for kind in _TITLES})
        for kind, title in _TITLES.items():
            size = (folder / f"{kind}.parquet").stat().st_size / 1e6
            seconds = statistics.median(one[kind][0] for one in rounds)
            ratio = statistics.median(one[kind][0] / one["own"][0] for one in rounds)
            memory = max(one[kind][1] for one in rounds)
            lines.append(
                f"| {title} | {count:,} | {size:.1f} | {seconds:.2f} | {ratio:.2f} | {memory:,.0f} |"
            )
        show_progress("a large one")
        large = folder / "large.parquet"
        count = write_large(large, asked.records)
        seconds, memory = replayed(large)
        size = large.stat().st_size / 1e6
        title = f"one row group, {_LARGE} times as many, out of order"
        lines.append(f"| {title} | {count:,} | {size:.1f} | {seconds:.2f} |  | {memory:,.0f} |")
    table = "\n".join(lines)
    print(table)
    if asked.page:
        put("captures", table)


if __name__ == "__main__":
    main()
