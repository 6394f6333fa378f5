"""The application of ``serve``: pages, API and metrics as routes of Starlette, behind the guard."""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final

import msgspec
from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from groupreplay.app.exporter.rates import client_network
from groupreplay.app.exporter.server import exporter_of, exporter_routes
from groupreplay.app.serve.api import Api
from groupreplay.app.serve.event_feed import event_feed, read_place
from groupreplay.app.serve.event_streams import EventFilter
from groupreplay.app.serve.guard import Guard
from groupreplay.app.serve.openapi import openapi_document
from groupreplay.app.serve.pages import board_page, group_page, static_files
from groupreplay.app.serve.parameters import Parameters, RequestError, path_parts
from groupreplay.app.serve.shares import Shares
from groupreplay.app.serve.watched_cluster import WatchedCluster

log = logging.getLogger(__name__)

#: Questions to the history at once; further ones wait.
_QUESTIONS: Final = 8
MOST_STREAMS: Final = 256
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_STREAM_PARAMETERS: Final = ("cluster", "group", "type", "min_severity")


@dataclass(frozen=True, slots=True)
class ApiPath:
    """A path of the API with its parameters, and the function that answers."""

    path: str
    parameters: tuple[str, ...]
    answer: Callable[[Api, Parameters], Any]


ENDPOINTS: Final = (
    ApiPath("/api/clusters", (), Api.list_clusters),
    ApiPath(
        "/api/groups",
        ("cluster", "search", "type", "state", "risk", "sort", "limit", "cursor"),
        Api.list_groups,
    ),
    ApiPath("/api/conditions", ("cluster",), Api.list_conditions),
    ApiPath(
        "/api/events",
        ("cluster", "since", "until", "group", "type", "min_severity", "limit", "cursor"),
        Api.list_events,
    ),
    ApiPath("/api/strips", ("cluster", "since", "until", "groups", "limit"), Api.list_strips),
    ApiPath("/api/expiring", ("cluster", "until"), Api.list_expiring),
    ApiPath("/api/topics", ("cluster", "search", "limit"), Api.list_topics),
    ApiPath("/api/committers", ("cluster", "limit"), Api.list_committers),
)
_ONE_GROUP: Final = ("cluster",)
_TIMELINE: Final = ("cluster", "since", "until")
#: Every path of the API with its parameters, for the OpenAPI document.
PATHS: Final = (
    *((one.path, one.parameters) for one in ENDPOINTS),
    ("/api/groups/{id}", _ONE_GROUP),
    ("/api/groups/{id}/timeline", _TIMELINE),
    ("/api/events/stream", _STREAM_PARAMETERS),
)
#: Answers that read the offsets topic: few at once; so many, with those that wait.
_FROM_LOG: Final = frozenset({"/api/committers"})
_READERS: Final = 2
_MOST_READINGS: Final = 34


def serve_application(
    clusters: Sequence[WatchedCluster],
    now_ms: Callable[[], int],
    *,
    token: str | None = None,
    hosts: Collection[str] = (),
    seconds: Callable[[], float] = time.monotonic,
) -> Guard:
    """The application for some clusters; ``token`` None: whoever can connect may read."""
    site = _Site(Api(clusters, now_ms))
    exporter = exporter_of({cluster.name: cluster.exporter for cluster in clusters})
    application = Starlette(
        routes=[*exporter_routes(exporter, seconds), *site.routes()],
        exception_handlers={404: _missing, RequestError: _refused, Exception: _failed},
    )
    application.router.redirect_slashes = False
    return Guard(application, token=token, hosts=hosts, seconds=seconds)


class _Site:
    """The routes of pages and API, with what they share."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._questions = CapacityLimiter(_QUESTIONS)
        # Each cluster has its own: one that does not answer must not hold up the others.
        self._readers = {one.name: CapacityLimiter(_READERS) for one in api.clusters}
        self._streams = Shares(MOST_STREAMS, "open streams")
        self._readings = {
            one.name: Shares(_MOST_READINGS, "requests that read the offsets topic") for one in api.clusters
        }

    def routes(self) -> list[Route]:
        return [
            Route("/", _shell(board_page)),
            Route("/groups/{rest:path}", _shell(group_page)),
            Route("/static/{name}", _static),
            Route("/api/events/stream", self._stream),
            Route("/api/openapi.json", _openapi),
            *(Route(one.path, self._endpoint(one)) for one in ENDPOINTS),
            Route("/api/groups/{rest:path}", self._group),
        ]

    def _endpoint(self, endpoint: ApiPath) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            given = Parameters(request.query_params.multi_items(), endpoint.parameters)
            ask = partial(endpoint.answer, self._api, given)
            if endpoint.path in _FROM_LOG:
                return await self._read_log(_client(request), given, ask)
            return await self._answer(ask)

        return answer

    async def _group(self, request: Request) -> Response:
        match path_parts(request.scope, "/api/groups/"):
            case [group_id]:
                given = Parameters(request.query_params.multi_items(), _ONE_GROUP)
                return await self._answer(lambda: self._api.one_group(given, group_id))
            case [group_id, "timeline"]:
                given = Parameters(request.query_params.multi_items(), _TIMELINE)
                ask = partial(self._api.timeline, given, group_id)
                return await self._read_log(_client(request), given, ask)
        raise RequestError(404, "there is nothing at this path")

    async def _read_log(self, client: str, given: Parameters, ask: Callable[[], Any]) -> Response:
        cluster = self._api.cluster(given).name
        with self._readings[cluster].place(client):
            found = await to_thread.run_sync(
                lambda: msgspec.json.encode(ask()), limiter=self._readers[cluster]
            )
        return _json(200, found)

    async def _answer(self, ask: Callable[[], Any]) -> Response:
        found = await to_thread.run_sync(lambda: msgspec.json.encode(ask()), limiter=self._questions)
        return _json(200, found)

    async def _stream(self, request: Request) -> Response:
        given = Parameters(request.query_params.multi_items(), _STREAM_PARAMETERS)
        cluster = self._api.cluster(given)
        wanted = EventFilter(
            group=given.text_or_none("group"),
            type=given.text_or_none("type"),
            least_severity=given.severity("min_severity"),
        )
        if request.method == "HEAD":
            return Response(headers=_STREAM_HEADERS)
        lines = event_feed(cluster, wanted, read_place(request.headers.get("last-event-id")), self._questions)
        return _CountedStream(self._streams, _client(request), lines)


class _CountedStream(StreamingResponse):
    """A stream that is counted while it is open, and refused where there are too many.

    Asked when it begins, not before: many clients may connect before the first of them has got anything.
    """

    def __init__(self, shares: Shares, client: str, lines: AsyncIterator[bytes]) -> None:
        super().__init__(lines, headers=_STREAM_HEADERS)
        self._shares, self._client = shares, client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the events until the client or the server ends."""
        with ExitStack() as place:
            try:
                place.enter_context(self._shares.place(self._client))
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


def _client(request: Request) -> str:
    return client_network("" if request.client is None else request.client.host)


def _shell(page: Callable[[], str]) -> Callable[[Request], Any]:
    """A page without data, the same for everybody."""
    file = _served("shell.html", page().encode())

    async def answer(request: Request) -> Response:
        return _answered(request, file)

    return answer


async def _static(request: Request) -> Response:
    found = _static_files().get(request.path_params["name"])
    if found is None:
        raise RequestError(404, "there is no such file")
    return _answered(request, found)


@dataclass(frozen=True, slots=True)
class _ServedFile:
    body: bytes
    kind: str
    etag: str


@lru_cache(1)
def _static_files() -> dict[str, _ServedFile]:
    return {name: _served(name, body) for name, body in static_files().items()}


def _served(name: str, body: bytes) -> _ServedFile:
    return _ServedFile(body, _TYPES[name[name.rfind(".") :]], f'"{hashlib.sha256(body).hexdigest()[:32]}"')


def _answered(request: Request, file: _ServedFile) -> Response:
    # A browser asks each time, and gets nothing again that it has.
    headers = {"ETag": file.etag, "Cache-Control": "no-cache"}
    known = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
    if file.etag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return Response(file.body, headers={**headers, "Content-Type": file.kind})


async def _openapi(request: Request) -> Response:
    Parameters(request.query_params.multi_items(), ())
    return _json(200, _openapi_body())


@lru_cache(1)
def _openapi_body() -> bytes:
    return msgspec.json.encode(openapi_document(PATHS))


def _json(status: int, body: bytes, headers: dict[str, str] | None = None) -> Response:
    more = {"Content-Type": "application/json", "Cache-Control": "no-store", **(headers or {})}
    return Response(body, status, more)


def _error(why: str) -> bytes:
    return msgspec.json.encode({"error": why})


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
