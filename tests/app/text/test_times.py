"""``app/text/times.py``."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.app.text.times import clock, date_time, duration_ms, event_time, given_time, heading, rfc3339
from groupreplay.state.phrases import timestamp, timestamp_ms
from groupreplay.streaming.base.clock import UTC, time_zone

BERLIN = time_zone("Europe/Berlin")
#: 2026-01-31T02:00:00.250Z
AT = 1_769_824_800_250
#: The clocks of Berlin were set back on 2025-10-26 at 01:00 UTC: 02:30 was at 00:30 and at 01:30 UTC.
FIRST_0230, SECOND_0230 = 1_761_438_600_000, 1_761_442_200_000


@pytest.mark.parametrize(
    ("zone", "full", "short", "standard", "name"),
    [
        ("UTC", "2026-01-31 02:00:00.250", "02:00:00.250", "2026-01-31T02:00:00.250Z", "UTC"),
        ("z", "2026-01-31 02:00:00.250", "02:00:00.250", "2026-01-31T02:00:00.250Z", "UTC"),
        (
            "Europe/Berlin",
            "2026-01-31 03:00:00.250",
            "03:00:00.250",
            "2026-01-31T03:00:00.250+01:00",
            "Europe/Berlin",
        ),
        ("-0330", "2026-01-30 22:30:00.250", "22:30:00.250", "2026-01-30T22:30:00.250-03:30", "-03:30"),
    ],
)
def test_one_moment_in_several_zones(zone: str, full: str, short: str, standard: str, name: str) -> None:
    """The zone moves the date, too; its name is in the heading, and only RFC 3339 has the offset."""
    found = time_zone(zone)
    assert (date_time(AT, found), clock(AT, found), rfc3339(AT, found)) == (full, short, standard)
    assert heading("TIME", found) == f"TIME ({name})"


def test_a_time_that_the_clocks_show_twice() -> None:
    """Both have their offset, and differ; the hour before and the hour after have none."""
    assert clock(FIRST_0230, BERLIN) == "02:30:00.000+02:00"
    assert clock(SECOND_0230, BERLIN) == "02:30:00.000+01:00"
    assert [clock(at, BERLIN) for at in (FIRST_0230 - 3_600_000, SECOND_0230 + 3_600_000)] == [
        "01:30:00.000",
        "03:30:00.000",
    ]


def test_times_of_events() -> None:
    """The job's own form is moved to the zone; what others have written is printed as it is, but harmless."""
    assert event_time("2026-01-31T02:00:00.250Z", BERLIN) == "2026-01-31 03:00:00.250"
    assert event_time("2026\x1b[31m", BERLIN) == "2026\\u{1b}[31m"


@pytest.mark.parametrize("at_ms", [-1, -62_135_596_800_000, 253_402_300_799_999, 10**18, -(10**18)])
@pytest.mark.parametrize("zone", [UTC, BERLIN, time_zone("+14:00"), time_zone("-12:00")])
def test_times_that_no_calendar_has(at_ms: int, zone: object) -> None:
    """Nothing fails at the ends of the calendar: records may have any time."""
    for written in (date_time, clock, rfc3339):
        assert written(at_ms, zone)  # type: ignore[arg-type]


@given(
    st.integers(0, 4_102_444_800_000),
    st.sampled_from(["UTC", "Europe/Berlin", "Asia/Kolkata", "America/St_Johns", "Pacific/Apia", "-03:30"]),
)
def test_what_is_written_is_read_as_the_same_moment(at_ms: int, name: str) -> None:
    """RFC 3339 in any zone, the time of an event, and the cell of a table in the zone of its heading."""
    zone = time_zone(name)
    assert timestamp_ms(timestamp(at_ms)) == at_ms
    assert given_time(rfc3339(at_ms, zone)).at_ms(0, UTC) == at_ms
    assert given_time(date_time(at_ms, zone)).at_ms(0, zone) == at_ms


#: 2026-01-01T00:00:00Z, a Thursday.
DAY = 1_767_225_600_000
HOUR = 3_600_000
#: 02:30 in the night of the data's end.
END = DAY + 2 * HOUR + HOUR // 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1700000000123", 1_700_000_000_123),
        ("2026-01-01T00:00:00Z", DAY),
        ("2026-01-01t00:00:00z", DAY),
        ("2026-01-01T00:00:00", DAY),
        ("2026-01-01 00:00:00.250", DAY + 250),
        ("2026-01-01T00:00:00.2Z", DAY + 200),
        ("2026-01-01T00:00:00.123456789Z", DAY + 123),
        ("2026-01-01T02:00:00+02:00", DAY),
        ("2026-01-01T02:00:00+0200", DAY),
        ("2025-12-31T22:30:00-01:30", DAY),
        ("2026-01-01T02:00", DAY + 2 * HOUR),
        ("2026-01-01", DAY),
        ("02:00", DAY + 2 * HOUR),
        ("2:00", DAY + 2 * HOUR),
        ("02:30", END),
        ("02:30:00.001", END - 24 * HOUR + 1),
        ("23:59", DAY - 60_000),
        ("03:00Z", DAY - 21 * HOUR),
        ("03:00+02:00", DAY + HOUR),
        ("now", END),
        ("NOW", END),
        ("90s", END - 90_000),
        ("5m", END - 300_000),
        ("2h", END - 2 * HOUR),
        ("1.5h", END - 3 * HOUR // 2),
        ("3d", END - 72 * HOUR),
        ("999999999d", 0),
    ],
)
def test_what_a_text_means(text: str, expected: int) -> None:
    """Ages count back from the end of the data, a time of day is the latest up to it; UTC without an offset."""
    assert given_time(text).at_ms(END, UTC) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-01T01:00:00", DAY),
        ("2026-01-01", DAY - HOUR),
        ("2026-07-01T02:00", 1_782_864_000_000),
        ("2026-01-01T00:00Z", DAY),
        ("03:30", END),
        ("03:31", END + 60_000 - 24 * HOUR),
        # The night in which 02:30 came twice, and the one in which it did not come.
        ("2025-10-26T02:30", 1_761_438_600_000),
        ("2026-03-29T02:30", 1_774_747_800_000),
    ],
)
def test_times_without_an_offset_are_of_the_zone(text: str, expected: int) -> None:
    """Summer and winter, another day than in UTC, and the nights in which the clocks change."""
    assert given_time(text).at_ms(END, BERLIN) == expected


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        (DAY + 2 * HOUR, "02:40", DAY + 2 * HOUR + 2_400_000),
        (DAY - HOUR, "01:00", DAY + HOUR),
        (DAY + 2 * HOUR, "02:00", DAY + 26 * HOUR),
        (DAY, "1h", END - HOUR),
        (DAY, "2026-01-01T01:00Z", DAY + HOUR),
    ],
)
def test_an_end_after_a_begin(since: int, until: str, expected: int) -> None:
    """A time of day is the first one after the begin, also if that is after the end of the data."""
    assert given_time(until).after_ms(since, END, UTC) == expected


@pytest.mark.parametrize(
    "text",
    [
        *(
            "yesterday",
            "2w",
            "h",
            "",
            "24:00",
            "02:60",
            "2026-02-31",
            "2026-01-01T25:00",
            "2026-01-01T00:00+99",
        ),
        *(
            "-5",
            "١٢",
            "123456789012345",
            "1.h",
            ".5h",
            "-2h",
            "0001-01-01",
            "9999-12-31",
            "2026-01-01T00:00:60Z",
        ),
    ],
)
def test_no_time(text: str) -> None:
    """The message quotes the text and shows what is accepted."""
    expected = (
        f"{text!r} is not a time; write 2026-01-31T02:00:00Z, 02:00, 2h (two hours ago), now, "
        "or milliseconds since 1970"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
        given_time(text)


def test_durations() -> None:
    """The same units as ages."""
    assert [duration_ms(text) for text in ("90s", "30m", "1.5h", "7d")] == [
        90_000,
        1_800_000,
        5_400_000,
        604_800_000,
    ]


@given(st.integers(DAY, DAY + 400 * 24 * HOUR), st.times(), st.sampled_from([UTC, BERLIN]))
def test_a_time_of_day_is_the_latest(end_ms: int, clock: object, zone: object) -> None:
    """Never after the end, never more than a day (and the hour of a changed clock) before it, and at that time."""
    text = str(clock)[:8]
    found = given_time(text).at_ms(end_ms, zone)  # type: ignore[arg-type]
    assert end_ms - 25 * HOUR <= found <= end_ms
    shown = date_time(found, zone)[11:19]  # type: ignore[arg-type]
    # 02:30 does not come in the night in which the clocks are set forward.
    assert shown == text or text.startswith("02:")
