"""The clock of the site beside that of the brokers."""

from __future__ import annotations

import pytest

from groupreplay.app.serve.server_clock import ServerClock

NOW_MS = 1_000_000_000


@pytest.mark.parametrize(
    ("delays_ms", "off_ms", "present_ms"),
    [
        ((), None, NOW_MS),
        # Messages that were delayed for hours while the reader was away show nothing.
        ((7_200_000, 60_000, 200, 900), 200, NOW_MS),
        ((95_000, 90_200, 90_900), 90_200, NOW_MS - 90_200),
        ((-90_000, -89_000), -90_000, NOW_MS + 90_000),
        ((-4_000,), -4_000, NOW_MS),
        # What was measured long ago does not count.
        ((200, *[90_300] * 8), 90_300, NOW_MS - 90_300),
    ],
)
def test_a_clock_that_is_off(delays_ms: tuple[int, ...], off_ms: int | None, present_ms: int) -> None:
    """The shortest delay is the difference; more than 5 s are corrected."""
    clock = ServerClock(lambda: NOW_MS)
    for delay_ms in delays_ms:
        clock.note(("group-job", 0), NOW_MS - delay_ms)
    assert (clock.off_ms, clock()) == (off_ms, present_ms)


def test_one_broker_of_two_is_off() -> None:
    """It is not the clock of this machine: nothing is corrected."""
    clock = ServerClock(lambda: NOW_MS)
    clock.note(("group-events", 0), NOW_MS - 100)
    clock.note(("group-events", 1), NOW_MS + 90_000)
    assert (clock.off_ms, clock()) == (100, NOW_MS)
