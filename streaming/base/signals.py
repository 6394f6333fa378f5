"""SIGTERM and Ctrl-C as a wish that is looked at between two batches.

Knows signals; must not know what is to be stopped.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """Whether, and by which signal, the process was asked to stop."""

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self._event = threading.Event()

    @property
    def made(self) -> bool:
        """Whether somebody asked."""
        return self._event.is_set()

    @property
    def exit_code(self) -> int:
        """What a shell reports for a process ended by the signal; 0 when there was none."""
        return 0 if self.signal_number is None else 128 + self.signal_number

    def make(self, signal_number: int | None = None) -> None:
        """Asks to stop."""
        self.signal_number = signal_number
        self._event.set()

    def wait(self, seconds: float) -> bool:
        """Pauses, and no longer than until somebody asks; says whether somebody did."""
        return self._event.wait(seconds)


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Turns the first SIGTERM or SIGINT into a request; a second one ends the process at once."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return

    def handle(number: int, _: FrameType | None) -> None:
        # Nothing else in here: the interpreter may be inside a call to the JVM.
        if request.made:
            os._exit(128 + number)
        request.make(number)

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
