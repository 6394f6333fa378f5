"""Waiting for a condition, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], seconds: float = 60.0, *, pause: float = 0.05) -> None:
    """Returns as soon as the condition holds; fails after the deadline.

    A condition that is itself work (reading a topic) takes a longer pause, or it starves what it waits for.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not so within {seconds:g} s: {condition}"
        time.sleep(pause)
