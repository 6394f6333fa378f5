"""``/api/mcp``: who may ask, and how much, before what answers assistants about a cluster (``serve --mcp``)."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any, Final

import anyio
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from groupreplay.app.exporter.http_server import CLIENT_SECONDS, client_of
from groupreplay.app.serve.api import Api
from groupreplay.app.serve.requests import Parameters, RequestError, Shares
from groupreplay.app.serve.watched_cluster import WatchedCluster

MCP_PATH: Final = "/api/mcp"
#: A question with its arguments; the id of a group may have 30 000 bytes, and JSON writes some of them as six.
MOST_BYTES: Final = 256 * 1024
#: Questions that are answered or wait; one client alone has half of the places.
MOST_QUESTIONS: Final = 16
MOST_SECONDS: Final = 330.0


class McpEndpoint:
    """An ASGI application before those of the clusters, by their names."""

    def __init__(self, api: Api, applications: Mapping[str, ASGIApp]) -> None:
        self._api = api
        self._applications = applications
        self._shares = Shares(MOST_QUESTIONS, "questions of assistants")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One question.

        Raises:
            RequestError: the cluster is not served, its names are hidden, or there are too many questions.
        """
        request = Request(scope)
        cluster = self._api.cluster(Parameters(request.query_params.multi_items(), ("cluster",)))
        refuse_hidden(cluster)
        with self._shares.place(client_of(scope)):
            body = await _body(receive)
            # An answer has a time limit of its own; a client that subscribes to changes, of which there are none, not.
            with anyio.move_on_after(MOST_SECONDS):
                await self._applications[cluster.name](scope, _replayed(body, receive), send)


def refuse_hidden(cluster: WatchedCluster) -> None:
    """Lets pass where the job is known to hide no names: an answer is made of the log, which has all of them.

    Raises:
        RequestError: the job hides names, or it is not known whether it does.
    """
    job = cluster.feed.evaluate(lambda seen: seen.job if seen else None)
    if job is None:
        raise RequestError(503, "the job's status was not read yet, which says whether names are hidden")
    if job.hides_names is None:
        raise RequestError(403, "the job does not say whether it hides names: run it with this release")
    if job.hides_names:
        raise RequestError(403, "the job hides names, which answers to assistants would show")


async def _body(receive: Receive) -> bytes:
    """The body of the request.

    Raises:
        RequestError: it is too long, or its client does not send it.
    """
    body = bytearray()
    try:
        with anyio.fail_after(CLIENT_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise RequestError(400, "the client has gone")
                body += message.get("body", b"")
                if len(body) > MOST_BYTES:
                    raise RequestError(413, f"a question has at most {MOST_BYTES} bytes")
                if not message.get("more_body"):
                    return bytes(body)
    except TimeoutError:
        raise RequestError(408, f"the request was not complete within {CLIENT_SECONDS:g} s") from None


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Gives the body that was read already, then what comes behind it: the end of the connection."""
    left = [body]

    async def replaying() -> MutableMapping[str, Any]:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return await receive()

    return replaying
