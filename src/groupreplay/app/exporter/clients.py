"""Which connections of a server are open, which of them is dropped for a new one, and what the log says of it.

A connection is *idle* while the server waits for its client: for the head of a request, or until it reads its answer.
Only idle connections are dropped. So a client that asks is answered, however many others hold connections and say
nothing.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

from groupreplay.app.exporter.rates import client_network

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
