"""When planned windows are open, also where clocks are changed."""

from __future__ import annotations

from datetime import datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.state.events.event import Severity
from groupreplay.state.policy.planned_windows import (
    DAY_MS,
    Once,
    OpenWindows,
    PlannedWindow,
    Weekly,
    open_windows,
)

MINUTE_MS = 60_000
BERLIN = ZoneInfo("Europe/Berlin")
#: A Sunday on which clocks in Berlin go back, at 03:00.
CHANGE = "2026-10-25"


def at_ms(text: str) -> int:
    """A time in Berlin."""
    return int(datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp() * 1000)


def weekly(days: set[int], begin: str, end: str) -> Weekly:
    """A window by the clocks of Berlin."""
    return Weekly(
        days=frozenset(days),
        begin=time.fromisoformat(begin),
        end=time.fromisoformat(end),
        zone=BERLIN,
        zone_name="Europe/Berlin",
    )


@pytest.mark.parametrize(
    ("text", "closes"),
    [
        ("2026-11-28T01:59:59", None),
        ("2026-11-28T02:00", "2026-11-28T04:00"),
        ("2026-11-28T03:59:59", "2026-11-28T04:00"),
        ("2026-11-28T04:00", None),
        ("2026-11-29T02:00", None),
        # Summer: the same hour by the clock, another one in UTC.
        ("2026-07-04T02:00", "2026-07-04T04:00"),
        ("2026-07-04T01:59", None),
    ],
)
def test_every_saturday(text: str, closes: str | None) -> None:
    """It is open from its begin to just before its end, by the clocks of its zone."""
    found = weekly({5}, "02:00", "04:00").closes_ms(at_ms(text))
    assert found == (None if closes is None else at_ms(closes))


def test_over_midnight_and_a_change_of_clocks() -> None:
    """A window that begins on Saturday evening ends on Sunday; that night has an hour more."""
    window = weekly({5}, "23:00", "04:00")
    begin = at_ms("2026-10-24T23:00")
    assert window.closes_ms(begin) == begin + 6 * 60 * MINUTE_MS
    assert window.closes_ms(begin - 1) is None
    assert str(window) == "Sat 23:00-04:00 Europe/Berlin"


def test_once() -> None:
    """A window with dates is open once."""
    window = Once(from_ms=DAY_MS, until_ms=2 * DAY_MS)
    closes = [window.closes_ms(at) for at in (DAY_MS - 1, DAY_MS, 2 * DAY_MS - 1, 2 * DAY_MS)]
    assert closes == [None, 2 * DAY_MS, 2 * DAY_MS, None]
    assert str(window) == "1970-01-02T00:00:00Z to 1970-01-03T00:00:00Z"


def test_the_lowest_cap_holds() -> None:
    """Of several open windows the lowest cap counts, until the first of them closes."""
    windows = [
        PlannedWindow(groups="*", times=Once(from_ms=0, until_ms=100), severity_cap=Severity.WARN),
        PlannedWindow(groups="*", times=Once(from_ms=50, until_ms=80)),
    ]
    found = [open_windows(windows, at) for at in (0, 50, 80, 100)]
    warn, info = OpenWindows(Severity.WARN, 100), OpenWindows(Severity.INFO, 80)
    assert found == [warn, info, warn, None]


def test_years_that_calendars_do_not_have() -> None:
    """A record may be dated there; no window is open then."""
    assert weekly(set(range(7)), "00:00", "23:59").closes_ms(2**62) is None


@given(
    days=st.sets(st.integers(0, 6)),
    begin=st.times(),
    end=st.times(),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Apia", "Australia/Lord_Howe"]),
    at=st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 31), timezones=st.just(timezone.utc)),
)
def test_weekly_windows_by_the_wall_clock(
    days: set[int], begin: time, end: time, zone: str, at: datetime
) -> None:
    """Far from a change of clocks, it is open exactly if the wall clock of the zone says so."""
    begin, end = begin.replace(second=0, microsecond=0, fold=0), end.replace(second=0, microsecond=0, fold=0)
    place, at = ZoneInfo(zone), at.replace(microsecond=0)
    offsets = {(at + timedelta(hours=hours)).astimezone(place).utcoffset() for hours in range(-30, 31)}
    if len(offsets) > 1:
        return
    local = at.astimezone(place)
    yesterday = (local.weekday() - 1) % 7
    clock = local.time()
    if begin < end:
        expected = local.weekday() in days and begin <= clock < end
    else:
        expected = (local.weekday() in days and clock >= begin) or (yesterday in days and clock < end)
    window = Weekly(days=frozenset(days), begin=begin, end=end, zone=place, zone_name=zone)
    moment = int(at.timestamp() * 1000)
    closes_ms = window.closes_ms(moment)
    assert (closes_ms is not None) == expected
    if closes_ms is not None:
        assert moment < closes_ms <= moment + DAY_MS
        assert datetime.fromtimestamp(closes_ms / 1000, place).time() == end
