"""The clock of this machine, by how much it differs from the brokers', and the time zones that times are shown in."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo
from math import ceil
from operator import index
from typing import Final, SupportsIndex
from zoneinfo import ZoneInfo

from groupreplay.streaming.base.errors import unusable

log = logging.getLogger(__name__)


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


#: The clocks of machines with NTP differ by less. A smaller difference is not corrected: times must not change with
#: the broker that happens to lead the topic.
LEAST_CORRECTION_MS: Final = 5_000
#: A difference above which a running query starts again with another correction.
_MOVED_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class AppendedMessage:
    """A message and its append time; ``sent`` and ``acknowledged`` are seconds of the monotonic clock."""

    sent: float
    acknowledged: float
    append_ms: int


@dataclass(frozen=True, slots=True)
class ClockMark:
    """The correction at one moment, and this machine's clock minus its monotonic clock."""

    correction_ms: int
    clock_base_ms: float


class BrokerClock:
    """This machine's clock, corrected when the append times show that it is off. Thread-safe.

    The brokers' time is kept relative to the monotonic clock: when somebody sets the clock of this machine, the
    correction follows at once.
    """

    def __init__(
        self, clock: Callable[[], int] = now_ms, seconds: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._seconds = seconds
        self._lock = threading.Lock()
        #: The least and the greatest value of the brokers' time minus the monotonic clock; None: unknown.
        self._bounds: tuple[float, float] | None = None

    def note(self, appended: Iterable[AppendedMessage]) -> None:
        """Learns from messages that were written. The latest one counts if it contradicts those before it."""
        with self._lock:
            for message in appended:
                least = message.append_ms - 1_000 * message.acknowledged
                most = message.append_ms - 1_000 * message.sent
                if self._bounds is not None:
                    both = max(least, self._bounds[0]), min(most, self._bounds[1])
                    # A broker's clock was set, another broker leads the topic, or one of the clocks drifts.
                    least, most = both if both[0] <= both[1] else (least, most)
                self._bounds = least, most

    @property
    def off_ms(self) -> int | None:
        """By how much this machine's clock is ahead of the brokers' (negative: behind); None: unknown."""
        bounds = self._off_bounds()
        return None if bounds is None else round(sum(bounds) / 2)

    @property
    def ahead_ms(self) -> int | None:
        """By how much the corrected clock is ahead of the brokers' at most (0: it is not); None: unknown."""
        bounds = self._off_bounds()
        return None if bounds is None else max(0, ceil(bounds[1]) + self.correction_ms)

    @property
    def correction_ms(self) -> int:
        """What must be added to this machine's clock to get the brokers' time; 0 while they may agree."""
        bounds = self._off_bounds()
        if bounds is None or (bounds[0] <= LEAST_CORRECTION_MS and bounds[1] >= -LEAST_CORRECTION_MS):
            return 0
        return -round(sum(bounds) / 2)

    def _off_bounds(self) -> tuple[float, float] | None:
        """How far this machine's clock is ahead at least and at most."""
        with self._lock:
            bounds = self._bounds
        base_ms = self._base_ms()
        return None if bounds is None else (base_ms - bounds[1], base_ms - bounds[0])

    def now_ms(self) -> int:
        """Milliseconds since 1970, by the brokers' time."""
        return self._clock() + self.correction_ms

    def mark(self) -> ClockMark:
        """The clock at this moment, for ``has_moved``."""
        return ClockMark(self.correction_ms, self._base_ms())

    def has_moved(self, since: ClockMark) -> bool:
        """Whether this machine's clock was set, or the correction has changed, by more than a minute."""
        now = self.mark()
        moved_ms = (now.correction_ms - since.correction_ms, now.clock_base_ms - since.clock_base_ms)
        return any(abs(distance_ms) > _MOVED_MS for distance_ms in moved_ms)

    def _base_ms(self) -> float:
        return self._clock() - 1_000 * self._seconds()


_OFFSET: Final = re.compile(r"([+-])(\d\d):?(\d\d)")


@dataclass(frozen=True, slots=True)
class TimeZone:
    """A time zone and its name as headings show it: ``UTC``, ``Europe/Berlin``, ``+02:00``."""

    name: str
    info: tzinfo


UTC: Final = TimeZone("UTC", timezone.utc)


def time_zone(name: str) -> TimeZone:
    """The zone of a name of the IANA database (``Europe/Berlin``), of ``UTC`` or ``Z``, or of an offset (``+02:00``).

    Raises:
        ValueError: there is no such zone.
    """
    if name.upper() in ("UTC", "Z"):
        return UTC
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        sign, hours, minutes = offset.groups()
        if int(hours) < 24 and int(minutes) < 60:
            delta = timedelta(hours=int(hours), minutes=int(minutes))
            return TimeZone(f"{sign}{hours}:{minutes}", timezone(-delta if sign == "-" else delta))
    try:
        return TimeZone(name, ZoneInfo(name))
    except (KeyError, ValueError, OSError):  # a folder of the database is an OSError
        raise ValueError(f"there is no time zone {name!r}") from None


def epoch_ms(at: object) -> int:
    """A point in time, an aware datetime or milliseconds since 1970, as the latter.

    Raises:
        GroupReplayError: it is neither, or the datetime has no time zone.
    """
    # The numbers of numpy and pandas are no int.
    if isinstance(at, SupportsIndex):
        return index(at)
    if not isinstance(at, datetime):
        fix = "give an aware datetime, or milliseconds since 1970 as a whole number"
        raise unusable(f"{at!r} is no time", None, fix)
    if at.tzinfo is None:
        fix = "give one with a zone: datetime(..., tzinfo=timezone.utc)"
        raise unusable("the datetime has no time zone", at.isoformat(), fix)
    return (at - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(milliseconds=1)
