"""Serves an ASGI application over HTTP in a thread of its own, and bounds what its clients may have.

A connection is *idle* while the server waits for its client: for the head of a request, or until it reads its answer.
Only idle connections are dropped for new ones. So a client that asks is answered, however many others hold connections
and say nothing.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from socket import AF_INET, AF_INET6
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError

if TYPE_CHECKING:
    import uvicorn


_MOST_BUCKETS: Final = 4_096
#: One client of IPv6 has a network of this length, and can use each of its addresses.
_CLIENT_PREFIX: Final = 64


class Rates:
    """A bucket for each key: ``burst`` requests at once, and ``a_second`` each second after that.

    ``seconds`` is a clock that nobody can set.
    """

    def __init__(self, seconds: Callable[[], float], *, burst: float, a_second: float) -> None:
        self._seconds = seconds
        self._burst = burst
        self._a_second = a_second
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allow(self, key: str) -> bool:
        """Whether one more request is allowed."""
        now = self._seconds()
        left, at = self._buckets.pop(key, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._a_second)
        allowed = left >= 1
        self._buckets[key] = (left - allowed, now)
        if len(self._buckets) > _MOST_BUCKETS:
            self._buckets.popitem(last=False)
        return allowed


def client_network(host: str) -> str:
    """What counts as one client: an address of IPv4, a network of IPv6; anything else as it is."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    address = getattr(address, "ipv4_mapped", None) or address
    if isinstance(address, ipaddress.IPv4Address) or address.is_loopback:
        return str(address)
    return str(ipaddress.ip_network((address, _CLIENT_PREFIX), strict=False))


def client_of(scope: Mapping[str, Any]) -> str:
    """The client of a request of ASGI, as ``client_network`` has it."""
    return client_network(str((scope.get("client") or ("",))[0]))


#: Idle connections of one client. More than are accepted in one turn of the loop: a request that came with its
#: connection is read before the connection can be the oldest.
MOST_IDLE: Final = 256
#: A line in the log at most this often.
LINE_SECONDS: Final = 60.0
#: The first line waits this long, so that it has a number.
FIRST_LINE_SECONDS: Final = 1.0
#: Addresses that a line names; so many more are counted.
_NAMED: Final = 3
_MOST_COUNTED: Final = 4_096

Connection = TypeVar("Connection", bound=Hashable)


class Connections(Generic[Connection]):
    """The open connections of one server, at most ``most`` as long as one of them is idle."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._client: dict[Connection, str] = {}
        #: Idle connections by client, the longest idle first.
        self._idle: dict[str, OrderedDict[Connection, None]] = {}

    def __len__(self) -> int:
        return len(self._client)

    def open(self, connection: Connection, host: str) -> list[Connection]:
        """Adds a connection, which is idle; returns those that have to be dropped for it."""
        client = client_network(host)
        self._client[connection] = client
        self.set_idle(connection)
        dropped = []
        # The newcomer itself is the youngest of its client, so it is dropped only if nobody else is idle.
        if len(self._idle[client]) > MOST_IDLE:
            dropped.append(self._forget_oldest(client))
        elif len(self._client) > self.most:
            busiest = max(self._idle, key=lambda each: len(self._idle[each]))
            if len(self._idle) > 1 or len(self._idle[busiest]) > 1:
                # Of clients with equally many the one that came first.
                dropped.append(self._forget_oldest(busiest))
        return dropped

    def set_idle(self, connection: Connection) -> None:
        """The server waits for the client from now on."""
        if connection in self._client:
            idle = self._idle.setdefault(self._client[connection], OrderedDict())
            idle[connection] = None
            idle.move_to_end(connection)

    def set_busy(self, connection: Connection) -> None:
        """The client waits for the server."""
        client = self._client.get(connection)
        idle = self._idle.get(client) if client is not None else None
        if client is not None and idle is not None:
            idle.pop(connection, None)
            if not idle:
                del self._idle[client]

    def close(self, connection: Connection) -> None:
        """Forgets a connection; does nothing if it is forgotten already."""
        self.set_busy(connection)
        self._client.pop(connection, None)

    def _forget_oldest(self, client: str) -> Connection:
        oldest = next(iter(self._idle[client]))
        self.close(oldest)
        return oldest


class DropLog:
    """Counts connections that were dropped or refused, for one line in the log at a time."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._others = 0

    def note(self, host: str) -> bool:
        """Counts one; whether it is the first of a line."""
        client = client_network(host)
        is_first = not self._counts
        if client in self._counts or len(self._counts) < _MOST_COUNTED:
            self._counts[client] += 1
        else:
            self._others += 1
        return is_first

    def line(self) -> str:
        """What was counted since the last line, which is begun anew."""
        total = sum(self._counts.values()) + self._others
        named = self._counts.most_common(_NAMED)
        addresses = ", ".join(f"{client} ({count})" for client, count in named)
        if more := len(self._counts) - len(named):
            addresses += f" and {more}{' or more' if self._others else ''} other addresses"
        self._counts.clear()
        self._others = 0
        return (
            f"dropped or refused {total} connections, from {addresses}: they did not send a whole request, did not "
            "read their answer, or were too many"
        )


log = logging.getLogger(__name__)

#: A client that does not complete the head of a request for this long is disconnected.
CLIENT_SECONDS: Final = 5.0
#: So is one that does not read its answer for this long.
READING_SECONDS: Final = 60.0
#: Connections at once, more than the streams that ``serve`` allows. For a further one an idle one is dropped; if none
#: is idle, it is answered with 503. Half of the files that a process may open by default.
MOST_CONNECTIONS: Final = 512
#: Connections that are accepted in one turn of the loop; fewer than one client may hold idle.
_BACKLOG: Final = 128
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
        # Reached only when no connection is idle: with one more than `Connections` keeps.
        limit_concurrency=MOST_CONNECTIONS + 1,
        backlog=_BACKLOG,
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
        sock.listen(_BACKLOG)
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

    Its own limit between two requests ends with the first byte of the next one, and its limit of connections refuses
    new requests for the sake of old connections that send none.
    """
    from uvicorn.protocols.http.h11_impl import H11Protocol

    return type("TimedProtocol", (_Limits, H11Protocol), {"table": _OpenConnections(MOST_CONNECTIONS)})


class _OpenConnections:
    """The connections of one server, and the line in the log about those that were dropped."""

    def __init__(self, most: int) -> None:
        self.open: Connections[_Limits] = Connections(most)
        self._log = DropLog()
        self._last_line = float("-inf")

    def note_drop(self, connection: _Limits) -> None:
        """Counts a connection; the line follows within a second, or a minute after the last one."""
        if self._log.note(connection.host):
            loop = connection.loop
            loop.call_at(
                max(loop.time() + FIRST_LINE_SECONDS, self._last_line + LINE_SECONDS), self._write, loop
            )

    def _write(self, loop: asyncio.AbstractEventLoop) -> None:
        self._last_line = loop.time()
        log.warning("%s", self._log.line())


class _Limits:
    """Comes before uvicorn's protocol, which calls these methods when something changes."""

    table: _OpenConnections
    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    #: The connections that uvicorn counts.
    connections: set[Any]
    #: Of h11.
    conn: Any
    #: The request that is answered; from the complete head of the first one on.
    cycle: Any
    host: str = ""
    _head_timer: asyncio.TimerHandle | None = None
    _read_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)  # type: ignore[misc]
        self.host = str((transport.get_extra_info("peername") or ("",))[0])
        for dropped in self.table.open.open(self, self.host):
            dropped._drop()
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self.table.open.close(self)
        _cancel(self._head_timer)
        _cancel(self._read_timer)
        super().connection_lost(exc)  # type: ignore[misc]

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)  # type: ignore[misc]
        if self._is_answering() and self.cycle is not before:
            self.table.open.set_busy(self)
            if len(self.table.open) > self.table.open.most:
                self.table.note_drop(self)

    def on_response_complete(self) -> None:
        super().on_response_complete()  # type: ignore[misc]
        if not self._is_answering():
            self.table.open.set_idle(self)
        self._wait_for_head()

    def pause_writing(self) -> None:
        super().pause_writing()  # type: ignore[misc]
        self.table.open.set_idle(self)
        _cancel(self._read_timer)
        self._read_timer = self.loop.call_later(READING_SECONDS, self._drop)

    def resume_writing(self) -> None:
        _cancel(self._read_timer)
        if self._is_answering():
            self.table.open.set_busy(self)
        super().resume_writing()  # type: ignore[misc]

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait_for_head(self) -> None:
        _cancel(self._head_timer)
        self._head_timer = self.loop.call_later(CLIENT_SECONDS, self._close_silent)

    def _close_silent(self) -> None:
        if self._is_answering() or self.transport.is_closing():
            return
        if self.conn.trailing_data[0]:
            self.table.note_drop(self)
        self.transport.close()

    def _drop(self) -> None:
        """Ends the connection at once, whatever was sent on it, and gives its place to another one."""
        self.table.note_drop(self)
        self.table.open.close(self)
        # uvicorn refuses requests by the number of these, and learns of the end only in the next turn of the loop.
        self.connections.discard(self)
        self.transport.abort()


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
