"""Small numbers in few bits, and what is no such code."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.streaming.contract.end_columns import Ints, pack_columns
from groupreplay.streaming.contract.symbol_codes import coded, decoded, next_activity

_NUMBERS = st.one_of(st.integers(0, 3), st.integers(0, 9), st.integers(0, 2**63 - 1))


def packed_size(values: Ints) -> int:
    """Bytes of these numbers, of places that were quiet before."""
    return len(pack_columns(coded(values, np.zeros_like(values))))


@given(st.lists(st.tuples(_NUMBERS, st.integers(0, 112)), max_size=60), st.integers(1, 200))
def test_both_ways(rows: list[tuple[int, int]], times: int) -> None:
    """All numbers from 0 on, of any activity, in one lane or in several."""
    table = np.array(rows * times, np.int64).reshape(-1, 2)
    values, activity = table[:, 0], table[:, 1]
    assert decoded(coded(values, activity), activity).tolist() == values.tolist()


def test_a_number_takes_little_more_than_its_entropy() -> None:
    """That is less than one bit where most are alike, and next to nothing where all are."""
    numbers = np.random.default_rng(2)
    assert packed_size(np.zeros(100_000, np.int64)) < 120
    for share in (0.02, 0.2, 0.6):
        values = (numbers.random(100_000) < share).astype(np.int64)
        entropy = -share * np.log2(share) - (1 - share) * np.log2(1 - share)
        assert packed_size(values) < 1.04 * 100_000 * entropy / 8 + 300


def test_places_of_which_some_are_busy() -> None:
    """What the place has done before tells what it does now: half of the places are quiet, and take next to nothing."""
    numbers = np.random.default_rng(2)
    busy = np.arange(50_000) % 2
    activity = np.zeros(50_000, np.int64)
    for _ in range(40):
        values = busy * numbers.integers(0, 4, 50_000)
        packed = pack_columns(coded(values, activity))
        activity = next_activity(activity, values)
    assert len(packed) < 1.05 * 25_000 * 2 / 8


def test_other_columns() -> None:
    """They raise one error, whatever they are, and so does another activity."""
    values = np.arange(40, dtype=np.int64)
    activity = np.zeros(40, np.int64)
    columns = coded(values, activity)
    none = np.zeros(0, np.int64)
    others = [
        [*columns[:at], changed, *columns[at + 1 :]] for at in range(4) for changed in (none, columns[at] + 1)
    ]
    # The lower bits have no sum that could be wrong: the message has one.
    del others[-1]
    for other in others:
        with pytest.raises(ValueError, match=r"."):
            decoded(other, activity)
    for other_activity in (activity + 50, activity[:-1]):
        with pytest.raises(ValueError, match=r"."):
            decoded(columns, other_activity)
