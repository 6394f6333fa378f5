"""Values drawn from random numbers."""

from __future__ import annotations

import random

import pytest

from groupreplay.coordinator.simulation import draws
from groupreplay.coordinator.simulation.scenario_file import Choice, NumberDraw, TimeDraw

NUMBERS = range(400)


def values(draw: NumberDraw) -> set[int]:
    """Every number that comes in many draws."""
    return {draws.number(random.Random(seed), draw) for seed in NUMBERS}


def times(draw: TimeDraw, **fields: int) -> tuple[int, int]:
    """The least and the largest time of many draws."""
    found = [draws.time_ms(random.Random(seed), draw, **fields) for seed in NUMBERS]
    return min(found), max(found)


def test_numbers() -> None:
    """Both ends of a range are included; a weight of 0 excludes a number."""
    assert draws.number(random.Random(0), 7) == 7
    assert values(NumberDraw(from_=2, to=4)) == {2, 3, 4}
    assert values(NumberDraw(one_of=(3, 6, 12), weights=(1, 0, 1))) == {3, 12}


def test_choices() -> None:
    """A value that is no choice is itself."""
    assert draws.drawn(random.Random(0), "a") == "a"
    assert {draws.drawn(random.Random(seed), Choice(one_of=("a", "b"))) for seed in NUMBERS} == {"a", "b"}


@pytest.mark.parametrize(
    ("draw", "least", "most"),
    [
        (TimeDraw(from_="1s", to="3s"), 1_000, 3_000),
        (TimeDraw(from_="2s", to="2s"), 2_000, 2_000),
        (TimeDraw(about="2m"), 60_000, 180_000),
        (TimeDraw(about="2m", or_per_member="1s"), 60_000, 180_000),
        (TimeDraw(about="2m", or_per_member="1m"), 150_000, 450_000),
    ],
)
def test_times(draw: TimeDraw, least: int, most: int) -> None:
    """Within their bounds, and close to both ends."""
    found = times(draw, members=5)
    assert least <= found[0] <= least + (most - least) // 20
    assert most - (most - least) // 20 <= found[1] <= most


def test_fixed_times_and_shares() -> None:
    """Every unit; a share is one of the whole time, but not less than its least time."""
    units = {"7ms": 7, "7s": 7_000, "7m": 420_000, "7h": 25_200_000, "7d": 604_800_000}
    assert {text: draws.time_ms(random.Random(0), text) for text in units} == units
    share = TimeDraw(share=0.25, at_least="20s")
    assert times(share, duration_ms=1_000_000) == (250_000, 250_000)
    assert times(share, duration_ms=1_000) == (20_000, 20_000)
