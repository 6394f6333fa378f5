"""The limits of times in records."""

from __future__ import annotations

import numpy as np
import pytest

from groupreplay.state.plausible_times import (
    LATEST_MS,
    TOLERANCE_MS,
    implausible,
    limit_ms,
    limits_ms,
    written_ms,
)

NOW_MS = 1_700_000_000_000
FAR_MS = LATEST_MS - TOLERANCE_MS


@pytest.mark.parametrize(
    ("caught_up_ms", "expected_ms"),
    [
        (NOW_MS, NOW_MS + 86_400_000),
        (0, LATEST_MS),
        (FAR_MS - 1, LATEST_MS - 1),
        (FAR_MS + 1, LATEST_MS),
        (2**63 - 1, LATEST_MS),
        (-1, LATEST_MS),
    ],
)
def test_a_day_after_the_caught_up_time(caught_up_ms: int, expected_ms: int) -> None:
    """Where none is known, and for a caught-up time of another century, the year 2100; the same for one and many."""
    assert limit_ms(caught_up_ms) == expected_ms
    assert limits_ms(np.array([caught_up_ms, NOW_MS])).tolist() == [expected_ms, NOW_MS + 86_400_000]


def test_why_a_time_cannot_be() -> None:
    """The text tells whether there is a caught-up time, and not which: a replay knows it to five minutes."""
    assert [implausible(-5, NOW_MS), implausible(2**60, 0), implausible(2**60, NOW_MS)] == [
        "is below zero",
        "is after the year 2100",
        "is more than a day after the record had been read",
    ]


def test_a_time_inside_a_record() -> None:
    """It is not later than the record; below zero there is none."""
    assert [written_ms(one, 1_000) for one in (-(2**63), -1, 0, 999, 1_001, 2**63 - 1)] == [
        None,
        None,
        0,
        999,
        1_000,
        1_000,
    ]
