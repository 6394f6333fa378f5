"""Times in a zone, as tables and headings show them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.app.text.given_time import given_time
from groupreplay.app.text.time_zone import clock, date_time, event_ms, event_time, heading, rfc3339
from groupreplay.state.display.phrases import timestamp
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
    assert [event_ms(text) for text in ("2026-02-31T02:00:00.250Z", "2026", "")] == [None, None, None]
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
    assert event_ms(timestamp(at_ms)) == at_ms
    assert given_time(rfc3339(at_ms, zone)).at_ms(0, UTC) == at_ms
    assert given_time(date_time(at_ms, zone)).at_ms(0, zone) == at_ms
