"""Waiting for a condition, not for a fixed time, and work in the background meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

import psutil

T = TypeVar("T")

#: Nothing waits longer than it must; on a machine with other work everything takes ten times as long.
PATIENCE_SECONDS = 600.0


def wait_until(
    condition: Callable[[], T | None], seconds: float = PATIENCE_SECONDS, *, pause: float = 0.05
) -> T:
    """What the condition returns, as soon as that is true; fails after the deadline.

    Use a longer pause for an expensive condition, such as reading a topic, so that it leaves time for other work.
    """
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"did not hold within {seconds:g} s: {condition}"
        time.sleep(pause)
    return found


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has waited for yet does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def children_with(word: str) -> list[psutil.Process]:
    """The living processes below this one whose command lines have the word.

    A process that ends while it is read has no command line.
    """
    found = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if any(word in argument for argument in child.cmdline()):
                found.append(child)
    return found


def seldom(condition: Callable[[], T], seconds: float) -> Callable[[], T | None]:
    """An expensive condition that is evaluated only so often, so that a loop can do other work in between."""
    evaluated = [0.0]

    def holds() -> T | None:
        if time.monotonic() - evaluated[0] < seconds:
            return None
        evaluated[0] = time.monotonic()
        return condition()

    return holds


@contextmanager
def in_background(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Runs the work in a thread until the block ends, which sets the event; the work must not have failed."""
    done, failures = threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            work(done)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()
    for failure in failures:
        raise AssertionError(f"the work has failed: {failure!r}") from failure
