"""One thread that does the same thing again and again until it is closed, whatever fails meanwhile."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Background:
    """Calls ``tick`` every ``pause_seconds``, in a daemon thread called ``groupreplay-<name>``.

    After a failure, whatever it is, the pause is ``retry_seconds``; it doubles with each further failure, up to
    ``longest_seconds`` (0: it stays the same). The first failure of an outage is a warning that begins with
    ``failing``. ``at_end`` is called in the thread after the last tick, with whether that has failed.
    """

    name: str
    tick: Callable[[], object]
    pause_seconds: float
    retry_seconds: float = 0.0
    longest_seconds: float = 0.0
    failing: str = "failed"
    at_end: Callable[[bool], object] = lambda _: None
    _closed: threading.Event = field(default_factory=threading.Event, init=False)
    _awake: threading.Event = field(default_factory=threading.Event, init=False)
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run, name=f"groupreplay-{self.name}", daemon=True)

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    @property
    def is_closed(self) -> bool:
        """Whether the thread was asked to end."""
        return self._closed.is_set()

    def start(self, *, at_once: bool = False) -> None:
        """Starts the thread; the first tick is after a pause, or ``at_once``."""
        if at_once:
            self.wake()
        self._thread.start()

    def wake(self) -> None:
        """The next tick is now, or directly after the present one."""
        self._awake.set()

    def wait(self, seconds: float) -> bool:
        """For a tick that waits: whether the thread was asked to end, which ends the wait."""
        return self._closed.wait(seconds)

    def close(self, seconds: float = 5.0) -> None:
        """Begins no further tick; waits so long for the present one and for ``at_end``."""
        self._closed.set()
        self._awake.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _run(self) -> None:
        pause, failures = self.pause_seconds, 0
        while not self._rest(pause):
            try:
                self.tick()
                pause, failures = self.pause_seconds, 0
            except Exception as error:  # whatever it is, the next tick may succeed
                # One warning for each outage.
                log.log(logging.DEBUG if failures else logging.WARNING, "%s: %s", self.failing, error)
                longest = max(self.longest_seconds, self.retry_seconds)
                pause = min(self.retry_seconds * 2 ** min(failures, 10), longest)
                failures += 1
        try:
            self.at_end(failures > 0)
        except Exception as error:  # nobody waits for it
            log.debug("%s at the end: %s", self.failing, error)

    def _rest(self, seconds: float) -> bool:
        """Waits so long, or until somebody wakes the thread; whether it was asked to end."""
        if seconds > 0:
            self._awake.wait(seconds)
        self._awake.clear()
        return self._closed.is_set()
