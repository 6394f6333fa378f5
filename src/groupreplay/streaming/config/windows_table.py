"""``[[window]]`` in ``rules.toml``: the times of a planned window, and what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, time, timedelta, timezone
from typing import Any, Final

from groupreplay.state.events.event import Severity
from groupreplay.state.policy.rules import DAYS, Once, PlannedWindow, Weekly
from groupreplay.streaming.base.errors import unusable
from groupreplay.streaming.base.time_zones import time_zone

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_WEEKLY: Final = re.compile(r"([A-Za-z,-]+) +(\d\d:\d\d)-(\d\d:\d\d)")
_FIX: Final = 'such as weekly = "Sat 02:00-04:00" with zone = "Europe/Berlin", or from and until with dates'


def planned_windows(table: Mapping[str, Any], globs: Sequence[str], where: str) -> list[PlannedWindow]:
    """The windows of one table, one for each glob and each of its times.

    Raises:
        GroupReplayError: it has no time, or one that cannot be.
    """
    cap = Severity[table.get("severity_cap", "info").upper()]
    times = _times(table, where)
    return [PlannedWindow(groups=glob, times=one, severity_cap=cap) for glob in globs for one in times]


def _times(table: Mapping[str, Any], where: str) -> list[Once | Weekly]:
    dates, weekly = {"from", "until"} & {*table}, table.get("weekly", [])
    texts = [weekly] if isinstance(weekly, str) else weekly
    if dates and (texts or "zone" in table):
        raise unusable("from and until have their own zone, and are no weekly window", where, _FIX)
    if dates == {"from", "until"}:
        return [_once(table["from"], table["until"], where)]
    if dates or not texts:
        raise unusable("a window needs both from and until, or weekly", where, _FIX)
    return [_weekly(text, table.get("zone", "UTC"), where) for text in texts]


def _once(begin: str, end: str, where: str) -> Once:
    # msgspec has checked both.
    times = [datetime.fromisoformat(text.replace("Z", "+00:00")) for text in (begin, end)]
    from_ms, until_ms = ((one - _EPOCH) // timedelta(milliseconds=1) for one in times)
    if until_ms <= from_ms:
        raise unusable("until is not later than from", where, _FIX)
    return Once(from_ms=from_ms, until_ms=until_ms)


def _weekly(text: str, zone_name: str, where: str) -> Weekly:
    try:
        zone = time_zone(zone_name)
    except ValueError as error:
        raise unusable(str(error), where, "such as Europe/Berlin or +02:00") from None
    parts = _WEEKLY.fullmatch(text.strip())
    try:
        if parts is None:
            raise ValueError(text)
        begin, end = (time.fromisoformat(part) for part in parts.groups()[1:])
        days = frozenset(day for part in parts[1].split(",") for day in _days(part))
    except ValueError:
        raise unusable(f"weekly = {text!r} cannot be read", where, _FIX) from None
    return Weekly(days=days, begin=begin, end=end, zone=zone.info, zone_name=zone.name)


def _days(text: str) -> list[int]:
    """``Mon-Fri`` or ``Sat``; ``Sat-Mon`` goes over the end of the week."""
    first, dash, last = text.partition("-")
    begin = DAYS.index(first.title())
    length = (DAYS.index(last.title()) - begin) % len(DAYS) if dash else 0
    return [(begin + number) % len(DAYS) for number in range(length + 1)]
