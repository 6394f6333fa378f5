"""What a way out of events owes whoever feeds it: it takes numbered messages, and names those that have arrived."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from groupreplay.streaming.contract.messages import OutputRow


class Outlet(Protocol):
    """One way out. ``name`` is unique in a process; what waits is remembered under it."""

    name: str

    def choose(self, rows: Sequence[OutputRow], events: Iterable[bytes]) -> Iterable[bytes]:
        """What it wants of one poll: of all messages, or of its events in order. Each is one of its messages."""

    def send(self, messages: Mapping[int, bytes]) -> None:
        """Takes these messages, by rising numbers; they may arrive later. It raises nothing."""

    def arrived(self) -> Sequence[int]:
        """The messages that have arrived since the last call. Until they have, somebody remembers them."""


class RunningOutlet(Outlet, Protocol):
    """An outlet with an end, and perhaps a thread."""

    def start(self) -> None:
        """Begins."""

    def close(self) -> None:
        """Ends within a second."""
