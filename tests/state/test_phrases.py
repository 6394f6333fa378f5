"""Phrases: text from records is harmless, values are worded for people, and a rebalance has a length."""

from __future__ import annotations

import unicodedata
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.state import phrases
from groupreplay.state.events.event import LeaveReason
from groupreplay.state.phrases import (
    Data,
    assumed,
    clock_time,
    data_size,
    interval,
    milliseconds,
    rebalance_length,
    safe_text,
)


def test_plain_text_stays() -> None:
    """Letters of any script, spaces and punctuation are shown as they are."""
    assert safe_text("orders-日本 grüße/1") == "orders-日本 grüße/1"


def test_controls_and_direction_are_written_out() -> None:
    """Escape sequences, newlines, bidi overrides, zero width and surrogates become visible."""
    hostile = "a\x1b]0;x\x07\n\u202e\u200b\u2028\ud800"
    assert safe_text(hostile) == ("a\\u{1b}]0;x\\u{7}\\u{a}\\u{202e}\\u{200b}\\u{2028}\\u{d800}")


def test_an_escape_cannot_be_forged() -> None:
    r"""A text that already says ``\u{1b}`` is told from an escaped one."""
    assert safe_text("\\u{1b}") == "\\\\u{1b}"


def test_long_text_is_cut() -> None:
    """At 256 characters with an ellipsis; None cuts nothing."""
    assert safe_text("x" * 300) == "x" * 255 + "…"
    assert safe_text("x" * 300, limit=None) == "x" * 300


@given(st.text(st.characters(exclude_categories=[]), max_size=40))
def test_nothing_unsafe_is_left(text: str) -> None:
    """No control, format, surrogate or separator character passes."""
    unsafe = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert not unsafe & {unicodedata.category(char) for char in safe_text(text)}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "?"),
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1.0 s"),
        (2_250, "2.3 s"),
        (59_949, "59.9 s"),
        (59_950, "1 min 0 s"),
        (60_500, "1 min 1 s"),
        (250_400, "4 min 10 s"),
        (47 * 3_600_000 + 60_000, "47 h 1 min"),
        (171 * 3_600_000, "7 d 3 h"),
    ],
)
def test_milliseconds(value: int | None, text: str) -> None:
    """Durations are given in the unit a person would choose."""
    assert text == milliseconds(value)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (1, "1 byte"),
        (999, "999 bytes"),
        (1_000, "1 kB"),
        (43_499, "43 kB"),
        (999_499, "999 kB"),
        (999_500, "1.0 MB"),
        (1_204_540_000, "1,204.5 MB"),
    ],
)
def test_data_size(count: int, text: str) -> None:
    """No size is rounded to nothing."""
    assert data_size(count) == text


@pytest.mark.parametrize(
    ("bounds", "text"), [((5, 5), "5 ms"), ((0, 3_000), "at most 3.0 s"), ((2, 3_000), "2 ms .. 3.0 s")]
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


LEADER = {
    "leader": "m",
    "members": [{"member_id": "m", "client_id": "a", "client_host": "/h", "instance_id": None}],
}


@pytest.mark.parametrize(
    ("fields", "least_ms", "most_ms", "text"),
    [
        ({"duration_ms": 2_000}, 2_000, 2_000, "took 2.0 s"),
        ({"duration_ms": 0}, 0, 0, "took 0 ms"),
        # The leader is a part of the rebalance: the bound of the join phase alone is no bound of the whole.
        ({"duration_upper_bound_ms": 7, "sync_ms": 8_001}, 8_001, 8_008, "took 8.0 s"),
        ({"duration_upper_bound_ms": 6_000, "sync_ms": 12}, 12, 6_012, "took at most 6.0 s"),
        ({"join_ms_min": 2_000, "join_ms_max": 12_000, "sync_ms": 12}, 2_012, 12_012, "took 2.0 s .. 12.0 s"),
        ({"join_ms_max": 12_000, "duration_upper_bound_ms": 3_000}, 0, 3_000, "took at most 3.0 s"),
        ({"sync_ms": 8_001}, 8_001, None, "took at least 8.0 s"),
        ({"sync_ms": 12}, 12, None, ""),
        ({}, 0, None, ""),
        ({"duration_ms": "1", "sync_ms": True}, 0, None, ""),
    ],
)
def test_bounds(fields: dict[str, Any], least_ms: int, most_ms: int | None, text: str) -> None:
    """The join phase and the sync phase together; the exact length where the event has it."""
    found = rebalance_length(fields)
    assert (found.least_ms, found.most_ms, found.text()) == (least_ms, most_ms, text)


def test_a_slow_leader() -> None:
    """It is named from three seconds on, if the event has it."""
    slow = rebalance_length({"sync_ms": 8_001, **LEADER})
    assert slow.leader_text() == "waited 8.0 s for the assignment of the leader, a on h"
    for fast in (
        {"sync_ms": 2_999, **LEADER},
        {"sync_ms": 8_001},
        {"sync_ms": 8_001, **LEADER, "leader": "x"},
    ):
        assert rebalance_length(fast).leader_text() == ""


def test_what_a_bound_by_the_record_before_consists_of() -> None:
    """A long one is mostly time in Stable, which the text says; beside an answer of the brokers it says nothing."""
    bound = {"duration_upper_bound_ms": 361_367, "previous_generation": 2, "silent_ms": 5_000}
    for more, text in (
        ({}, "took at most 6 min 1 s (since generation 2, no commits for 5.0 s of it)"),
        ({"silent_ms": 999}, "took at most 6 min 1 s (since generation 2)"),
        ({"duration_upper_bound_ms": 9_999, "silent_ms": None}, "took at most 10.0 s"),
        ({"previous_generation": None}, "took at most 6 min 1 s (no commits for 5.0 s of it)"),
        ({"join_ms_max": 12_000}, "took at most 12.0 s"),
        ({"duration_ms": 1_400}, "took 1.4 s"),
    ):
        assert rebalance_length({**bound, **more}).text() == text


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
