"""How often each client may ask: a bucket of requests for each network address."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

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
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    if address.is_loopback:
        return str(address)
    return str(ipaddress.ip_network((address, _CLIENT_PREFIX), strict=False))
