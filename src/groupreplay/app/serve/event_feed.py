"""Events as server-sent events: what is new as it comes, from a position on after a lost connection."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from functools import partial
from typing import Final, TypeAlias

from anyio import CapacityLimiter, to_thread

from groupreplay.app.serve.event_streams import EventFilter, SentEvent
from groupreplay.app.serve.history import queries
from groupreplay.app.serve.watched_cluster import WatchedCluster

#: A comment at least this often: proxies end connections on which nothing is sent.
ALIVE_SECONDS: Final = 15.0
#: How many events are read from the history at once.
_BATCH: Final = 200
_PLACE: Final = re.compile(r"([0-9a-f]{1,32})-(\d{1,18})")

#: Incarnation of the history, and position in it.
StreamPlace: TypeAlias = tuple[str, int]


def read_place(header: str | None) -> StreamPlace | None:
    """The place that a ``Last-Event-ID`` names; None without one, or for one that this server did not send."""
    found = None if header is None else _PLACE.fullmatch(header.strip())
    return None if found is None else (found[1], int(found[2]))


async def event_feed(
    cluster: WatchedCluster, wanted: EventFilter, last: StreamPlace | None, limiter: CapacityLimiter
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
        found = await _since(cluster, incarnation, position, limiter)
        sent = [one for one in found if wanted.wants(one.label, one.name, one.severity)]
        if sent:
            yield b"".join(_frame(incarnation, one) for one in sent)
        if found:
            position = found[-1].position
            continue
        if not await cluster.streams.wait(ALIVE_SECONDS, partial(_pending, cluster, (incarnation, position))):
            yield f": alive\nid: {incarnation}-{position}\n\n".encode()


async def _now(cluster: WatchedCluster, limiter: CapacityLimiter) -> StreamPlace:
    def ask() -> StreamPlace:
        return cluster.ask(lambda db: (queries.incarnation(db), queries.last_position(db)))

    return await to_thread.run_sync(ask, limiter=limiter)


async def _since(
    cluster: WatchedCluster, incarnation: str, position: int, limiter: CapacityLimiter
) -> list[SentEvent]:
    found = cluster.streams.since(incarnation, position)
    if found is not None:
        return found

    def ask() -> list[SentEvent]:
        rows = cluster.ask(lambda db: queries.events_after(db, position, _BATCH))
        return [SentEvent(*row) for row in rows]

    return await to_thread.run_sync(ask, limiter=limiter)


def _pending(cluster: WatchedCluster, place: StreamPlace) -> bool:
    streams = cluster.streams
    return streams.incarnation not in ("", place[0]) or streams.last_position() > place[1]


def _reset(incarnation: str, position: int) -> bytes:
    return f"event: reset\nid: {incarnation}-{position}\ndata: {{}}\n\n".encode()


def _frame(incarnation: str, event: SentEvent) -> bytes:
    return f"id: {incarnation}-{event.position}\ndata: ".encode() + event.value + b"\n\n"
