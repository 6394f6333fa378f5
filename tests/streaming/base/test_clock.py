"""The clock."""

from __future__ import annotations

import time

from groupreplay.streaming.base.clock import now_ms


def test_milliseconds_since_1970() -> None:
    """As a whole number, between two looks at the machine's own clock."""
    before = time.time()
    seen = now_ms()
    assert type(seen) is int
    assert int(before * 1_000) <= seen <= time.time() * 1_000
