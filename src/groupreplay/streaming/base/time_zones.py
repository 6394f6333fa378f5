"""Time zones by their names, and points in time; flags use this module, so it imports nothing heavy."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from groupreplay.streaming.base.errors import unusable

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


def epoch_ms(at: datetime | int) -> int:
    """A point in time as milliseconds since 1970; a number is that already.

    Raises:
        GroupReplayError: the datetime has no time zone.
    """
    if isinstance(at, int):
        return at
    if at.tzinfo is None:
        fix = "give one with a zone: datetime(..., tzinfo=timezone.utc)"
        raise unusable("the datetime has no time zone", at.isoformat(), fix)
    return (at - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(milliseconds=1)
