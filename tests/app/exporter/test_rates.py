"""How often a client may ask, and what counts as one client."""

from __future__ import annotations

import pytest

from groupreplay.app.exporter.rates import Rates, client_network


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
