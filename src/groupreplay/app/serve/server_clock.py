"""The clock of this machine beside that of the brokers, who date everything that is shown."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

#: Messages of a partition whose times are compared: one of them at least came without a delay.
_MESSAGES: Final = 8
#: A smaller difference is not corrected: so much is delay, or the clocks of two brokers.
MOST_OFF_MS: Final = 5_000


class ServerClock:
    """Milliseconds since 1970 by the brokers' clock, as far as it is known; ``own`` is the clock of this machine."""

    def __init__(self, own: Callable[[], int]) -> None:
        self._own = own
        #: How far the machine is ahead of all brokers, with the shortest delay of a message; None: not known.
        self.off_ms: int | None = None
        self._ahead: dict[tuple[str, int], deque[int]] = {}

    def __call__(self) -> int:
        """The present."""
        off_ms = self.off_ms
        return self._own() - (off_ms if off_ms is not None and abs(off_ms) > MOST_OFF_MS else 0)

    def note(self, place: tuple[str, int], append_ms: int) -> None:
        """A message has arrived that the leader of a partition appended at this time; one thread calls this.

        Of several brokers that differ the nearest one counts: it may be another one whose clock is off.
        """
        known = self._ahead.setdefault(place, deque(maxlen=_MESSAGES))
        known.append(self._own() - append_ms)
        self.off_ms = min((min(one) for one in self._ahead.values()), key=abs)
