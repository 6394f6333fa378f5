"""Times of tables and headings in the time zone of ``--time-zone``; UTC by default.

Only text for people is written in another zone: JSON keeps milliseconds and UTC. Flags use this module, so it imports
nothing heavy at the top.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Final

from groupreplay.streaming.base.clock import UTC, TimeZone

_RFC3339: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def date_time(at_ms: int, zone: TimeZone) -> str:
    """``2026-01-31 02:00:00.000`` in this zone; see ``clock``."""
    return _written(at_ms, zone, "%Y-%m-%d %H:%M:%S.")


def clock(at_ms: int, zone: TimeZone) -> str:
    """``02:00:00.000`` in this zone.

    A time that the clocks of the zone show twice, when they are set back, is followed by its offset: ``+01:00``.
    """
    return _written(at_ms, zone, "%H:%M:%S.")


def rfc3339(at_ms: int, zone: TimeZone) -> str:
    """``2026-01-31T02:00:00.000+01:00``; in UTC ``2026-01-31T01:00:00.000Z``."""
    at = in_zone(at_ms, zone)
    if zone is UTC or at is None:
        return _in_utc(at_ms)
    return f"{at.strftime('%Y-%m-%dT%H:%M:%S.')}{at_ms % 1000:03d}{_offset(at)}"


def event_ms(text: str) -> int | None:
    """The milliseconds of a time as events have it, ``2026-01-31T02:00:00.000Z``; None for any other text."""
    if not _RFC3339.fullmatch(text):
        return None
    try:
        at = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)
    except ValueError:  # a 31st of February
        return None
    return (at - _EPOCH) // timedelta(milliseconds=1)


def event_time(text: str, zone: TimeZone) -> str:
    """The time of an event as ``date_time`` writes it. Others may write events: another text is printed as it is."""
    from groupreplay.state.display.safe_text import safe_text

    at_ms = event_ms(text)
    return safe_text(text) if at_ms is None else date_time(at_ms, zone)


def heading(name: str, zone: TimeZone) -> str:
    """The heading of a column of times: ``TIME (UTC)``."""
    return f"{name} ({zone.name})"


def _written(at_ms: int, zone: TimeZone, form: str) -> str:
    at = in_zone(at_ms, zone)
    if at is None:
        return _in_utc(at_ms)
    return f"{at.strftime(form)}{at_ms % 1000:03d}{offset_if_twice(at)}"


def _in_utc(at_ms: int) -> str:
    from groupreplay.state.display.phrases import timestamp

    return timestamp(at_ms)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


def in_zone(at_ms: int, zone: TimeZone) -> datetime | None:
    """The time without its milliseconds; None if no calendar has it."""
    try:
        return datetime.fromtimestamp(at_ms // 1000, timezone.utc).astimezone(zone.info)
    except (OverflowError, ValueError, OSError):
        return None


def offset_if_twice(at: datetime) -> str:
    """The offset of a time that the clocks of its zone show twice; empty for any other."""
    return _offset(at) if at.utcoffset() != at.replace(fold=1 - at.fold).utcoffset() else ""


def _offset(at: datetime) -> str:
    return at.isoformat()[-6:]
