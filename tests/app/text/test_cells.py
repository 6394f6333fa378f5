"""Cells of tables: times in a zone, short or whole, and everything safe to print."""

from __future__ import annotations

import pytest

from groupreplay.app.text.cells import (
    Cell,
    Moment,
    cell_text,
    has_time,
    moment,
    short_clock,
    whole_clock,
)
from groupreplay.streaming.base.clock import UTC, time_zone

AT_MS = 1_769_824_984_567  # 2026-01-31T02:03:04.567Z
BERLIN = time_zone("Europe/Berlin")


@pytest.mark.parametrize(
    ("cell", "short", "whole"),
    [
        (Moment(AT_MS), "01-31 03:03:04", "2026-01-31T03:03:04.567+01:00"),
        (Moment(0), "1970-01-01 01:00", "1970-01-01T01:00:00.000+01:00"),
        (("before ", Moment(0)), "before 1970-01-01 01:00", "before 1970-01-01T01:00:00.000+01:00"),
        (7, "7", "7"),
        ("a\tb\x1b", "a\\u{9}b\\u{1b}", "a\\u{9}b\\u{1b}"),
        *((missing, "-", "-") for missing in (None, "", ())),
    ],
    ids=repr,
)
def test_texts(cell: Cell, short: str, whole: str) -> None:
    """Times of this year are short without it; control characters are escaped; a missing value is a dash."""
    assert cell_text(cell, short_clock(BERLIN, 2026)) == short
    assert cell_text(cell, whole_clock(BERLIN)) == whole


def test_the_hour_that_comes_twice() -> None:
    """When the clocks are set back, a time of that hour has its offset."""
    twice = [Moment(1_792_886_400_000 + hour * 3_600_000) for hour in range(-1, 3)]
    assert [cell_text(one, short_clock(BERLIN, 2026)) for one in twice] == [
        "10-25 01:00:00",
        "10-25 02:00:00+02:00",
        "10-25 02:00:00+01:00",
        "10-25 03:00:00",
    ]


def test_times_that_cannot_be() -> None:
    """A time of no calendar is printed all the same; a negative one is unknown."""
    assert cell_text(Moment(1 << 62), short_clock(UTC, 2026)).startswith("1970-01-01T00:00:00")
    assert (moment(-1), moment(None), moment(5)) == (None, None, Moment(5))


def test_limit() -> None:
    """A text of a record has so many characters at most."""
    assert cell_text("x" * 300, whole_clock(), limit=256) == "x" * 255 + "…"


def test_has_time() -> None:
    """Of a column with a time, also one inside a text."""
    assert has_time([None, ("since ", Moment(1))])
    assert not has_time([None, 5, "x"])
