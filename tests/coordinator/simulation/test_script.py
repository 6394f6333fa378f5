"""Values of a script that are drawn from random numbers."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from groupreplay.coordinator.simulation.script import (
    MINUTE_MS,
    SECOND_MS,
    About,
    Between,
    Number,
    OneOf,
    ShareOfTime,
    Time,
    drawn,
    least_time_ms,
    numbers_of,
    time_ms,
    whole_number,
)

NUMBERS = range(400)


def values(draw: Number) -> set[int]:
    """Every number that comes in many draws."""
    return {whole_number(random.Random(seed), draw) for seed in NUMBERS}


def times(draw: Time, **fields: int) -> tuple[int, int]:
    """The least and the largest time of many draws."""
    draws_ms = [time_ms(random.Random(seed), draw, **fields) for seed in NUMBERS]
    return min(draws_ms), max(draws_ms)


def test_numbers() -> None:
    """Both ends of a range are included; a weight of 0 excludes a number."""
    assert values(7) == {7}
    assert values(Between(2, 4)) == {2, 3, 4}
    assert values(OneOf((3, 6, 12), (1, 0, 1))) == {3, 12}
    ends = [numbers_of(draw) for draw in (7, Between(2, 4), OneOf((3, 12)))]
    assert ends == [(7,), (2, 4), (3, 12)]


def test_choices() -> None:
    """A value that is no choice is itself."""
    assert drawn(random.Random(0), "a") == "a"
    assert {drawn(random.Random(seed), OneOf(("a", "b"))) for seed in NUMBERS} == {"a", "b"}


@pytest.mark.parametrize(
    ("draw", "least", "most"),
    [
        (Between(1_000, 3_000), 1_000, 3_000),
        (Between(2_000, 2_000), 2_000, 2_000),
        (About(2 * MINUTE_MS), 60_000, 180_000),
        (About(2 * MINUTE_MS, SECOND_MS), 60_000, 180_000),
        (About(2 * MINUTE_MS, MINUTE_MS), 150_000, 450_000),
    ],
)
def test_times(draw: Time, least: int, most: int) -> None:
    """Within their bounds, and close to both ends."""
    shortest, longest = times(draw, members=5)
    assert least <= shortest <= least + (most - least) // 20
    assert most - (most - least) // 20 <= longest <= most
    assert least_time_ms(draw) <= least


def test_fixed_times_and_shares() -> None:
    """A share is one of the whole time, but not less than its least time."""
    assert times(7) == (7, 7)
    share = ShareOfTime(0.25, 20 * SECOND_MS)
    assert times(share, duration_ms=1_000_000) == (250_000, 250_000)
    assert times(share, duration_ms=1_000) == (20_000, 20_000)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Between(2, 1),
        lambda: OneOf(()),
        *(
            (lambda weights=weights: OneOf((1, 2), weights))
            for weights in ((1,), (0, 0), (-1, 2), (math.inf, 1), (math.nan, 1), (1e308, 1e308))
        ),
    ],
)
def test_draws_that_cannot_be(make: Callable[[], object]) -> None:
    """A range that is reversed, nothing to choose from, weights that are no shares of anything."""
    with pytest.raises(ValueError, match=r"more than most|weights are as many numbers"):
        make()
