"""What one client of the HTTP server may have: requests in a time, and connections.

A connection is *idle* while the server waits for its client: for the head of a request, or until it reads its answer.
Only idle connections are dropped for new ones. So a client that asks is answered, however many others hold connections
and say nothing.
"""

from __future__ import annotations

import ipaddress
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

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
