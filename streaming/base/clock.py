"""The one clock: this machine's. Knows nothing else; whoever is tested takes it as an argument."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
