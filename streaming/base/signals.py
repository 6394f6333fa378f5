"""SIGTERM and Ctrl-C as a request to stop, which long-running code checks between two batches."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """Whether the process was asked to stop, and by which signal."""

    def __init__(self) -> None:
        self.signal_number: int | None = None
        self._event = threading.Event()

    @property
    def made(self) -> bool:
        """Whether the process was asked to stop."""
        return self._event.is_set()

    @property
    def exit_code(self) -> int:
        """128 + the signal's number, as a shell reports it; 0 without a signal."""
        return 0 if self.signal_number is None else 128 + self.signal_number

    def make(self, signal_number: int | None = None) -> None:
        """Request the stop; a signal that has come before stays known."""
        if signal_number is not None:
            self.signal_number = signal_number
        self._event.set()

    def wait(self, seconds: float) -> bool:
        """Wait until a stop is requested, at most ``seconds``; whether it was requested."""
        return self._event.wait(seconds)


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Turn the first SIGTERM or SIGINT into a request; a second one ends the process at once."""
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return

    def handle(number: int, _: FrameType | None) -> None:
        # Do nothing else here: the interpreter may be inside a call to the JVM.
        # A request without a signal was made by the process itself, which is about to end in order.
        if request.signal_number is not None:
            os._exit(128 + number)
        request.make(number)

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
