"""A signal as a request to stop, which long-running code checks between two batches."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from groupreplay.streaming.base.ending import PATIENCE_SECONDS, WORDS, present

_Result = TypeVar("_Result")


class StopRequest:
    """Whether the process was asked to stop, and by which signal.

    Attributes:
        patience_seconds: how long the end in order may take from the signal on; 0: there is nothing to be finished.
    """

    def __init__(self, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self.signal_number: int | None = None
        self.patience_seconds = patience_seconds
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
    def patient(self, seconds: float = PATIENCE_SECONDS) -> Iterator[None]:
        """In this block there is something that has to be finished."""
        before, self.patience_seconds = self.patience_seconds, seconds
        try:
            yield
        finally:
            self.patience_seconds = before


@contextmanager
def stop_requests(patience_seconds: float = PATIENCE_SECONDS) -> Iterator[StopRequest]:
    """Turn the first signal into a request; a second SIGINT or SIGTERM ends the process at once.

    In a program of groupreplay its ``Ending`` does both, and ends the process when that takes too long.
    """
    request, ending = StopRequest(patience_seconds), present()
    if ending is not None:
        with ending.asking(request):
            yield request
        return
    if threading.current_thread() is not threading.main_thread():
        yield request
        return

    def handle(number: int, _: FrameType | None) -> None:
        # Do nothing else here: the interpreter may be inside a call to the JVM.
        # A request without a signal was made by the process itself, which is about to end in order.
        if request.signal_number is not None:
            os._exit(128 + number)
        request.make(number)

    before = {number: signal.signal(number, handle) for number in WORDS}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def in_worker(work: Callable[[], _Result]) -> _Result:
    """What ``work`` returns or raises, which runs in another thread than the main one.

    There a library cannot take over the signals, as PySpark does with SIGINT for every context that the main thread
    makes.
    """
    future: Future[_Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="groupreplay-work", daemon=True).start()
    return future.result()
