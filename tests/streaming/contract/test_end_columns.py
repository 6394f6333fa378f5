"""Columns of numbers in few bytes, and what is no such column."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.streaming.contract.end_columns import (
    EndChanges,
    EndsTable,
    pack_columns,
    signed,
    unpack_columns,
    unsigned,
)

NUMBERS = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20)
STEPS = st.dictionaries(st.integers(0, 30), st.integers(-(2**40), 2**40), max_size=20)


@given(st.lists(NUMBERS, max_size=5))
def test_both_ways(columns: list[list[int]]) -> None:
    """All numbers; as unsigned ones, those near 0 are small."""
    arrays = [np.array(column, np.int64) for column in columns]
    packed = pack_columns(arrays)
    assert [column.tolist() for column in unpack_columns(packed, len(columns))] == columns
    assert [signed(unsigned(column)).tolist() for column in arrays] == columns
    assert unsigned(np.array([0, -1, 1, -2, 2])).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"x",
        pack_columns([np.array([1, 2])])[:-1],
        zlib.compress(b""),
        zlib.compress(b"\xff\xff\xff\xff\x08"),
        zlib.compress(b"\x01\x00\x00\x00\x09" + bytes(9)),
        zlib.compress(b"\x02\x00\x00\x00\x01\x00"),
    ],
)
def test_other_bytes(packed: bytes) -> None:
    """They raise one error; no memory is taken for what is not there."""
    with pytest.raises(ValueError, match=r"."):
        unpack_columns(packed, 1)


@given(st.lists(STEPS, max_size=6), st.booleans())
def test_changes_both_ways(rounds: list[dict[int, int]], alone: bool) -> None:
    """Two tables that get the same changes are the same, whichever way was the shortest."""
    writer, reader = EndsTable(), EndsTable()
    for table in (writer, reader):
        table.grow(31)
    for steps in rounds:
        places = np.array(sorted(steps), np.int64)
        values = np.array([steps[place] for place in sorted(steps)], np.int64)
        shifts = abs(values) % 5
        changes = EndChanges(
            places, values, places, values, places, abs(values), places, shifts, places, values
        )
        packed, _ = writer.packed(changes, alone=alone)
        writer.apply(changes)
        reader.apply(reader.unpacked(packed))
        for name in ("end", "more", "start", "waiting", "shift", "epoch", "places"):
            assert getattr(reader, name).tolist() == getattr(writer, name).tolist()


def test_what_changes_again_takes_few_bytes() -> None:
    """A partition that grows evenly takes a fraction of a byte, one that does not a byte or two."""
    table = EndsTable()
    table.grow(10_000)
    every = np.arange(10_000)
    numbers = np.random.default_rng(1)
    rates = numbers.integers(100, 200, 10_000)
    sizes = []
    for steps in (rates, rates, numbers.integers(0, 200, 10_000)):
        changes = EndChanges(every, steps)
        packed, _ = table.packed(changes)
        table.apply(changes)
        sizes.append(len(packed))
    assert sizes[0] > 8_000
    assert sizes[1] < 200
    assert sizes[2] < 12_000


def test_changes_of_another_table() -> None:
    """Places that the table does not have, and columns that do not belong together, are no changes."""
    table, small = EndsTable(), EndsTable()
    table.grow(9)
    small.grow(3)
    packed, _ = table.packed(EndChanges(np.array([7]), np.array([1])))
    with pytest.raises(ValueError, match="places"):
        small.unpacked(packed)
    none = np.zeros(0, np.int64)
    with pytest.raises(ValueError, match="belong together"):
        table.unpacked(pack_columns([np.zeros(2, np.int64), np.array([1]), *[none] * 9]))
