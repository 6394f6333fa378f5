"""Columns of numbers in few bytes, and what is no such column."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.streaming.contract.end_columns import pack_columns, signed, unpack_columns, unsigned

NUMBERS = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20)


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
