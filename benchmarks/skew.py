"""Groups that are far larger or busier than all others: what their calls cost, and what they leave to the others.

    python benchmarks/skew.py [--partitions 50000] [--members 2000] [--commits 20000] [--groups 20000]
    small: --partitions 200 --members 8 --commits 100 --groups 20

CPU time and sizes of ``pack`` and of the calls, without Spark, for one batch of ten seconds:

- *wide*: a generation of one group with so many members, which commit so many partitions; then one commit
- *busy*: one group that commits so many times a second
- *even*: as many commits of so many groups of one partition of the log, for comparison

A batch cannot be shorter than the call of its largest group; the other groups of that partition of the state wait for
it, those of the other partitions do not.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from page import flag_parser

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from groupreplay.codecs import OffsetCommitKey, OffsetCommitValue, encode_key, encode_value
from groupreplay.state import Context
from groupreplay.streaming.engine.advance import advance
from groupreplay.streaming.engine.packing.pack import INPUT_COLUMNS, pack
from support.histories.builders import generation, member
from support.job.captures import in_bytes

_CONTEXT: Final = Context(cluster_id="benchmark")
_START_MS: Final = 1_700_000_000_000
_BATCH_SECONDS: Final = 10
_OWN_PARTITIONS: Final = 10
_ROWS: Final = 50_000
#: Key and value of a record.
_Record = tuple[bytes, bytes | None]


def commit(group: str, partition: int, offset: int) -> _Record:
    """One commit."""
    key = OffsetCommitKey(group=group, topic="t", partition=partition)
    value = OffsetCommitValue(version=3, offset=offset, metadata="", commit_timestamp_ms=_START_MS)
    return encode_key(key), encode_value(value)


def wide(partitions: int, members: int) -> Iterator[_Record]:
    """A generation, and a commit of every partition."""
    owners = [member(f"consumer-{one:05}", range(one, partitions, members)) for one in range(members)]
    yield in_bytes(generation(1, *owners, at=_START_MS))
    for partition in range(partitions):
        yield commit("g", partition, 1)


def busy(commits: int) -> Iterator[_Record]:
    """One group, all commits ahead of the former ones."""
    return (commit("g", number % _OWN_PARTITIONS, number) for number in range(commits))


def even(commits: int, groups: int) -> Iterator[_Record]:
    """The same number of commits of many groups."""
    return (commit(f"group-{number % groups}", 0, number) for number in range(commits))


def packed(records: Sequence[_Record], first_offset: int) -> dict[bytes, list[bytes]]:
    """The rows of each key."""
    rows: dict[bytes, list[bytes]] = {}
    for table in pack(list(batches(records, first_offset))):
        for key, blob in zip(table["key"].to_pylist(), table["packed"].to_pylist(), strict=True):
            rows.setdefault(key, []).append(blob)
    return rows


def batches(records: Sequence[_Record], first_offset: int) -> Iterator[pa.RecordBatch]:
    """The records as ``pack`` reads them, a millisecond apart."""
    kinds = (pa.int32(), pa.int64(), pa.int64(), pa.binary(), pa.binary())
    for begin in range(0, len(records), _ROWS):
        part = records[begin : begin + _ROWS]
        offsets = range(first_offset + begin, first_offset + begin + len(part))
        keys, values = zip(*part, strict=True)
        columns = ([0] * len(part), offsets, [_START_MS + one for one in offsets], keys, values)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=list(INPUT_COLUMNS))


def calls(rows: dict[bytes, list[bytes]], states: dict[bytes, bytes]) -> tuple[float, float]:
    """Applies the rows of all keys; CPU seconds together, and of the longest call."""
    together = longest = 0.0
    for key, blobs in rows.items():
        begun = time.process_time()
        now_ms = _START_MS + 1_000 * _BATCH_SECONDS
        result = advance(key, states.get(key), blobs, now_ms=now_ms, recorded_ms=now_ms, context=_CONTEXT)
        spent = time.process_time() - begun
        together, longest = together + spent, max(longest, spent)
        if result.blob is not None:
            states[key] = result.blob
    return together, longest


def line(name: str, records: Sequence[_Record], states: dict[bytes, bytes], first_offset: int = 0) -> str:
    """One row of the table."""
    begun = time.process_time()
    rows = packed(records, first_offset)
    spent = time.process_time() - begun
    size = sum(len(blob) for blobs in rows.values() for blob in blobs)
    together, longest = calls(rows, states)
    largest = max(map(len, states.values()))
    return f"| {name} | {len(records):,} | {spent:.2f} | {size:,} | {together:.2f} | {longest:.3f} | {largest:,} |"


def main() -> None:
    """Prints the table."""
    parser = flag_parser(__doc__)
    parser.add_argument("--partitions", type=int, default=50_000)
    parser.add_argument("--members", type=int, default=2_000)
    parser.add_argument("--commits", type=int, default=20_000, help="a second")
    parser.add_argument("--groups", type=int, default=20_000)
    asked = parser.parse_args()
    count = asked.commits * _BATCH_SECONDS
    print("| batch | records | pack, CPU s | packed bytes | calls, CPU s | longest | largest state, bytes |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    first, states = list(wide(asked.partitions, asked.members)), dict[bytes, bytes]()
    print(line("wide", first, states))
    print(line("wide, one commit more", [commit("g", 0, 2)], states, len(first)))
    print(line("busy", list(busy(count)), {}))
    print(line("even", list(even(count, asked.groups)), {}))
    print(f"\nlargest memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
