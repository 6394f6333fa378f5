"""Rows in any order are sorted with bounded memory, as a stable sort would sort them."""

from __future__ import annotations

import errno
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.sources import sorted_blocks as module
from groupreplay.streaming.sources.capture_columns import UNSORTED_SCHEMA
from groupreplay.streaming.sources.sorted_blocks import (
    Block,
    LogPlace,
    ascending,
    in_order,
    merged,
    sorted_blocks,
    taken,
)
from support.histories.raw_records import Raw
from support.job.captures import rows_batch
from support.remedies import read_remedy


@pytest.mark.parametrize("bits", [1, 15, 16, 17, 32, 33, 48, 49, 62])
@pytest.mark.parametrize("low", [0, -5, 1 << 40])
def test_as_a_stable_sort(bits: int, low: int) -> None:
    """With one digit and more, with equal values, and beyond the digits that are sorted one by one."""
    chance = np.random.default_rng(bits)
    for most in (1 << bits, 3):
        values = low + chance.integers(0, most, 500)
        assert ascending(values).tolist() == np.argsort(values, kind="stable").tolist()


def test_the_ends_of_the_range() -> None:
    """No row, one row, and values whose distance is no 64-bit number."""
    assert ascending(np.zeros(0, np.int64)).tolist() == []
    assert ascending(np.array([7])).tolist() == [0]
    assert ascending(np.array([2**63 - 1, -(2**63), 0])).tolist() == [1, 2, 0]


def test_rows_are_taken_in_one_chunk() -> None:
    """From several chunks, and from every other of a list of rows."""
    table = pa.concat_tables([pa.table({"a": [1, 2], "b": [b"x", None]}), pa.table({"a": [3], "b": [b"z"]})])
    found = taken(table, np.array([2, 9, 1, 9])[::2])
    assert found.to_pydict() == {"a": [3, 2], "b": [b"z", None]}
    assert found["b"].num_chunks == 1


def table(offsets: list[int]) -> pa.Table:
    """Rows at these offsets of one partition."""
    return pa.Table.from_batches([rows_batch([Raw(0, offset, offset, b"k", b"v") for offset in offsets])])


def block(offsets: list[int], read: list[int] | None = None) -> Block:
    """A block of these rows; ``read`` gets its first offset when it is read."""

    def rows() -> pa.Table:
        if read is not None:
            read.append(min(offsets))
        return table(offsets)

    return Block(min(offsets), max(offsets), rows)


def offsets_of(found: list[pa.Table]) -> list[int]:
    """The offsets of all tables, in their order."""
    return [offset for one in found for offset in one["offset"].to_pylist()]


@pytest.mark.parametrize("limits", [(1, 1), (3, 1), (1, 300), (10**6, 10**9)])
def test_any_overlap(monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int]) -> None:
    """Random blocks, shuffled inside, with repeated rows: every offset once and ascending, whatever the limits."""
    monkeypatch.setattr(module, "BATCH_ROWS", limits[0])
    monkeypatch.setattr(module, "_MERGE_BYTES", limits[1])
    for seed in range(60):
        chance = random.Random(seed)
        wide = chance.choice([5, 40, 400])
        parts = [chance.choices(range(wide), k=chance.randint(1, 12)) for _ in range(chance.randint(1, 20))]
        found = list(merged([block(part) for part in parts]))
        assert offsets_of(found) == sorted({offset for part in parts for offset in part}), seed
        assert all(one.num_rows for one in found), seed


def test_blocks_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block is read when those before it have been passed on."""
    monkeypatch.setattr(module, "BATCH_ROWS", 1)
    read: list[int] = []
    found = merged([block([start, start + 1], read) for start in (40, 0, 20)])
    assert [(one["offset"].to_pylist(), list(read)) for one in found] == [
        ([0, 1], [0]),
        ([20, 21], [0, 20]),
        ([40, 41], [0, 20, 40]),
    ]


def test_long_overlaps_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that overlap in a chain do not pile up: what is complete leaves before the end is read."""
    monkeypatch.setattr(module, "_MERGE_BYTES", 1)
    read: list[int] = []
    chain = [block(list(range(start, start + 15)), read) for start in range(0, 1_000, 10)]
    first = next(merged(chain))
    assert first["offset"][0].as_py() == 0
    assert len(read) < 5


def test_rows_in_order() -> None:
    """Rows that are in order are not touched; the first of equal ones is kept."""
    assert in_order([table([1, 2, 5])])["offset"].to_pylist() == [1, 2, 5]
    assert in_order([table([5, 1]), table([2, 5, 5])])["offset"].to_pylist() == [1, 2, 5]
    assert in_order([table([7])])["offset"].to_pylist() == [7]


TOPICS = ("log", "probes")


def tables(places: list[tuple[str, int, int]], size: int) -> Iterator[pa.Table]:
    """Rows at these places (topic, partition, offset), so many at once."""
    for start in range(0, len(places), size):
        batches = [
            rows_batch([Raw(partition, offset, offset, bytes(partition), f"{offset}".encode())], topic)
            for topic, partition, offset in places[start : start + size]
        ]
        yield pa.Table.from_batches(batches).cast(UNSORTED_SCHEMA)


def sorted_offsets(places: list[tuple[str, int, int]], size: int, **limits: int) -> dict[LogPlace, list[int]]:
    """The offsets of each partition, after their rows were compared with what was written."""
    found = dict[LogPlace, list[int]]()
    for place, blocks in sorted_blocks(tables(places, size), **limits).items():
        for table in merged(blocks):
            for row in table.to_pylist():
                assert (row["topic"], row["partition"]) == place
                assert (row["key"], row["value"]) == (bytes(place[1]), f"{row['offset']}".encode())
                found.setdefault(place, []).append(row["offset"])
    return found


@pytest.mark.parametrize("chunk_bytes", [1, 900, 10**9])
@pytest.mark.parametrize("order", ["none", "partitions", "time"])
@pytest.mark.parametrize("spread", [1, 1 << 55])
def test_every_row_once(monkeypatch: pytest.MonkeyPatch, chunk_bytes: int, order: str, spread: int) -> None:
    """In memory and through the file; in any order, and with offsets too far apart for one number."""
    monkeypatch.setattr(module, "_BLOCK_BYTES", 200)
    monkeypatch.setattr(module, "_LONG_RUN", 4)
    chance = random.Random(1)
    places = [(chance.choice(TOPICS), chance.randrange(5), chance.randrange(50) * spread) for _ in range(300)]
    if order != "none":
        places.sort(key=lambda place: place if order == "partitions" else place[2])
    wanted = dict[LogPlace, set[int]]()
    for topic, partition, offset in places:
        wanted.setdefault((topic, partition), set()).add(offset)
    found = sorted_offsets(places, 40, chunk_bytes=chunk_bytes)
    assert found == {place: sorted(offsets) for place, offsets in wanted.items()}


def test_no_rows() -> None:
    """Neither no table nor an empty one is an error."""
    assert sorted_blocks([]) == {}
    assert sorted_blocks([UNSORTED_SCHEMA.empty_table()]) == {}


def test_small_input_makes_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what does not fit into memory is written to the disk."""
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: pytest.fail("a file was made"))
    assert sorted_offsets([("log", 0, 1), ("log", 0, 0)], 1) == {("log", 0): [0, 1]}


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says where the space is missing; with another folder in TMPDIR the records are sorted."""
    make = tempfile.TemporaryFile

    def full(**_: Any) -> Any:
        if tempfile.gettempdir() == str(tmp_path):
            return make()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(GroupReplayError) as refused:
        sorted_blocks(tables([("log", 0, 1)], 1), chunk_bytes=1)
    assert (refused.value.what, refused.value.where, refused.value.exit_code) == (
        "the records cannot be sorted, No space left on device",
        tempfile.gettempdir(),
        ExitCode.USAGE,
    )
    read_remedy("streaming.sources.sorted_blocks: name a folder", str(refused.value))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    # As in a new process.
    monkeypatch.setattr(tempfile, "tempdir", None)
    assert list(sorted_blocks(tables([("log", 0, 1)], 1), chunk_bytes=1)) == [("log", 0)]
