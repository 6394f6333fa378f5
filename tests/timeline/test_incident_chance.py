"""The probabilities behind an incident: compared with sums of fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from groupreplay.timeline.incident_chance import chains, log_binomial_tail, log_hypergeometric_tail
from groupreplay.timeline.incident_signals import Signal


@pytest.mark.parametrize(("least", "trials", "chance"), [(3, 5, 0.1), (10, 12, 0.01), (30, 600, 0.001)])
def test_binomial_tail(least: int, trials: int, chance: float) -> None:
    """The probability of so many hits or more is that of the sum."""
    exact = Fraction(chance)
    total = sum(
        math.comb(trials, hits) * exact**hits * (1 - exact) ** (trials - hits)
        for hits in range(least, trials + 1)
    )
    assert log_binomial_tail(least, trials, chance) == pytest.approx(math.log(total))


@pytest.mark.parametrize(
    ("least", "drawn", "marked", "all_of_them"), [(5, 5, 5, 12), (8, 20, 10, 200), (3, 10, 9, 10)]
)
def test_hypergeometric_tail(least: int, drawn: int, marked: int, all_of_them: int) -> None:
    """The probability of so many marked ones or more is that of the sum; what all have says nothing."""
    total = sum(
        Fraction(
            math.comb(marked, hits) * math.comb(all_of_them - marked, drawn - hits),
            math.comb(all_of_them, drawn),
        )
        for hits in range(least, min(drawn, marked) + 1)
    )
    assert log_hypergeometric_tail(least, drawn, marked, all_of_them) == pytest.approx(
        math.log(total), abs=1e-9
    )
    assert log_hypergeometric_tail(5, 5, 9, 9) == pytest.approx(0, abs=1e-9)


def test_chains() -> None:
    """A chain ends where the next begin is more than ten seconds later, and after a minute."""
    begins = [0, 9_000, 19_000, 30_000, *range(100_000, 180_000, 8_000)]
    signals = [
        Signal(at_ms=0, id=str(begin), group_id="g", kind="x", begin_ms=begin, severity="WARN")
        for begin in begins
    ]
    assert [[signal.begin_ms for signal in chain] for chain in chains(signals)] == [
        [0, 9_000, 19_000],
        [30_000],
        list(range(100_000, 164_000, 8_000)),
        [164_000, 172_000],
    ]
