"""Likely ranges of sums: they hold what is drawn, and are inside of what is proven."""

from __future__ import annotations

import random
from itertools import product

import pytest

from groupreplay.timeline.likely.sums import LikelySum, Part, likely_count, likely_sum, together


def test_a_sum_grows_with_the_root_of_its_parts() -> None:
    """Of 100 stops of 0 to 3 s the worst bounds are 300 s apart, the likely range is 40 s wide."""
    stops = [Part.evenly(0, 3_000)] * 100
    assert likely_sum(stops, [], (0, None)) == LikelySum(
        least=129_854, most=170_146, mean=150_000, deviation=8_660
    )
    assert likely_sum(stops[:1], [], (0, None)) == LikelySum(least=0, most=3_000, mean=1_500, deviation=866)


def test_what_has_bounds_only_counts_with_both() -> None:
    """A part without an upper bound leaves nothing to infer, as parts do of which none is known."""
    known = [Part.exactly(1_000)]
    assert likely_sum(known, [(0, 500), (-200, 0)], (0, 9_000)) == LikelySum(800, 1_500, 1_000, 0)
    assert likely_sum(known, [(0, None)], (0, None)) is None
    assert likely_sum([], [(0, 500)], (0, 500)) is None


def test_a_range_is_inside_of_the_proven_one() -> None:
    """Both ends, also where what is proven is elsewhere."""
    stops = [Part.evenly(0, 3_000)] * 4
    for proven in ((2_000, 8_000), (0, 1_000), (13_000, 14_000)):
        likely = likely_sum(stops, [], proven)
        assert likely is not None
        assert proven[0] <= likely.least <= likely.most <= proven[1]


def test_the_difference() -> None:
    """The variances of independent parts add up."""
    one, other = Part.evenly(0, 12), Part.evenly(0, 24)
    assert other - one == Part(mean=6, variance=60, least=-12, most=24)


@pytest.mark.parametrize(("limit", "chance"), [(-1, 0), (0, 0), (50, 0.5), (100, 0.9584), (101, 1)])
def test_how_likely_a_part_is_below_a_limit(limit: float, chance: float) -> None:
    """Surely outside of its bounds; by the normal distribution inside."""
    assert Part.evenly(0, 100).chance_below(limit) == pytest.approx(chance, abs=1e-4)


def test_a_sum_of_ranges() -> None:
    """The likely range of a sum is that of its parts' ranges, as if these had been one sum."""
    stops = [Part.evenly(0, 3_000)] * 64
    whole, half = likely_sum(stops, [], (0, None)), likely_sum(stops[:32], [], (0, None))
    assert whole is not None
    assert half is not None
    again = likely_sum([Part.of_range(half.least, half.most)] * 2, [], (0, None))
    assert again is not None
    assert (again.least, again.most) == pytest.approx((whole.least, whole.most), abs=2)


@pytest.mark.parametrize("seed", range(20))
def test_the_range_of_a_sum_is_that_of_draws(seed: int) -> None:
    """Random stops, of which some are there by chance: 98 of 100 sums are within, and at most one more."""
    numbers = random.Random(seed)
    units = [_unit(numbers) for _ in range(numbers.randint(8, 40))]
    parts = [together([Part.evenly(*bounds) for bounds in stops], chances) for stops, chances in units]
    least, most = sum(part.least for part in parts), sum(part.most for part in parts)
    likely = likely_sum(parts, [], (int(least), int(most) + 1))
    assert likely is not None
    assert int(least) <= likely.least <= likely.most <= int(most) + 1
    sums = [sum(_drawn(numbers, *unit) for unit in units) for _ in range(3_000)]
    inside = sum(likely.least <= each <= likely.most for each in sums) / len(sums)
    assert 0.965 <= inside <= 0.995
    assert sum(sums) / len(sums) == pytest.approx(likely.mean, rel=0.02)


def _unit(numbers: random.Random) -> tuple[list[tuple[float, float]], list[float]]:
    """One or two stops with their bounds, and the chances that they are there."""
    stops = [
        (low := numbers.uniform(0, 3_000), low + numbers.uniform(0, 3_000))
        for _ in range(numbers.randint(1, 2))
    ]
    return stops, [numbers.choice((1.0, 1.0, numbers.random())) for _ in stops]


def _drawn(numbers: random.Random, stops: list[tuple[float, float]], chances: list[float]) -> float:
    """One draw decides for all stops of a unit."""
    drawn = numbers.random()
    return sum(numbers.uniform(*stop) for stop, chance in zip(stops, chances, strict=True) if drawn < chance)


@pytest.mark.parametrize("seed", range(10))
def test_the_range_of_a_count_has_all_but_rare_counts(seed: int) -> None:
    """All ways in which restarts may have been, each with its chance: one in 100 is below, and one above at most."""
    numbers = random.Random(seed)
    units = [[numbers.random() for _ in range(numbers.randint(1, 2))] for _ in range(numbers.randint(1, 6))]
    least, most = likely_count(units, [], (0, 12))
    below = above = 0.0
    for way in product(*(range(len(unit) + 1) for unit in units)):
        chance, count = 1.0, sum(way)
        for there, unit in zip(way, units, strict=True):
            steps = [1.0, *sorted(unit, reverse=True), 0.0]
            chance *= steps[there] - steps[there + 1]
        below, above = below + chance * (count < least), above + chance * (count > most)
    assert below < 0.01
    assert above <= 0.01 + 1e-9


def test_a_count_of_what_is_not_known() -> None:
    """What is there for certain, what nobody knows, and what is not there."""
    assert likely_count([[1.0], [1.0, 1.0], [0.0]], [(0, 2)], (0, 9)) == (3, 5)
    assert likely_count([[1.0], [1.0, 1.0], [0.0]], [(0, 2)], (4, 4)) == (4, 4)
    # Two that depend: both or none.
    assert likely_count([[0.5, 0.5]], [], (0, 2)) == (0, 2)
