"""Partitions as ranges and back."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.state.snapshot.partitions import by_topic, each, from_ranges, keys_of, to_ranges


def test_ranges_are_short_and_sorted() -> None:
    """Neighbours become a range, repeats vanish, nothing is an empty text."""
    assert to_ranges([7, 0, 2, 1, 3, 3]) == "0-3,7"
    assert to_ranges([]) == ""


@given(st.sets(st.integers(0, 2**31 - 1), max_size=50))
def test_ranges_come_back(partitions: set[int]) -> None:
    """``from_ranges`` is the inverse of ``to_ranges``."""
    assert from_ranges(to_ranges(partitions)) == sorted(partitions)


def test_each_and_by_topic_are_inverse() -> None:
    """Pairs to ranges by topic and back; None holds nothing."""
    assert by_topic([("b", 1), ("a", 0), ("b", 0)]) == {"a": "0", "b": "0-1"}
    assert sorted(each({"a": "0", "b": "0-1"})) == [("a", 0), ("b", 0), ("b", 1)]
    assert list(each(None)) == []


@given(st.lists(st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1)), max_size=20))
def test_keys_sort_as_their_pairs(pairs: list[tuple[int, int]]) -> None:
    """One number for topic and partition has the order of both."""
    topics, partitions = (np.array([pair[place] for pair in pairs], np.int32) for place in (0, 1))
    order = np.argsort(keys_of(topics, partitions), kind="stable").tolist()
    assert [pairs[place] for place in order] == sorted(pairs)
