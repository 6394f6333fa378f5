"""Serves an ASGI application over HTTP in a thread of its own; bounds connections, headers and silent clients."""

from __future__ import annotations

import asyncio
import socket
import threading
from dataclasses import dataclass, field
from socket import AF_INET, AF_INET6
from typing import TYPE_CHECKING, Any, Final

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError

if TYPE_CHECKING:
    import uvicorn

#: A client that does not complete the head of a request for this long is disconnected.
CLIENT_SECONDS: Final = 10.0
#: So is one that does not read its answer for this long.
READING_SECONDS: Final = 60.0
#: Connections at once; further ones are answered with 503. More than the streams that ``serve`` allows.
MOST_CONNECTIONS: Final = 512
#: Bytes of a request's line and headers; the id of a group may have 30 000 bytes.
_MOST_HEAD_BYTES: Final = 64 * 1024
#: Answers that are being written when the server stops have this long.
_END_SECONDS: Final = 2
_START_SECONDS: Final = 10.0


@dataclass(slots=True)
class HttpServer:
    """An application on an address that is bound already; ``start`` begins to answer, ``close`` ends it."""

    sock: socket.socket
    _server: uvicorn.Server
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        run = lambda: self._server.run(sockets=[self.sock])  # noqa: E731 - a lambda holds no reference to a field
        self._thread = threading.Thread(target=run, name="groupreplay-http", daemon=True)

    @property
    def address(self) -> str:
        """``127.0.0.1:9408``, with the port that was taken."""
        host, port = self.sock.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def start(self) -> None:
        """Begins to answer."""
        self._thread.start()

    def close(self) -> None:
        """Ends the server: answers that are not complete within two seconds are cut off."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(_END_SECONDS + _START_SECONDS)
        self.sock.close()


def open_server(application: Any, host: str, port: int) -> HttpServer:
    """A server bound to this address that does not answer yet; port 0 takes a free port.

    Raises:
        GroupReplayError: the address is in use, or does not belong to this machine.
    """
    import uvicorn

    config = uvicorn.Config(
        application,
        loop="asyncio",
        http=_timed_protocol(),
        ws="none",
        lifespan="off",
        log_config=None,
        # A line for each request that is no HTTP would let every client fill the log.
        log_level="error",
        access_log=False,
        # Who connects is who connects: a client must not choose the address by which its requests are counted.
        proxy_headers=False,
        server_header=False,
        # Without the version of a library, which helps only an attacker.
        headers=[("Server", "groupreplay")],
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=int(CLIENT_SECONDS),
        timeout_graceful_shutdown=_END_SECONDS,
        h11_max_incomplete_event_size=_MOST_HEAD_BYTES,
    )
    return HttpServer(_bound(host, port), uvicorn.Server(config))


def _bound(host: str, port: int) -> socket.socket:
    sock = socket.socket(AF_INET6 if ":" in host else AF_INET)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(128)
    except (OSError, OverflowError) as error:
        sock.close()
        raise GroupReplayError(
            f"cannot listen: {getattr(error, 'strerror', None) or error}",
            where=f"{host}:{port}",
            fix="choose an address of this machine and a free port with --listen HOST:PORT",
            exit_code=ExitCode.USAGE,
        ) from None
    return sock


def _timed_protocol() -> type[asyncio.Protocol]:
    """Uvicorn's protocol with time limits for the head of each request and for the reading of an answer.

    Its own limit between two requests ends with the first byte of the next one.
    """
    from uvicorn.protocols.http.h11_impl import H11Protocol

    return type("TimedProtocol", (_TimeLimits, H11Protocol), {})


class _TimeLimits:
    """Comes before uvicorn's protocol, which calls these methods when something changes."""

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    #: The request that is answered; from the complete head of the first one on.
    cycle: Any
    _head_timer: asyncio.TimerHandle | None = None
    _read_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)  # type: ignore[misc]
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        _cancel(self._head_timer)
        _cancel(self._read_timer)
        super().connection_lost(exc)  # type: ignore[misc]

    def on_response_complete(self) -> None:
        super().on_response_complete()  # type: ignore[misc]
        self._wait_for_head()

    def pause_writing(self) -> None:
        super().pause_writing()  # type: ignore[misc]
        _cancel(self._read_timer)
        self._read_timer = self.loop.call_later(READING_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        _cancel(self._read_timer)
        super().resume_writing()  # type: ignore[misc]

    def _wait_for_head(self) -> None:
        _cancel(self._head_timer)
        self._head_timer = self.loop.call_later(CLIENT_SECONDS, self._close_silent)

    def _close_silent(self) -> None:
        if (self.cycle is None or self.cycle.response_complete) and not self.transport.is_closing():
            self.transport.close()


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
