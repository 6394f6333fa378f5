"""Places that clients share: nobody has more than what is left for all others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from groupreplay.app.serve.parameters import RequestError


class Shares:
    """At most ``most`` places for ``what``. A client gets a further one while it has fewer than are free.

    So a client alone, for example a proxy with all clients behind it, gets half of the places, and the next one half of
    the rest.
    """

    def __init__(self, most: int, what: str) -> None:
        self._most, self._what = most, what
        self._held: Counter[str] = Counter()

    @contextmanager
    def place(self, client: str) -> Iterator[None]:
        """A place for as long as the block lasts.

        Raises:
            RequestError: there is none (503), or none for this client (429).
        """
        free = self._most - self._held.total()
        if free <= 0:
            raise RequestError(503, f"too many {self._what}")
        if self._held[client] >= free:
            raise RequestError(429, f"too many {self._what} of this address")
        self._held[client] += 1
        try:
            yield
        finally:
            self._held[client] -= 1
            if not self._held[client]:
                del self._held[client]
