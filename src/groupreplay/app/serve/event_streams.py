"""New events for those who follow them: the latest ones in memory, and what one stream of server-sent events sends.

A stream goes on from a position after a lost connection.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from itertools import takewhile
from typing import Final, Protocol, TypeAlias, TypeVar

import msgspec
from anyio import CapacityLimiter, to_thread

from groupreplay.app.serve.history import event_queries
from groupreplay.app.serve.history.rows import shown_event
from groupreplay.app.serve.history.writer import NewEvent

#: What is kept in memory for streams; one that is further behind reads the history.
_MOST_EVENTS: Final = 2_000
_MOST_BYTES: Final = 16 << 20
#: Streams are woken at most this often: many events in a row are sent together.
_PAUSE_SECONDS: Final = 0.2
#: A comment at least this often: proxies end connections on which nothing is sent.
ALIVE_SECONDS: Final = 15.0
#: How many events are read from the history at once.
_BATCH: Final = 200
_PLACE: Final = re.compile(r"([0-9a-f]{1,32})-(\d{1,18})")

#: Incarnation of the history, and position in it.
StreamPlace: TypeAlias = tuple[str, int]
_Answer = TypeVar("_Answer")


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
            for event in events:
                row, value = event.row, _line(event.value)
                self._latest.append(SentEvent(event.position, row.label, row.name, row.severity, value))
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
            new = takewhile(lambda event: event.position > position, reversed(self._latest))
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


class StreamedCluster(Protocol):
    """A cluster with its history, which ``ask`` queries, and the streams of its latest events."""

    @property
    def streams(self) -> EventStreams:
        """The latest events, in memory."""

    def ask(self, question: Callable[[sqlite3.Connection], _Answer]) -> _Answer:
        """What a query of the history returns."""


def read_place(header: str | None) -> StreamPlace | None:
    """The place that a ``Last-Event-ID`` names; None without one, or for one that this server did not send."""
    place = None if header is None else _PLACE.fullmatch(header.strip())
    return None if place is None else (place[1], int(place[2]))


async def event_feed(
    cluster: StreamedCluster, event_filter: EventFilter, last: StreamPlace | None, limiter: CapacityLimiter
) -> AsyncIterator[bytes]:
    """Lines of ``text/event-stream``; ends when the server ends.

    Begins behind ``last``. Without one, or when the history was made anew since then, with an event ``reset``: what the
    client has may not be all, and new events follow.
    """
    incarnation, position = await _now(cluster, limiter)
    if last is not None and last[0] == incarnation and last[1] <= position:
        position = last[1]
        yield b": resumed\n\n"
    else:
        yield _reset(incarnation, position)
    while not cluster.streams.closed:
        if cluster.streams.incarnation not in ("", incarnation):
            incarnation, position = await _now(cluster, limiter)
            yield _reset(incarnation, position)
        events = await _since(cluster, incarnation, position, limiter)
        sent = [event for event in events if event_filter.wants(event.label, event.name, event.severity)]
        if sent:
            yield b"".join(_frame(incarnation, event) for event in sent)
        if events:
            position = events[-1].position
            continue
        if not await cluster.streams.wait(ALIVE_SECONDS, partial(_pending, cluster, (incarnation, position))):
            yield f": alive\nid: {incarnation}-{position}\n\n".encode()


async def _now(cluster: StreamedCluster, limiter: CapacityLimiter) -> StreamPlace:
    def now(db: sqlite3.Connection) -> StreamPlace:
        return event_queries.incarnation(db), event_queries.last_position(db)

    return await to_thread.run_sync(partial(cluster.ask, now), limiter=limiter)


async def _since(
    cluster: StreamedCluster, incarnation: str, position: int, limiter: CapacityLimiter
) -> list[SentEvent]:
    events = cluster.streams.since(incarnation, position)
    if events is not None:
        return events

    def ask() -> list[SentEvent]:
        rows = cluster.ask(lambda db: event_queries.events_after(db, position, _BATCH))
        return [SentEvent(*row[:-1], _line(row[-1])) for row in rows]

    return await to_thread.run_sync(ask, limiter=limiter)


def _line(value: bytes) -> bytes:
    """One line of JSON: a message of the topic has no line end."""
    return msgspec.json.encode(shown_event(value))


def _pending(cluster: StreamedCluster, place: StreamPlace) -> bool:
    streams = cluster.streams
    return streams.incarnation not in ("", place[0]) or streams.last_position() > place[1]


def _reset(incarnation: str, position: int) -> bytes:
    return f"event: reset\nid: {incarnation}-{position}\ndata: {{}}\n\n".encode()


def _frame(incarnation: str, event: SentEvent) -> bytes:
    return f"id: {incarnation}-{event.position}\ndata: ".encode() + event.value + b"\n\n"
