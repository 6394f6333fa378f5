"""The order of rows by whole numbers is that of a stable sort, for every size of number."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from groupreplay.app.inspection.capture_files.row_order import ascending, taken


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
