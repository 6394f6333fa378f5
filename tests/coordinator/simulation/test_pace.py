"""How soon simulated clients learn of a rebalance."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from groupreplay.coordinator.simulation.pace import KNOWN_BEATS, notice_delay_ms
from groupreplay.coordinator.simulation.script import Script

INTERVAL_MS = 3_000
#: How late each heartbeat is at most.
LATE_MS = 20


@given(st.integers(0, KNOWN_BEATS * INTERVAL_MS - 1), st.integers())
def test_heartbeats_begin_with_the_assignment(since_ms: int, seed: int) -> None:
    """A client as Kafka's learns of it with the next of them, which each of the earlier ones may have delayed a bit."""
    script = Script(steps=(), exact=True, heartbeat_interval_ms=INTERVAL_MS)
    at_ms = since_ms + notice_delay_ms(script, random.Random(seed), since_ms)
    beats = max(at_ms // (INTERVAL_MS + LATE_MS), 1)
    numbers = range(beats, at_ms // INTERVAL_MS + 1)
    assert since_ms < at_ms <= since_ms + INTERVAL_MS + LATE_MS
    assert any(number * INTERVAL_MS <= at_ms <= number * (INTERVAL_MS + LATE_MS) for number in numbers)


@given(st.booleans(), st.integers(KNOWN_BEATS * INTERVAL_MS, 10**12), st.integers())
def test_later_ones_may_come_at_any_time(exact: bool, since_ms: int, seed: int) -> None:
    """Within one interval, as those of the clients of other simulations."""
    script = Script(steps=(), exact=exact, heartbeat_interval_ms=INTERVAL_MS)
    expected = 1 + random.Random(seed).randrange(INTERVAL_MS)
    assert notice_delay_ms(script, random.Random(seed), since_ms) == expected
