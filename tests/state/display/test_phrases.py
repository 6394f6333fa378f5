"""Phrases that the texts of events share."""

from __future__ import annotations

from typing import get_args

import pytest

from groupreplay.state.display import phrases
from groupreplay.state.display.phrases import Data, assumed, clock_time, interval, milliseconds
from groupreplay.state.events.event import LeaveReason


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "?"),
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1.0 s"),
        (59_949, "59.9 s"),
        (250_400, "4 min 10 s"),
        (47 * 3_600_000 + 60_000, "47 h 1 min"),
        (171 * 3_600_000, "7 d 3 h"),
    ],
)
def test_milliseconds(value: int | None, text: str) -> None:
    """Durations are given in the unit a person would choose."""
    assert text == milliseconds(value)


@pytest.mark.parametrize(
    ("bounds", "text"),
    [((5, 5), "5 ms"), ((0, 3_000), "at most 3.0 s"), ((2, 3_000), "2 ms .. 3.0 s")],
)
def test_interval(bounds: tuple[int, int], text: str) -> None:
    """An exact duration has no bounds, and 0 is no lower bound."""
    assert text == interval(*bounds)


@pytest.mark.parametrize(
    ("timestamp", "text"),
    [
        ("2026-01-31T02:03:04.567Z", "02:03:04.567"),
        ("2026-01-31T02:03:04Z", "02:03:04"),
        ("2026-01-31T02:03:04.567+00:00", "02:03:04.567"),
        ("yesterday", "yesterday"),
    ],
)
def test_clock_time(timestamp: str, text: str) -> None:
    """The time of day of an RFC 3339 timestamp; anything else is shown as it is."""
    assert text == clock_time(timestamp)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({}, ""),
        ({"assumed": {}}, ""),
        ({"assumed": {"session_timeout_ms": 45_000}}, ", assumed: session timeout 45.0 s"),
        (
            {"assumed": {"retention_ms": 604_800_000, "check_interval_ms": 600_000}},
            ", assumed: retention 7 d 0 h, check interval 10 min 0 s",
        ),
    ],
)
def test_assumed(data: Data, text: str) -> None:
    """Numbers that nobody gave are named with their values; an event that rests on none says nothing."""
    assert text == assumed(data)


@pytest.mark.parametrize("reason", get_args(LeaveReason))
def test_every_reason_of_leaving_has_its_words(reason: str) -> None:
    """Each others; a reason of a later release, or none, is a member that left."""
    others = {phrases.member_end(one) for one in get_args(LeaveReason) if one != reason}
    assert phrases.member_end(reason) not in others
    assert phrases.member_end("later") == phrases.member_end(None) == "left"


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("2026-01-01T00:00:00.250Z", 1_767_225_600_250),
        ("2026-01-01T00:00:00.2Z", 1_767_225_600_200),
        ("2026-01-01T00:00:00.250999999Z", 1_767_225_600_250),
        ("2026-01-01T00:00:00Z", 1_767_225_600_000),
        ("2026-01-01T01:00:00+01:00", 1_767_225_600_000),
        ("1969-12-31T23:59:59.999Z", -1),
        ("0001-01-01T00:00:00+14:00", -62_135_647_200_000),
        ("9999-12-31T23:59:59.999-12:00", 253_402_343_999_999),
        # No zone, no time of a calendar, digits of another script, and what is no text.
        ("2026-01-01T00:00:00", None),
        ("2026-01-01", None),
        ("2026-02-31T00:00:00Z", None),
        ("2026-01-01T24:00:00Z", None),
        ("2026-01-01T00:00:00+24:00", None),
        ("0000-01-01T00:00:00Z", None),
        ("2026-01-01T00:00:00\u0663Z", None),
        ("2026-01-01T00:00:00Z\n", None),
        (" 2026-01-01T00:00:00Z", None),
        ("tomorrow", None),
        ("", None),
        (None, None),
        (7, None),
    ],
)
def test_times_that_are_read(text: object, at_ms: int | None) -> None:
    """RFC 3339 with its zone, whoever wrote it; anything else is no time, and nothing fails."""
    assert phrases.timestamp_ms(text) == at_ms
