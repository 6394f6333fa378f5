"""Draws the values of a scenario file from random numbers; equal random numbers give equal values."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from groupreplay.coordinator.simulation.scenario_file import Choice, NumberDraw, Time, TimeDraw, milliseconds

_V = TypeVar("_V")


def one_of(numbers: random.Random, values: Sequence[_V], weights: Sequence[float]) -> _V:
    """One of the values; without weights all have the same chance."""
    return numbers.choices(values, weights or None)[0]


def drawn(numbers: random.Random, value: _V | Choice) -> _V:
    """A value that may be a choice."""
    if isinstance(value, Choice):
        chosen: _V = one_of(numbers, value.one_of, value.weights)
        return chosen
    return value


def number(numbers: random.Random, value: int | NumberDraw) -> int:
    """A whole number."""
    if isinstance(value, int):
        return value
    if value.from_ is not None and value.to is not None:
        return numbers.randint(value.from_, value.to)
    return one_of(numbers, value.one_of, value.weights)


def time_ms(numbers: random.Random, value: Time | TimeDraw, *, duration_ms: int = 0, members: int = 0) -> int:
    """A time in milliseconds; a share is one of ``duration_ms``."""
    if isinstance(value, str):
        return milliseconds(value)
    if value.share is not None:
        return max(int(duration_ms * value.share), milliseconds(value.at_least or "0s"))
    if value.about is not None:
        about_ms = max(milliseconds(value.about), members * milliseconds(value.or_per_member or "0s"))
        return numbers.randrange(about_ms // 2, about_ms * 3 // 2 + 1)
    least_ms, most_ms = milliseconds(value.from_ or "0s"), milliseconds(value.to or "0s")
    return numbers.randint(least_ms, most_ms)
