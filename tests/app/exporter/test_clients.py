"""How often a client may ask, what counts as one client, and which of its connections is dropped for a new one."""

from __future__ import annotations

import pytest

from groupreplay.app.exporter.clients import MOST_IDLE, Connections, DropLog, Rates, client_network


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
