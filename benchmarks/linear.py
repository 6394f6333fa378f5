"""Whether the cost of one group grows in proportion to what is read of it in one batch.

    python benchmarks/linear.py [--records 10000] [--commits 2000000] [--page]
    small: --records 40 --commits 1000

For each shape: CPU time of ``pack`` and of the group's call for so many records and for four times as many, and the
ratio of both. 4 is proportional; the goal is at most 4.5. Then the time for two million commits, the goal is a minute.
"""

from __future__ import annotations

import struct
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa
from page import flag_parser, put, show_progress

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from groupreplay.codecs import GroupMetadataKey, OffsetCommitKey, encode_key, encode_value
from groupreplay.state import Context
from groupreplay.state.snapshot.observations import Probe
from groupreplay.streaming.engine.advance import advance
from groupreplay.streaming.engine.packing.pack import INPUT_COLUMNS, pack
from groupreplay.streaming.engine.wire import GROUP_TAG, PackedProbe, to_wire
from support.histories.builders import generation, member

_CONTEXT: Final = Context(cluster_id="benchmark", member_events=True, probing=True)
_START_MS: Final = 1_700_000_000_000
_BATCH: Final = 10_000
_GOES: Final = 3

#: Time, key and value of a record.
_Record = tuple[int, bytes, bytes | None]


def _commit(partition: int, offset: int, at_ms: int) -> _Record:
    key = encode_key(OffsetCommitKey(group="g", topic="t", partition=partition))
    # Version 3: offset, leader epoch, metadata, commit time.
    return at_ms, key, struct.pack(">hqihq", 3, offset, -1, 0, at_ms)


def _removed(partition: int, at_ms: int) -> _Record:
    return at_ms, _commit(partition, 0, 0)[1], None


def progress(count: int) -> Iterator[_Record]:
    """One partition, a commit a millisecond, each higher than the one before."""
    return (_commit(0, number, _START_MS + number) for number in range(count))


def alternating(count: int) -> Iterator[_Record]:
    """One partition, two processes that commit in turn."""
    return (_commit(0, 10_000 * (number % 2), _START_MS + number) for number in range(count))


def alternating_in_one_moment(count: int) -> Iterator[_Record]:
    """The same by a coordinator whose clock stands still."""
    return (_commit(0, 10_000 * (number % 2), _START_MS) for number in range(count))


def alternating_in_1000_partitions(count: int) -> Iterator[_Record]:
    """The same with other partitions in between."""
    return (
        _commit(number % 1_000, 10_000 * (number // 1_000 % 2), _START_MS + number) for number in range(count)
    )


def interrupted(count: int) -> Iterator[_Record]:
    """Commits that go back, each followed by a tombstone of another partition, in one moment."""
    return (
        _removed(1, _START_MS) if number % 2 else _commit(0, 10_000 * (number // 2 % 2), _START_MS)
        for number in range(count)
    )


def tombstones(count: int) -> Iterator[_Record]:
    """A commit and its removal in turn."""
    return (
        _removed(0, _START_MS + number) if number % 2 else _commit(0, number, _START_MS + number)
        for number in range(count)
    )


def tombstones_in_one_moment(count: int) -> Iterator[_Record]:
    """The same by a coordinator whose clock stands still, in 1 000 partitions."""
    return (
        _removed(number // 2 % 1_000, _START_MS)
        if number % 2
        else _commit(number // 2 % 1_000, number, _START_MS)
        for number in range(count)
    )


def expiry(count: int) -> Iterator[_Record]:
    """A clean-up that removes the offsets of many partitions at once."""
    half = count // 2
    for partition in range(half):
        yield _commit(partition, 5, _START_MS)
    for partition in range(half):
        yield _removed(partition, _START_MS + 8 * 86_400_000)


def generations(count: int) -> Iterator[_Record]:
    """A generation of two members a second."""
    key = encode_key(GroupMetadataKey(group="g"))
    for number in range(count):
        value = generation(number % 2**31, member("a", [0]), member("b", [1]), at=1).value
        assert value is not None
        yield _START_MS + 1_000 * number, key, encode_value(value)


def probes(count: int) -> Iterator[Probe]:
    """Answers of a prober, ten seconds apart: a rebalance, and its end."""
    for number in range(count):
        state = "PreparingRebalance" if number % 3 else "Stable"
        yield Probe(
            taken_ms=_START_MS + 10_000 * number,
            state=state,
            topic="group-probes",
            partition=0,
            offset=number,
            broker=1,
            members=(),
            interval_ms=10_000,
            unseen_ms=10_000,
        )


_SHAPES: Final[tuple[Callable[[int], Iterator[_Record]], ...]] = (
    progress,
    alternating,
    alternating_in_one_moment,
    alternating_in_1000_partitions,
    interrupted,
    tombstones,
    tombstones_in_one_moment,
    expiry,
    generations,
)


def _batches(records: list[_Record]) -> Iterator[pa.RecordBatch]:
    types = (pa.int32(), pa.int64(), pa.int64(), pa.binary(), pa.binary())
    for start in range(0, len(records), _BATCH):
        part = records[start : start + _BATCH]
        times, keys, values = zip(*part, strict=True)
        columns = ([0] * len(part), range(start, start + len(part)), times, keys, values)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=list(INPUT_COLUMNS))


def _call(packed: list[bytes]) -> int:
    """The number of rows that a call writes."""
    end_ms = _START_MS + 10**12
    result = advance(GROUP_TAG + b"g", None, packed, now_ms=end_ms, recorded_ms=end_ms, context=_CONTEXT)
    assert result.blob is None or result.blob[:1] != b"\xff", "quarantined"
    return len(result.rows)


def of_records(records: list[_Record]) -> tuple[float, int]:
    """(CPU seconds, rows written) of one batch."""
    batches = list(_batches(records))
    begun = time.process_time()
    packed = [
        blob
        for table in pack(batches)
        for key, blob in zip(table["key"].to_pylist(), table["packed"].to_pylist(), strict=True)
        if key == GROUP_TAG + b"g"
    ]
    rows = _call(packed)
    return time.process_time() - begun, rows


def of_shape(shape: Callable[[int], Iterator[_Record]], count: int) -> tuple[float, int]:
    """The same of so many records of a shape."""
    return of_records(list(shape(count)))


def of_probes(count: int) -> tuple[float, int]:
    """The same for a prober's answers."""
    packed = [to_wire(PackedProbe(one)) for one in probes(count)]
    begun = time.process_time()
    rows = _call(packed)
    return time.process_time() - begun, rows


def main() -> None:
    """Prints the figures."""
    parser = flag_parser(__doc__)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--commits", type=int, default=2_000_000)
    parser.add_argument("--shape", help="only this one")
    parser.add_argument("--page", action="store_true", help="write the figures into docs/performance.md")
    flags = parser.parse_args()
    lines = [
        "| one group, one batch | CPU s | four times as many | ratio | messages |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    measures: dict[str, Callable[[int], tuple[float, int]]] = {
        shape.__name__.replace("_", " "): partial(of_shape, shape) for shape in _SHAPES
    }
    for name, measure in {**measures, "probes": of_probes}.items():
        if flags.shape not in (None, name):
            continue
        few, many = list[float](), list[float]()
        for count, seconds in ((flags.records, few), (4 * flags.records, many)):
            for _ in range(_GOES):
                spent, rows = measure(count)
                seconds.append(spent)
        ratio = min(many) / min(few)
        lines.append(f"| {name} | {min(few):.2f} | {min(many):.2f} | {ratio:.2f} | {rows:,} |")
        show_progress(lines[-1])
    spent, rows = of_records(list(alternating(flags.commits)))
    lines += ["", f"{flags.commits:,} alternating commits: {spent:.1f} s of CPU, {rows} messages."]
    print(*lines, sep="\n")
    if flags.page:
        put("linear", "\n".join(lines))


if __name__ == "__main__":
    main()
