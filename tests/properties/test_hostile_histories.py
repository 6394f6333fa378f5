"""Hostile histories quarantine no group, and every call ends soon with a bounded state."""

from __future__ import annotations

import pytest

from support.tools.hostile import history
from support.tools.survival import Readers, Survivor, harm


@pytest.mark.parametrize(
    "first", [pytest.param(first, marks=[pytest.mark.long] * (first >= 150)) for first in range(0, 500, 50)]
)
def test_nothing_hostile_harms(first: int) -> None:
    """Extreme numbers, times, partitions, timeouts, ids and orders, in batches, with a restored state for each call.

    What comes out can be described, is valid by its schema, has a line on the terminal and becomes metrics.
    """
    readers = Readers()
    for seed in range(first, first + 50):
        survivor = Survivor()
        survivor.live(history(seed))
        assert harm(survivor) == [], seed
        readers.read(survivor)
