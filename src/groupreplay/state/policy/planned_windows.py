"""Planned windows: times in which nothing about some groups is more severe than a cap, such as a weekly deployment.

The time is always an argument, and a time zone is an object that the reader of the rules has made.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final

from groupreplay.state.events.event import Severity

DAY_MS: Final = 86_400_000
DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
#: The offset from UTC is at most a day, and a window at most as long.
_DAYS_AROUND: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Once:
    """From ``from_ms`` to just before ``until_ms``, in milliseconds since 1970."""

    from_ms: int
    until_ms: int

    def closes_ms(self, at_ms: int) -> int | None:
        """When it closes, if it is open at this time; else None."""
        return self.until_ms if self.from_ms <= at_ms < self.until_ms else None

    def __str__(self) -> str:
        begin, end = (_EPOCH + timedelta(milliseconds=at_ms) for at_ms in (self.from_ms, self.until_ms))
        return f"{begin:%Y-%m-%dT%H:%M:%SZ} to {end:%Y-%m-%dT%H:%M:%SZ}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Weekly:
    """On these days (0 is Monday), from a time of the day to another one, by the clocks of a zone.

    If ``end`` is not later than ``begin`` it is that of the next day. Where clocks are changed, a time that comes twice
    is the first one, and a time that is left out counts as if the clock had not been changed.
    """

    days: frozenset[int]
    begin: time
    end: time
    zone: tzinfo
    zone_name: str

    def closes_ms(self, at_ms: int) -> int | None:
        """When it closes, if it is open at this time; else None."""
        spans = _spans(self, at_ms // DAY_MS)
        return max((until for begin, until in spans if begin <= at_ms < until), default=None)

    def __str__(self) -> str:
        days = ",".join(DAYS[day] for day in sorted(self.days))
        return f"{days} {self.begin:%H:%M}-{self.end:%H:%M} {self.zone_name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWindow:
    """A window for the groups whose id matches the glob ``groups`` (``fnmatch``)."""

    groups: str
    times: Once | Weekly
    severity_cap: Severity = Severity.INFO


@dataclass(frozen=True, slots=True)
class OpenWindows:
    """The lowest cap of the windows that are open at a moment, and when the first of them closes."""

    severity_cap: Severity
    closes_ms: int


def open_windows(windows: Collection[PlannedWindow], at_ms: int) -> OpenWindows | None:
    """The windows that are open at this time; None without one."""
    caps, ends = list[Severity](), list[int]()
    for one in windows:
        closes_ms = one.times.closes_ms(at_ms)
        if closes_ms is not None:
            caps.append(one.severity_cap)
            ends.append(closes_ms)
    return OpenWindows(min(caps), min(ends)) if ends else None


@lru_cache(1_000)
def _spans(weekly: Weekly, day: int) -> tuple[tuple[int, int], ...]:
    """The times at which it is open around a day, which is counted in UTC from 1970 on."""
    return tuple(_around(weekly, day))


def _around(weekly: Weekly, day: int) -> Iterator[tuple[int, int]]:
    try:
        middle = (_EPOCH + timedelta(days=day)).date()
        dates = [middle + timedelta(days=days) for days in range(-_DAYS_AROUND, _DAYS_AROUND + 1)]
    except OverflowError:
        # A record may be dated in any year; nobody plans for one that calendars do not have.
        return
    for one in dates:
        if one.weekday() in weekly.days:
            last = one if weekly.begin < weekly.end else one + timedelta(days=1)
            yield _ms(one, weekly.begin, weekly.zone), _ms(last, weekly.end, weekly.zone)


def _ms(day: date, at: time, zone: tzinfo) -> int:
    return int((datetime.combine(day, at, zone) - _EPOCH).total_seconds() * 1000)
