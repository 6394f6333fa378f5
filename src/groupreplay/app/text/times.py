"""Points in time: as people write them in flags, and as text in the time zone of ``--time-zone``; UTC by default.

Accepted in flags: RFC 3339 (``2026-01-31T02:00:00Z``; also with a blank, without seconds, time of day or offset), a
time of day (``02:00``), an age (``2h``, ``1.5h``, ``90s``), ``now``, and milliseconds since 1970. What they mean is
calculated once the end of the data is known. Only text for people is written in another zone than UTC: JSON keeps
milliseconds and UTC. Flags use this module, so it imports nothing heavy at the top.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from typing import Final

from groupreplay.streaming.base.clock import UTC, TimeZone, time_zone

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


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


def event_time(text: str, zone: TimeZone) -> str:
    """The time of an event as ``date_time`` writes it. Others may write events: another text is printed as it is."""
    from groupreplay.state.phrases import safe_text, timestamp_ms

    at_ms = timestamp_ms(text)
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
    from groupreplay.state.phrases import timestamp

    return timestamp(at_ms)


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


EXAMPLES: Final = "2026-01-31T02:00:00Z, 02:00, 2h (two hours ago), now, or milliseconds since 1970"
#: Units of a duration or an age, in milliseconds.
UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

_DURATION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([smhd])", re.ASCII)
#: Up to the year 5138: a number with more digits is in another unit.
_MILLISECONDS: Final = re.compile(r"\d{1,14}", re.ASCII)
#: The first hours of 1970 are in 1969 west of Greenwich.
_YEARS: Final = range(1969, 5139)
_CLOCK: Final = r"(?P<clock>\d\d?:\d\d(?::\d\d(?P<fraction>\.\d+)?)?)"
_ZONE: Final = r"(?:\s?(?P<zone>[Zz]|[+-]\d\d:?\d\d))?"
_DATED: Final = re.compile(rf"(?P<date>\d{{4}}-\d\d-\d\d)(?:[Tt ]{_CLOCK}{_ZONE})?", re.ASCII)
_TIME_OF_DAY: Final = re.compile(rf"{_CLOCK}{_ZONE}", re.ASCII)


@dataclass(frozen=True, slots=True)
class GivenTime:
    """A point in time as it was written; exactly one of the other fields is set.

    ``absolute_ms``: since 1970. ``age_ms``: before the end of the data; 0 for ``now``. ``wall``: a date and time of
    the zone that is asked for. ``clock``: a time of day; its ``tzinfo`` is None for that zone.
    """

    text: str
    absolute_ms: int | None = None
    age_ms: int | None = None
    wall: datetime | None = None
    clock: time | None = None

    @property
    def needs_end(self) -> bool:
        """Whether the meaning depends on the end of the data."""
        return self.age_ms is not None or self.clock is not None

    def at_ms(self, end_ms: int, zone: TimeZone) -> int:
        """Milliseconds since 1970.

        A time of day is the latest such time up to ``end_ms``. Of a time that the clocks of the zone show twice, the
        earlier is meant.
        """
        if self.absolute_ms is not None:
            return self.absolute_ms
        if self.age_ms is not None:
            return max(0, end_ms - self.age_ms)
        if self.wall is not None:
            return _ms(self.wall.replace(tzinfo=zone.info))
        assert self.clock is not None
        return _latest(self.clock, end_ms, self.clock.tzinfo or zone.info)

    def after_ms(self, since_ms: int, end_ms: int, zone: TimeZone) -> int:
        """As ``at_ms``, but a time of day is the first one after ``since_ms``."""
        if self.clock is None:
            return self.at_ms(end_ms, zone)
        return _first_after(self.clock, since_ms, self.clock.tzinfo or zone.info)


def given_time(text: str) -> GivenTime:
    """What a text says about a point in time.

    Raises:
        ValueError: nothing that can be read as one; the message quotes the text and has examples.
    """
    stripped = text.strip()
    if _MILLISECONDS.fullmatch(stripped):
        return GivenTime(text, absolute_ms=int(stripped))
    if stripped.lower() == "now":
        return GivenTime(text, age_ms=0)
    if _DURATION.fullmatch(stripped):
        return GivenTime(text, age_ms=duration_ms(stripped))
    try:
        if dated := _DATED.fullmatch(stripped):
            return _dated(text, dated)
        if of_day := _TIME_OF_DAY.fullmatch(stripped):
            clock = _clock(of_day)
            info = _written_zone(of_day)
            return GivenTime(text, clock=clock if info is None else clock.replace(tzinfo=info))
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"{text!r} is not a time; write {EXAMPLES}")


def duration_ms(text: str) -> int:
    """The milliseconds of ``90s``, ``30m``, ``1.5h`` or ``7d``.

    Raises:
        ValueError: another text.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a duration; write 24h, 1.5h, 7d, 30m or 90s")
    return round(float(match[1]) * UNITS_MS[match[2]])


def _dated(text: str, match: re.Match[str]) -> GivenTime:
    day = date.fromisoformat(match["date"])
    if day.year not in _YEARS:
        raise ValueError
    wall = datetime.combine(day, _clock(match) if match["clock"] else time())
    info = _written_zone(match)
    if info is None:
        return GivenTime(text, wall=wall)
    return GivenTime(text, absolute_ms=_ms(wall.replace(tzinfo=info)))


def _clock(match: re.Match[str]) -> time:
    """The time of day, cut to milliseconds: that is what Kafka's times have."""
    whole = match["clock"].removesuffix(match["fraction"] or "")
    hour, minute, second = (*map(int, whole.split(":")), 0)[:3]
    milliseconds = int((match["fraction"] or ".0")[1:4].ljust(3, "0"))
    return time(hour, minute, second, microsecond=milliseconds * 1000)


def _written_zone(match: re.Match[str]) -> tzinfo | None:
    return time_zone(match["zone"]).info if match["zone"] else None


def _ms(at: datetime) -> int:
    return (at.astimezone(timezone.utc) - _EPOCH) // timedelta(milliseconds=1)


def _day(at_ms: int, info: tzinfo) -> date:
    return (_EPOCH + timedelta(milliseconds=at_ms)).astimezone(info).date()


def _on(day: date, clock: time, info: tzinfo) -> int:
    return _ms(datetime.combine(day, clock.replace(tzinfo=info)))


def _latest(clock: time, end_ms: int, info: tzinfo) -> int:
    day = _day(end_ms, info)
    at_ms = _on(day, clock, info)
    return at_ms if at_ms <= end_ms else _on(day - timedelta(days=1), clock, info)


def _first_after(clock: time, since_ms: int, info: tzinfo) -> int:
    day = _day(since_ms, info)
    at_ms = _on(day, clock, info)
    return at_ms if at_ms > since_ms else _on(day + timedelta(days=1), clock, info)
