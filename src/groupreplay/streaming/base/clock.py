"""The clock of this machine; code that needs the time takes it as an argument, so that tests can set it.

``now_ms`` is for times that are written. Schedules, deadlines and durations go by ``time.monotonic``: somebody may set
the other clock.
"""

from __future__ import annotations

import time


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
