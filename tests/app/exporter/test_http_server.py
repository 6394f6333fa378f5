"""The HTTP server: what one client may have, connections that are dropped for new ones, clients that say nothing."""

from __future__ import annotations

import asyncio
import http.client
import re
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route

from groupreplay.app.exporter import http_server
from groupreplay.app.exporter.http_server import (
    MOST_IDLE,
    Connections,
    DropLog,
    HttpServer,
    Rates,
    client_network,
    open_server,
)
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from support.kafka.waiting import wait_until


def test_the_longest_idle_one_of_the_client_with_most() -> None:
    """Whoever holds most idle connections loses the oldest of them; a client with one keeps it."""
    table: Connections[str] = Connections(4)
    assert table.open("honest", "10.0.0.1") == []
    assert [table.open(f"bad {number}", "10.0.0.2") for number in range(5)] == [
        [],
        [],
        [],
        ["bad 0"],
        ["bad 1"],
    ]
    table.set_idle("bad 2")
    assert table.open("other", "10.0.0.3") == ["bad 3"]
    assert len(table) == 4


def test_many_clients_with_one_each() -> None:
    """The one that came first is dropped."""
    table: Connections[str] = Connections(3)
    dropped = [table.open(str(number), f"10.0.0.{number}") for number in range(5)]
    assert dropped == [[], [], [], ["0"], ["1"]]


def test_a_busy_connection_is_not_dropped() -> None:
    """It is beyond the limit that a newcomer finds nothing idle; then it stays, until the next newcomer."""
    table: Connections[str] = Connections(2)
    for name in ("a", "b"):
        table.open(name, "10.0.0.1")
        table.set_busy(name)
    assert table.open("c", "10.0.0.1") == []
    assert len(table) == 3
    assert table.open("d", "10.0.0.2") == ["c"]
    table.set_idle("a")
    assert table.open("e", "10.0.0.3") in (["a"], ["d"])
    table.close("b")
    table.close("b")
    assert len(table) == 2


def test_the_share_of_one_client() -> None:
    """One client cannot fill the table with idle connections, so that others need not drop any."""
    table: Connections[int] = Connections(100 * MOST_IDLE)
    dropped = [each for number in range(MOST_IDLE + 3) for each in table.open(number, "10.0.0.1")]
    assert dropped == [0, 1, 2]
    assert table.open(-1, "10.0.0.2") == []


def test_what_was_forgotten_stays_forgotten() -> None:
    """The loop reports changes of a connection after it was dropped."""
    table: Connections[str] = Connections(1)
    table.open("a", "10.0.0.1")
    assert table.open("b", "10.0.0.1") == ["a"]
    table.set_idle("a")
    table.set_busy("a")
    table.close("a")
    assert len(table) == 1


def test_the_line() -> None:
    """It has the number, and the clients with most of them; each line begins anew."""
    log = DropLog()
    hosts = ["10.0.0.1"] * 5 + ["10.0.0.2"] * 3 + ["2001:db8::1", "2001:db8::2", "10.0.0.4", "10.0.0.5"]
    assert [log.note(host) for host in hosts] == [True] + [False] * 11
    assert log.line() == (
        "dropped or refused 12 connections, from 10.0.0.1 (5), 10.0.0.2 (3), 2001:db8::/64 (2) and 2 other addresses: "
        "they did not send a whole request, did not read their answer, or were too many"
    )
    assert log.note("10.0.0.1")
    assert log.line().startswith("dropped or refused 1 connections, from 10.0.0.1 (1): ")


def test_the_line_is_bounded() -> None:
    """Whoever has many addresses does not fill the memory."""
    log = DropLog()
    for number in range(5_000):
        log.note(f"10.1.{number // 256}.{number % 256}")
    assert len(log._counts) == 4_096
    assert "dropped or refused 5000 connections" in (line := log.line())
    assert " and 4093 or more other addresses" in line


def test_rates() -> None:
    """Each client has its own bucket, which fills again; the number of buckets is bounded."""
    now = [0.0]
    rates = Rates(lambda: now[0], burst=300, a_second=50)
    assert [rates.allow("a") for _ in range(302)].count(True) == 300
    assert rates.allow("b")
    assert not rates.allow("a")
    now[0] += 0.1
    assert [rates.allow("a") for _ in range(10)].count(True) == 5
    for number in range(10_000):
        rates.allow(str(number))
    assert len(rates._buckets) == 4_096


@pytest.mark.parametrize(
    ("host", "client"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("127.0.0.2", "127.0.0.2"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("2001:db8:1:2:aaaa::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:bbbb::2", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::1"),
        ("testclient", "testclient"),
        ("", ""),
    ],
)
def test_what_is_one_client(host: str, client: str) -> None:
    """Somebody with a network of IPv6 has 2^64 addresses, and is one client."""
    assert client_network(host) == client


async def _hello(_: Request) -> PlainTextResponse:
    return PlainTextResponse("hello")


APPLICATION = Starlette(routes=[Route("/", _hello)])


@contextmanager
def answering(*routes: Route) -> Iterator[HttpServer]:
    """A server with these routes beside ``/``."""
    made = open_server(Starlette(routes=[Route("/", _hello), *routes]), "127.0.0.1", 0)
    made.start()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def server() -> Iterator[HttpServer]:
    """One that answers."""
    with answering() as made:
        yield made


def status(server: HttpServer, **headers: str) -> int:
    """Of an answer."""
    connection = http.client.HTTPConnection(server.address, timeout=30)
    connection.request("GET", "/", headers=headers)
    return connection.getresponse().status


def connected(server: HttpServer) -> socket.socket:
    """A client that has sent nothing yet."""
    host, _, port = server.address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=30)


@pytest.mark.parametrize("host", ["127.0.0.1", "192.0.2.1", "no.such.host.invalid"])
def test_an_address_that_cannot_be_used(server: HttpServer, host: str) -> None:
    """Taken, another machine's, or no address: a clear error."""
    with pytest.raises(GroupReplayError) as caught:
        open_server(APPLICATION, host, int(server.address.rpartition(":")[2]))
    assert caught.value.exit_code == ExitCode.USAGE
    assert "--listen" in str(caught.value.fix)


def test_the_address() -> None:
    """As it can be typed into a browser, for both families."""
    made = open_server(APPLICATION, "::1", 0)
    assert made.address.startswith("[::1]:")
    made.close()


def test_a_client_that_sends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is disconnected, also in the middle of a head; one that asks is not."""
    monkeypatch.setattr(http_server, "CLIENT_SECONDS", 1.0)
    with answering() as made, connected(made) as silent, connected(made) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
        assert silent.recv(1) == b""
        assert slow.recv(1) == b""
        assert status(made) == 200


def test_a_client_that_sends_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an answer, too: in the middle of the next head, however slowly its bytes come, and without one."""
    monkeypatch.setattr(http_server, "CLIENT_SECONDS", 1.0)
    with answering() as made, connected(made) as silent, connected(made) as slow:
        for client in (silent, slow):
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = b""
            while not answer.endswith(b"hello"):
                part = client.recv(4_096)
                assert part
                answer += part
        slow.settimeout(0.1)

        def has_ended() -> bool:
            try:
                slow.sendall(b"X")
                return slow.recv(1) == b""
            except TimeoutError:
                return False
            except OSError:
                return True

        wait_until(has_ended)
        assert silent.recv(1) == b""
        assert status(made) == 200


async def _endless(_: Request) -> StreamingResponse:
    async def lines() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 65_536
            await asyncio.sleep(0)

    return StreamingResponse(lines())


def test_a_client_that_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is disconnected, so that it does not hold its place for ever; others are answered meanwhile."""
    monkeypatch.setattr(http_server, "READING_SECONDS", 1.0)
    with answering(Route("/endless", _endless)) as made, connected(made) as silent:
        silent.sendall(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        connections = made._server.server_state.connections
        wait_until(lambda: len(connections) == 1)
        wait_until(lambda: not connections)
        assert status(made) == 200


def test_noise_is_not_logged(server: HttpServer, caplog: pytest.LogCaptureFixture) -> None:
    """No line for what is no request, nor for an upgrade: a client must not fill the log."""
    upgrade = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    for sent in (b"\x16\x03\x01\r\n\r\n", upgrade):
        with connected(server) as client:
            client.sendall(sent)
            assert client.recv(9) == b"HTTP/1.1 "
    assert caplog.records == []


def test_a_large_head(server: HttpServer) -> None:
    """An id of 30 000 bytes fits; what is much larger is refused before it is read."""
    assert status(server, Large="x" * 40_000) == 200
    with connected(server) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nLarge: " + b"x" * 200_000 + b"\r\n\r\n")
        assert client.recv(12) == b"HTTP/1.1 400"


@pytest.mark.parametrize(
    "head", [b"\x16\x03\x01\x02\x00\x01", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 99]
)
def test_what_is_no_request(server: HttpServer, head: bytes) -> None:
    """TLS, halves and noise end the connection, not the server."""
    with connected(server) as client:
        client.sendall(head + b"\r\n\r\n")
        client.shutdown(socket.SHUT_WR)
        wait_until(lambda: not client.recv(4_096))
    assert status(server) == 200


async def _waiting(_: Request) -> StreamingResponse:
    async def lines() -> AsyncIterator[bytes]:
        yield b"begun"
        await asyncio.sleep(600)

    return StreamingResponse(lines())


def test_too_many_connections(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """With all places taken by requests in progress a further one gets 503; when one ends there is room again."""
    monkeypatch.setattr(http_server, "MOST_CONNECTIONS", 4)
    monkeypatch.setattr(http_server, "FIRST_LINE_SECONDS", 0.0)
    with answering(Route("/waiting", _waiting)) as made, ExitStack() as clients:
        for _ in range(4):
            client = clients.enter_context(connected(made))
            client.sendall(b"GET /waiting HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(12) == b"HTTP/1.1 200"
        assert status(made) == 503
        wait_until(lambda: caplog.messages != [], seconds=30)
        assert caplog.messages[0].startswith("dropped or refused 1 connections, from 127.0.0.1 (1): ")
        clients.close()
        wait_until(lambda: status(made) == 200, seconds=30)


def _half(server: HttpServer, address: str) -> socket.socket:
    """A client at an address of this machine that has sent half of a request."""
    host, _, port = server.address.rpartition(":")
    client = socket.create_connection((host, int(port)), timeout=30, source_address=(address, 0))
    client.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Half: ")
    return client


@pytest.mark.parametrize("addresses", [1, 600], ids=["one address", "an address each"])
def test_halves_of_requests(
    addresses: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """600 clients that hold a half each keep nobody from an answer; the log says how many, and from where.

    The deadline is longer than the test: only new connections end the old ones.
    """
    monkeypatch.setattr(http_server, "CLIENT_SECONDS", 300.0)
    with answering() as made, ExitStack() as halves:
        for number in range(600):
            address = f"127.0.{1 + number % addresses // 200}.{1 + number % addresses % 200}"
            halves.enter_context(_half(made, address))
            if number % 60 == 59:
                assert status(made) == 200
        assert [status(made) for _ in range(20)] == [200] * 20
        assert len(made._server.server_state.connections) <= http_server.MOST_CONNECTIONS + 1
        wait_until(lambda: caplog.messages != [], seconds=30)
        assert len(caplog.messages) == 1
        assert re.match(
            r"dropped or refused \d+ connections, from 127\.0\.1\.\d+ \(\d+\)", caplog.messages[0]
        )


def test_nothing_about_libraries(server: HttpServer) -> None:
    """The versions of libraries help only an attacker."""
    connection = http.client.HTTPConnection(server.address, timeout=30)
    connection.request("GET", "/")
    assert [text for name, text in connection.getresponse().getheaders() if name.lower() == "server"] == [
        "groupreplay"
    ]
