"""Numbers and strings gathered from many values at once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from groupreplay.streaming.engine.packing.binary_columns import (
    BinaryColumn,
    distinct,
    integers,
    is_ascii,
    structures,
)


def column(values: list[bytes | None]) -> BinaryColumn:
    """The values laid open."""
    return BinaryColumn.of(pa.array(values, pa.large_binary()))


def test_values_come_back_as_they_are() -> None:
    """A null stays null and an empty value empty, also in a slice of a larger column."""
    values = [b"ab", None, b"", b"cde"]
    assert [column(values).at(row) for row in range(4)] == values
    sliced = BinaryColumn.of(pa.array([b"zz", *values], pa.large_binary()).slice(1))
    assert [sliced.at(row) for row in range(len(sliced))] == values


def test_integers_are_big_endian_and_may_stand_anywhere() -> None:
    """Unaligned, overlapping, negative, at the very end; none at all is no error."""
    data = np.frombuffer(b"\x00\x01\xff\xff\xff\xfe", np.uint8)
    assert integers(data, np.array([0, 1, 4]), ">i2").tolist() == [1, 511, -2]
    assert integers(data, np.array([2]), ">i4").tolist() == [-2]
    assert integers(np.zeros(0, np.uint8), np.zeros(0, np.int64), ">i8").tolist() == []


def test_structures_are_read_wherever_they_begin() -> None:
    """Evenly spaced ones are a view of the data, the others are gathered; both say the same."""
    data = np.arange(40, dtype=np.uint8)
    dtype = np.dtype([("first", ">i2"), ("second", "u1")])
    even = structures(data, np.arange(1, 38, 6), dtype)
    assert np.shares_memory(even, data)
    odd = structures(data, np.array([1, 7, 13, 19, 25, 31, 36]), dtype)
    assert even.tolist() == [(256 * at + at + 1, at + 2) for at in range(1, 38, 6)]
    assert odd.tolist() == [*even[:6].tolist(), (256 * 36 + 37, 38)]
    falling = structures(data, np.array([9, 3]), dtype)
    assert falling.tolist() == [(256 * 9 + 10, 11), (256 * 3 + 4, 5)]
    assert len(structures(data, np.zeros(0, np.int64), dtype)) == 0


def test_ascii_is_told_string_by_string() -> None:
    """A byte above 127 counts only for the string it is in, also at the end of the data."""
    values = [b"plain", b"caf\xc3\xa9", b"", b"more", b"\x80"]
    opened = column(values)
    expected = [value.isascii() for value in values]
    assert is_ascii(opened.data, opened.start, opened.end - opened.start).tolist() == expected
    inner = is_ascii(opened.data, opened.start[:2], np.array([5, 3]))
    assert inner.tolist() == [True, True]


def test_distinct_strings_keep_the_order_of_their_first_sight() -> None:
    """Each string is numbered; the numbers are dense and follow the column."""
    opened = column([b"b", b"a", b"b", b"", b"a"])
    names, which = distinct(opened.data, opened.start, opened.end - opened.start)
    assert (names, which.tolist()) == ([b"b", b"a", b""], [0, 1, 0, 2, 1])
    assert distinct(opened.data, np.zeros(0, np.int64), np.zeros(0, np.int64))[0] == []
