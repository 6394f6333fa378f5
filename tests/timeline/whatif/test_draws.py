"""Draws of what the log does not show: within the bounds, and the same for the same seed."""

from __future__ import annotations

import random

from groupreplay.coordinator.simulation.script import START, STOP, ClientStep
from groupreplay.timeline.whatif.draws import WARM_UP_MS, Draw
from groupreplay.timeline.whatif.moments import moments
from groupreplay.timeline.whatif.quiet_times import QuietTimes
from groupreplay.timeline.whatif.recorded import recorded
from groupreplay.timeline.whatif.settings import PlaySettings
from support.histories.played import BEGIN, SECOND, history_of, restarted


def steps(seed: int) -> tuple[ClientStep, ...]:
    """Those of a draw of the history in which b leaves and comes back."""
    known = recorded(history_of(restarted(), 180 * SECOND))
    assert known is not None
    numbers = random.Random(seed)
    settings = PlaySettings(values={})
    draw = Draw(
        moments=moments(known), settings=settings, interval_ms=5 * SECOND, begin_ms=BEGIN, numbers=numbers
    )
    return draw.steps(QuietTimes())


def test_times_are_within_their_bounds() -> None:
    """B stops after its last commit and before the next one and the join phase; its commits follow its start."""
    for seed in range(20):
        *firsts, stop, start = steps(seed)
        first_a, first_b = sorted(firsts, key=lambda step: step.client)
        assert [first_a.action, first_b.action, stop, start] == [
            START,
            START,
            ClientStep(stop.at_ms, STOP, 1),
            ClientStep(WARM_UP_MS + 70 * SECOND, START, 1),
        ] or start.at_ms <= WARM_UP_MS + 69_990
        assert 57 * SECOND < stop.at_ms - WARM_UP_MS < 59_990
        assert (first_a.at_ms - 1 * SECOND) % (5 * SECOND) == 0


def test_a_seed_repeats_a_draw() -> None:
    """And another one gives another."""
    assert steps(1) == steps(1)
    assert steps(1) != steps(2)
