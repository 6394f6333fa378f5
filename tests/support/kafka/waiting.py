"""Waiting for a condition, not for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil


def wait_until(condition: Callable[[], object], seconds: float = 60.0, *, pause: float = 0.05) -> None:
    """Returns as soon as the condition holds; fails after the deadline.

    Use a longer pause for an expensive condition, such as reading a topic, so that it leaves time for other work.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"did not hold within {seconds:g} s: {condition}"
        time.sleep(pause)


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has waited for yet does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
