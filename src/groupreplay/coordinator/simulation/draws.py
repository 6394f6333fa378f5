"""Values that are drawn for each group or each occurrence; equal random numbers give equal values."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

_V = TypeVar("_V")


@dataclass(frozen=True, slots=True)
class OneOf(Generic[_V]):
    """One of several values; without ``weights`` all have the same chance. Raises ValueError for other weights."""

    values: tuple[_V, ...]
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        # Not only NaN and infinity: the sum of large weights may be infinite.
        fit = len(self.weights) == len(self.values) and all(weight >= 0 for weight in self.weights)
        if not self.values or (self.weights and not (fit and 0 < sum(self.weights) < math.inf)):
            raise ValueError("one of several values: weights are as many numbers, finite and not all 0")

    def draw(self, numbers: random.Random) -> _V:
        """One of the values."""
        return numbers.choices(self.values, self.weights or None)[0]


@dataclass(frozen=True, slots=True)
class Between:
    """A whole number or a time from ``least`` to ``most``, both inclusive. Raises ValueError if they are reversed."""

    least: int
    most: int

    def __post_init__(self) -> None:
        if self.least > self.most:
            raise ValueError(f"least = {self.least} is more than most = {self.most}")

    def draw(self, numbers: random.Random) -> int:
        """One of the numbers."""
        return numbers.randint(self.least, self.most)


@dataclass(frozen=True, slots=True)
class About:
    """A time from half of ``time_ms`` to one and a half; ``per_member_ms`` makes it longer for large groups."""

    time_ms: int
    per_member_ms: int = 0


@dataclass(frozen=True, slots=True)
class ShareOfTime:
    """A share of the simulated time, but not less than ``at_least_ms``."""

    share: float
    at_least_ms: int = 0


Number: TypeAlias = int | Between | OneOf[int]
Time: TypeAlias = int | Between | About | ShareOfTime


def drawn(numbers: random.Random, value: _V | OneOf[_V]) -> _V:
    """A value that may be one of several."""
    return value.draw(numbers) if isinstance(value, OneOf) else value


def whole_number(numbers: random.Random, value: Number) -> int:
    """A number that may be drawn."""
    return value if isinstance(value, int) else value.draw(numbers)


def numbers_of(value: Number) -> tuple[int, ...]:
    """The numbers that may be drawn; of a range its two ends."""
    if isinstance(value, OneOf):
        return value.values
    return (value.least, value.most) if isinstance(value, Between) else (value,)


def time_ms(numbers: random.Random, value: Time, *, duration_ms: int = 0, members: int = 0) -> int:
    """A time in milliseconds; a share is one of ``duration_ms``."""
    if isinstance(value, ShareOfTime):
        return max(int(duration_ms * value.share), value.at_least_ms)
    if isinstance(value, About):
        about_ms = max(value.time_ms, members * value.per_member_ms)
        return numbers.randrange(about_ms // 2, about_ms * 3 // 2 + 1)
    return whole_number(numbers, value)


def least_time_ms(value: Time) -> int:
    """The shortest time that may be drawn, in milliseconds; of a share 0."""
    if isinstance(value, About):
        return value.time_ms // 2
    return 0 if isinstance(value, ShareOfTime) else min(numbers_of(value))
