"""New events for those who follow them: the latest ones in memory, and a wake-up for every stream."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import takewhile
from typing import Final

from groupreplay.app.serve.history.rows import shown_event
from groupreplay.app.serve.history.writer import NewEvent

#: What is kept in memory for streams; one that is further behind reads the history.
_MOST_EVENTS: Final = 2_000
_MOST_BYTES: Final = 16 << 20
#: Streams are woken at most this often: many events in a row are sent together.
_PAUSE_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Which events: of a group (a glob, on its label), with a name (a glob), of at least a severity (number)."""

    group: str | None = None
    type: str | None = None
    least_severity: int = 0

    def wants(self, label: str, name: str, severity: int) -> bool:
        """Whether an event is wanted."""
        return (
            severity >= self.least_severity
            and (self.group is None or fnmatchcase(label, self.group))
            and (self.type is None or fnmatchcase(name, self.type))
        )


@dataclass(frozen=True, slots=True)
class SentEvent:
    """An event as streams send it; ``value`` is one line of JSON."""

    position: int
    label: str
    name: str
    severity: int
    value: bytes


class EventStreams:
    """The latest events of one cluster. ``publish`` is called by the thread that reads the topics."""

    def __init__(self) -> None:
        self.closed = False
        #: Positions are those of this incarnation of the history.
        self.incarnation = ""
        self._latest: deque[SentEvent] = deque()
        self._bytes = 0
        self._lock = threading.Lock()
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    def publish(self, incarnation: str, events: Sequence[NewEvent]) -> None:
        """New events, in the order of their positions."""
        with self._lock:
            if incarnation != self.incarnation:
                self.incarnation = incarnation
                self._latest.clear()
                self._bytes = 0
            for one in events:
                row, value = one.row, shown_event(one.value)
                self._latest.append(SentEvent(one.position, row.label, row.name, row.severity, value))
                self._bytes += len(value)
            while self._latest and (len(self._latest) > _MOST_EVENTS or self._bytes > _MOST_BYTES):
                self._bytes -= len(self._latest.popleft().value)
        self._wake()

    def since(self, incarnation: str, position: int) -> list[SentEvent] | None:
        """The events after a position; None when memory does not reach back to it."""
        with self._lock:
            if incarnation != self.incarnation or not self._latest or self._latest[0].position > position + 1:
                return None
            # From the end: every stream asks at each event, and few of the events in memory are new.
            new = takewhile(lambda one: one.position > position, reversed(self._latest))
            return [*new][::-1]

    def close(self) -> None:
        """Ends all streams."""
        self.closed = True
        self._wake()

    async def wait(self, seconds: float, pending: Callable[[], bool]) -> bool:
        """Waits until something is pending, at most this long; whether it is."""
        place = (asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            self._waiting.add(place)
        try:
            # Asked after the registration, so that nothing that comes in between is missed.
            if not self.closed and not pending():
                await asyncio.wait_for(place[1].wait(), seconds)
                await asyncio.sleep(_PAUSE_SECONDS)
            return True
        except (asyncio.TimeoutError, TimeoutError):
            return False
        finally:
            with self._lock:
                self._waiting.discard(place)

    def last_position(self) -> int:
        """The position of the latest event in memory; 0 without one."""
        with self._lock:
            return self._latest[-1].position if self._latest else 0

    def _wake(self) -> None:
        with self._lock:
            waiting = list(self._waiting)
        for loop, event in waiting:
            # The loop may be closed while the server ends.
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)
