"""Blocks are merged in the order of offsets, without reading ahead more than overlaps."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from groupreplay.app.inspection.capture_files import blocks
from groupreplay.app.inspection.capture_files.blocks import Block, in_order, merged
from support.histories.raw_records import Raw
from support.job.captures import rows_batch


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
    monkeypatch.setattr(blocks, "BATCH_ROWS", limits[0])
    monkeypatch.setattr(blocks, "_MERGE_BYTES", limits[1])
    for seed in range(60):
        chance = random.Random(seed)
        wide = chance.choice([5, 40, 400])
        parts = [chance.choices(range(wide), k=chance.randint(1, 12)) for _ in range(chance.randint(1, 20))]
        found = list(merged([block(part) for part in parts]))
        assert offsets_of(found) == sorted({offset for part in parts for offset in part}), seed
        assert all(one.num_rows for one in found), seed


def test_blocks_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block is read when those before it have been passed on."""
    monkeypatch.setattr(blocks, "BATCH_ROWS", 1)
    read: list[int] = []
    found = merged([block([start, start + 1], read) for start in (40, 0, 20)])
    assert [(one["offset"].to_pylist(), list(read)) for one in found] == [
        ([0, 1], [0]),
        ([20, 21], [0, 20]),
        ([40, 41], [0, 20, 40]),
    ]


def test_long_overlaps_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that overlap in a chain do not pile up: what is complete leaves before the end is read."""
    monkeypatch.setattr(blocks, "_MERGE_BYTES", 1)
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
