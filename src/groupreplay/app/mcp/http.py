"""The tools of ``groupreplay mcp`` over streamable HTTP, as an ASGI application: ``serve --mcp``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from mcp.server import MCPServer

Application = Callable[[Any, Any, Any], Awaitable[None]]


def http_application(server: MCPServer) -> Application:
    """Answers one POST after the other; nothing is kept between two of them.

    Whoever calls it has checked the headers Host, Origin and Authorization. A client that goes ends its question.
    """

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        # Of its own for each request: its tasks end with the request, and the server needs no hook for its start.
        server.streamable_http_app(stateless_http=True, host="")
        manager = server.session_manager
        async with manager.run():
            await manager.handle_request(scope, receive, send)

    return answer
