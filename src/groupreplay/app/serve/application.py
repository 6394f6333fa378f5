"""The application of ``serve``: pages, API and metrics as routes of Starlette, behind the guard."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from functools import lru_cache, partial
from typing import Any, Final

import msgspec
from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from groupreplay.app.exporter.http_server import client_of
from groupreplay.app.exporter.server import exporter_of, exporter_routes
from groupreplay.app.serve.answers import Error
from groupreplay.app.serve.api import Api
from groupreplay.app.serve.event_streams import EventFilter, event_feed, read_place
from groupreplay.app.serve.guard import Guard
from groupreplay.app.serve.mcp_endpoint import MCP_PATH, McpEndpoint
from groupreplay.app.serve.openapi import ENDPOINTS, ONE_GROUP, STREAM, TIMELINE, ApiPath, openapi_document
from groupreplay.app.serve.pages import (
    board_page,
    group_page,
    incidents_page,
    shell_endpoint,
    static_endpoint,
)
from groupreplay.app.serve.requests import Parameters, RequestError, Shares, path_parts
from groupreplay.app.serve.watched_cluster import WatchedCluster

log = logging.getLogger(__name__)

#: Half the size of the best one's time: 1.1 MB of scripts take 40 ms.
_COMPRESSION: Final = 6
#: Questions to the history at once; further ones wait.
_QUESTIONS: Final = 8
MOST_STREAMS: Final = 256
#: Answers from the offsets topic: few at once; so many, with those that wait.
_READERS: Final = 2
_MOST_READINGS: Final = 34


def serve_application(
    clusters: Sequence[WatchedCluster],
    now_ms: Callable[[], int],
    *,
    token: str | None = None,
    hosts: Collection[str] = (),
    seconds: Callable[[], float] = time.monotonic,
    assistants: Mapping[str, ASGIApp] | None = None,
) -> Guard:
    """The application for some clusters; ``token`` None: whoever can connect may read.

    ``assistants``: what answers MCP, by the name of each cluster; None: nothing does.
    """
    api = Api(clusters, now_ms)
    site = _Site(api)
    exporter = exporter_of({cluster.name: cluster.exporter for cluster in clusters})
    mcp_routes = [] if assistants is None else [Route(MCP_PATH, McpEndpoint(api, assistants))]
    application = Starlette(
        routes=[*exporter_routes(exporter, seconds), *mcp_routes, *site.routes()],
        # Streams of events are sent as they are.
        middleware=[Middleware(GZipMiddleware, minimum_size=1_000, compresslevel=_COMPRESSION)],
        exception_handlers={404: _missing, RequestError: _refused, Exception: _failed},
    )
    application.router.redirect_slashes = False
    posts = () if assistants is None else (MCP_PATH,)
    return Guard(application, token=token, hosts=hosts, seconds=seconds, posts=posts)


class _Site:
    """The routes of pages and API, with what they share."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._questions = CapacityLimiter(_QUESTIONS)
        # Each cluster has its own: one that does not answer must not hold up the others.
        self._readers = {cluster.name: CapacityLimiter(_READERS) for cluster in api.clusters}
        self._streams = Shares(MOST_STREAMS, "open streams")
        self._readings = {
            cluster.name: Shares(_MOST_READINGS, "requests that read the offsets topic")
            for cluster in api.clusters
        }

    def routes(self) -> list[Route]:
        return [
            Route("/", shell_endpoint(board_page)),
            Route("/incidents", shell_endpoint(incidents_page)),
            Route("/groups/{rest:path}", shell_endpoint(group_page)),
            Route("/static/{name}", static_endpoint),
            Route("/api/events/stream", self._stream),
            Route("/api/openapi.json", _openapi),
            *(Route(endpoint.path, self._endpoint(endpoint)) for endpoint in ENDPOINTS),
            Route("/api/groups/{rest:path}", self._group),
        ]

    def _endpoint(self, endpoint: ApiPath) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            parameters = Parameters(request.query_params.multi_items(), endpoint.parameters)
            ask = partial(endpoint.answer, self._api, parameters)
            if endpoint.from_log:
                return await self._read_log(request, parameters, ask)
            return await self._answer(ask)

        return answer

    async def _group(self, request: Request) -> Response:
        match path_parts(request.scope, "/api/groups/"):
            case [group_id]:
                parameters = Parameters(request.query_params.multi_items(), ONE_GROUP.parameters)
                return await self._answer(lambda: self._api.one_group(parameters, group_id))
            case [group_id, "timeline"]:
                parameters = Parameters(request.query_params.multi_items(), TIMELINE.parameters)
                ask = partial(self._api.timeline, parameters, group_id)
                return await self._read_log(request, parameters, ask)
        raise RequestError(404, "there is nothing at this path")

    async def _read_log(self, request: Request, parameters: Parameters, ask: Callable[[], Any]) -> Response:
        cluster = self._api.cluster(parameters).name
        with self._readings[cluster].place(client_of(request.scope)):
            return await self._answer(ask, self._readers[cluster])

    async def _answer(self, ask: Callable[[], Any], limiter: CapacityLimiter | None = None) -> Response:
        encoded = await to_thread.run_sync(
            lambda: msgspec.json.encode(ask()), limiter=limiter or self._questions
        )
        return _json(200, encoded)

    async def _stream(self, request: Request) -> Response:
        parameters = Parameters(request.query_params.multi_items(), STREAM.parameters)
        cluster = self._api.cluster(parameters)
        event_filter = EventFilter(
            group=parameters.text_or_none("group"),
            type=parameters.text_or_none("type"),
            least_severity=parameters.severity("min_severity"),
        )
        if request.method == "HEAD":
            return Response(headers=_STREAM_HEADERS)
        lines = event_feed(
            cluster, event_filter, read_place(request.headers.get("last-event-id")), self._questions
        )
        return _CountedStream(self._streams, lines)


class _CountedStream(StreamingResponse):
    """A stream that is counted while it is open, and refused where there are too many.

    Asked when it begins, not before: many clients may connect before the first of them has got anything.
    """

    def __init__(self, shares: Shares, lines: AsyncIterator[bytes]) -> None:
        super().__init__(lines, headers=_STREAM_HEADERS)
        self._shares = shares

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the events until the client or the server ends."""
        with ExitStack() as place:
            try:
                place.enter_context(self._shares.place(client_of(scope)))
            except RequestError as error:
                refused = _json(error.status, _error(error.why), {"Retry-After": "5"})
                await refused(scope, receive, send)
                return
            await super().__call__(scope, receive, send)


_STREAM_HEADERS: Final = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    # nginx would collect the events before it sends them on.
    "X-Accel-Buffering": "no",
}


async def _openapi(request: Request) -> Response:
    Parameters(request.query_params.multi_items(), ())
    return _json(200, _openapi_body())


@lru_cache(1)
def _openapi_body() -> bytes:
    return msgspec.json.encode(openapi_document())


def _json(status: int, body: bytes, headers: dict[str, str] | None = None) -> Response:
    more = {"Content-Type": "application/json", "Cache-Control": "no-store", **(headers or {})}
    return Response(body, status, more)


def _error(why: str) -> bytes:
    return msgspec.json.encode(Error(why))


async def _missing(request: Request, _: Exception) -> Response:
    del request
    return _json(404, _error("there is nothing at this path"))


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    return _json(
        error.status, _error(error.why), {"Retry-After": "2"} if error.status in (429, 503) else None
    )


async def _failed(request: Request, error: Exception) -> Response:
    if isinstance(error, sqlite3.Error):
        return _json(503, _error("the history gives no answer now"), {"Retry-After": "2"})
    log.error("%s was not answered", request.url.path, exc_info=error)
    return _json(500, _error("this request could not be answered; the log of the server says why"))
