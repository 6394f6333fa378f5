"""The likely range of a sum: where 98 of 100 sums are whose parts are drawn as they are known.

Each part has its mean and variance. The parts are independent, so that the means and the variances add up, and the sum
is nearly normal: its range grows with the square root of their number, that of the worst bounds with the number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import erf, inf, sqrt
from typing import Final

#: One of 100 sums is below the range, and one above it: the normal distribution has so many standard deviations there.
OUTSIDE: Final = 0.01
_DEVIATIONS: Final = 2.3263
#: At least and at most; None: no bound is known.
Bounds = tuple[int, int | None]


@dataclass(frozen=True, slots=True)
class Part:
    """An independent part of a sum. ``least`` and ``most``: it is never outside."""

    mean: float
    variance: float
    least: float
    most: float

    @classmethod
    def evenly(cls, least: float, most: float) -> Part:
        """A number between two others, each as likely as another."""
        return cls((least + most) / 2, (most - least) ** 2 / 12, least, most)

    @classmethod
    def exactly(cls, number: float) -> Part:
        """A number that is known."""
        return cls(number, 0, number, number)

    @classmethod
    def of_range(cls, least: float, most: float) -> Part:
        """A sum of which the likely range is known."""
        deviation = (most - least) / (2 * _DEVIATIONS)
        return cls((least + most) / 2, deviation**2, -inf, inf)

    def __sub__(self, other: Part) -> Part:
        """The difference to an independent one."""
        variance = self.variance + other.variance
        return Part(self.mean - other.mean, variance, self.least - other.most, self.most - other.least)

    def chance_below(self, limit: float) -> float:
        """How likely the part is less than a limit."""
        if limit <= self.least or limit > self.most:
            return float(limit > self.most)
        if not self.variance:
            return 1.0
        return (1 + erf((limit - self.mean) / sqrt(2 * self.variance))) / 2


def together(parts: Sequence[Part], chances: Sequence[float]) -> Part:
    """Parts that are there by the same chance: one with a lower chance never without those of a higher one."""
    ordered = sorted(zip(parts, chances, strict=True), key=lambda pair: -pair[1])
    steps = [1.0, *(chance for _, chance in ordered), 0.0]
    # How likely it is that exactly the first 0, 1, 2, ... are there.
    weights = [before - after for before, after in pairwise(steps)]
    sums, mean, variance = [(0.0, 0.0)], 0.0, 0.0
    for part, _ in ordered:
        mean, variance = mean + part.mean, variance + part.variance
        sums.append((mean, variance))
    whole = sum(weight * mean for weight, (mean, _) in zip(weights, sums, strict=True))
    square = sum(weight * (var + mean**2) for weight, (mean, var) in zip(weights, sums, strict=True))
    surely = [part.least for part, chance in ordered if chance >= 1]
    perhaps = [part.most for part, chance in ordered if chance > 0]
    return Part(whole, max(square - whole**2, 0.0), sum(surely), sum(perhaps))


@dataclass(frozen=True, slots=True)
class LikelySum:
    """The likely range of a sum; ``mean`` and ``deviation`` (a standard one) of its known parts."""

    least: int
    most: int
    mean: int
    deviation: int


def likely_sum(parts: Iterable[Part], rest: Iterable[Bounds], proven: Bounds) -> LikelySum | None:
    """The likely range of a sum within its proven bounds; ``rest``: parts of which only bounds are known.

    None: all are such, or one of them has no upper bound, so that nothing is inferred.
    """
    known, others = [*parts], [*rest]
    if not known or any(most is None for _, most in others):
        return None
    mean = sum(part.mean for part in known)
    deviation = sqrt(sum(part.variance for part in known))
    within = _DEVIATIONS * deviation
    least = max(mean - within, sum(part.least for part in known)) + sum(low for low, _ in others)
    most = min(mean + within, sum(part.most for part in known)) + sum(high or 0 for _, high in others)
    return LikelySum(*_within((round(least), round(most)), proven), round(mean), round(deviation))


def likely_count(
    chances: Iterable[Sequence[float]], rest: Iterable[Bounds], proven: Bounds
) -> tuple[int, int]:
    """The likely number of things that are there by chance; those of one inner sequence depend as in ``together``."""
    shares = [1.0]
    for of_one in chances:
        steps = [1.0, *sorted(of_one, reverse=True), 0.0]
        shares = _convolved(shares, [before - after for before, after in pairwise(steps)])
    others = [*rest]
    least = _quantile(shares, OUTSIDE) + sum(low for low, _ in others)
    most = _quantile(shares, 1 - OUTSIDE) + sum(high or 0 for _, high in others)
    return _within((least, most), proven)


def _convolved(first: Sequence[float], second: Sequence[float]) -> list[float]:
    made = [0.0] * (len(first) + len(second) - 1)
    for number, share in enumerate(first):
        for other, of_it in enumerate(second):
            made[number + other] += share * of_it
    return made


def _quantile(shares: Sequence[float], part: float) -> int:
    """The least number that is not exceeded with this probability."""
    total = 0.0
    for number, share in enumerate(shares):
        total += share
        # Sums of binary fractions are a little beside their value.
        if total >= part - 1e-9:
            return number
    return len(shares) - 1


def _within(likely: tuple[int, int], proven: Bounds) -> tuple[int, int]:
    least, most = (max(each, proven[0]) for each in likely)
    return (least, most) if proven[1] is None else (min(least, proven[1]), min(most, proven[1]))
