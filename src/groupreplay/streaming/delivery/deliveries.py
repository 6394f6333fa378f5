"""Which event goes to a receiver next, and when after a failure. Knows no clock and no network: time is an argument.

Events go one after the other. While the receiver does not answer, or refuses the login, none goes, and the pauses grow.
An event that the receiver refuses for what it is is set aside with all later ones of its subject, and tried again ever
more rarely: the end of an incident must not arrive before its begin. The others go on.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Final

#: The pause after the first failure; it doubles up to the longest.
_FIRST_MS: Final = 1_000
_LONGEST_MS: Final = 60_000
#: The same for an event that was refused.
_FIRST_REFUSED_MS: Final = 60_000
_LONGEST_REFUSED_MS: Final = 3_600_000
#: So many different events refused in a row are the fault of the address or of the format.
_REFUSED_IN_ROW: Final = 3


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of one attempt. ``trouble`` empty: it has arrived.

    ``is_refused``: the receiver does not want this event; otherwise it takes none at the moment. ``pause_ms``: how long
    the receiver asks to wait.
    """

    trouble: str = ""
    is_refused: bool = False
    pause_ms: int = 0


@dataclass(frozen=True, slots=True)
class Waiting:
    """An event that has not arrived; events of one ``subject`` arrive in order."""

    number: int
    subject: str
    event: bytes


@dataclass(slots=True)
class _Aside:
    """The events of a subject whose first one was refused ``refusals`` times."""

    events: deque[Waiting]
    refusals: int = 1
    not_before_ms: int = 0


@dataclass(slots=True)
class Deliveries:
    """The events that wait for one receiver. ``trouble``: why the last attempt failed, or empty."""

    trouble: str = ""
    delivered: int = 0
    _queue: deque[Waiting] = field(default_factory=deque, init=False)
    _aside: OrderedDict[str, _Aside] = field(default_factory=OrderedDict, init=False)
    _not_before_ms: int = field(default=0, init=False)
    _failures: int = field(default=0, init=False)
    _refused_in_row: int = field(default=0, init=False)

    @property
    def waiting(self) -> int:
        """How many events have not arrived."""
        return len(self._queue) + self.set_aside

    @property
    def set_aside(self) -> int:
        """How many of them wait behind one that was refused, with that one."""
        return sum(len(aside.events) for aside in self._aside.values())

    def add(self, waiting: Waiting) -> None:
        """One more event."""
        self._queue.append(waiting)

    def due(self, now_ms: int) -> Waiting | None:
        """The event that goes now; None: none does. ``note`` must follow."""
        if now_ms < self._not_before_ms:
            return None
        for aside in self._aside.values():
            if aside.not_before_ms <= now_ms:
                return aside.events[0]
        while self._queue and (before := self._aside.get(self._queue[0].subject)) is not None:
            before.events.append(self._queue.popleft())
        return self._queue[0] if self._queue else None

    def note(self, waiting: Waiting, answer: Answer, now_ms: int) -> None:
        """The answer to the attempt with that event."""
        self.trouble = answer.trouble
        if not answer.trouble:
            self._arrived(waiting)
        elif answer.is_refused:
            self._refused(waiting, now_ms)
        else:
            pause_ms = max(answer.pause_ms, _growing(_FIRST_MS, self._failures, _LONGEST_MS))
            self._not_before_ms = now_ms + min(pause_ms, _LONGEST_REFUSED_MS)
            self._failures += 1

    def _arrived(self, waiting: Waiting) -> None:
        self._failures = self._refused_in_row = self._not_before_ms = 0
        self.delivered += 1
        aside = self._aside.get(waiting.subject)
        if aside is None:
            self._queue.popleft()
            return
        aside.events.popleft()
        aside.refusals = aside.not_before_ms = 0
        if not aside.events:
            del self._aside[waiting.subject]

    def _refused(self, waiting: Waiting, now_ms: int) -> None:
        aside = self._aside.get(waiting.subject)
        if aside is None:
            self._queue.popleft()
            aside = self._aside[waiting.subject] = _Aside(deque([waiting]), refusals=0)
            self._refused_in_row += 1
            if (more := self._refused_in_row - _REFUSED_IN_ROW) >= 0:
                self._not_before_ms = now_ms + _growing(_FIRST_REFUSED_MS, more, _LONGEST_REFUSED_MS)
        aside.not_before_ms = now_ms + _growing(_FIRST_REFUSED_MS, aside.refusals, _LONGEST_REFUSED_MS)
        aside.refusals += 1
        # The others that were refused come first.
        self._aside.move_to_end(waiting.subject)


def _growing(first_ms: int, failures: int, longest_ms: int) -> int:
    return int(min(first_ms * 2 ** min(failures, 20), longest_ms))
