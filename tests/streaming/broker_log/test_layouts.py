"""Conversion patterns of Log4j as layouts of lines."""

from __future__ import annotations

import pytest

from groupreplay.streaming.broker_log.layouts import LAYOUTS, PatternError, layout

MESSAGE = "[GroupCoordinator 1]: Group g with generation 4 is now empty (__consumer_offsets-1)"
AT_MS = 1_790_000_000_123
#: A line of each layout, as its images write it.
LINES = {
    "[%d] %p %m (%c)%n": f"[2026-09-21 14:13:20,123] INFO {MESSAGE} (kafka.coordinator.group.GroupCoordinator)",
    "%d{ISO8601} %p %m (%c) [%t]%n": f"2026-09-21 14:13:20,123 INFO {MESSAGE} (kafka.coordinator.group."
    "GroupCoordinator) [executor-Heartbeat]",
    "%d{yyyy-MM-dd HH:mm:ss} %-5p %c{1}:%L - %m%n": f"2026-09-21 14:13:20 INFO  GroupCoordinator:66 - {MESSAGE}",
    "%d{yyyy-MM-dd HH:mm:ss} %-5p [%t] %c{1}:%L - %m%n": "2026-09-21 14:13:20 INFO  [executor-Heartbeat] "
    f"GroupCoordinator:66 - {MESSAGE}",
    "%d [%t] %p %c - %m%n": "2026-09-21T14:13:20.123Z [executor-Heartbeat] INFO kafka.coordinator.group."
    f"GroupCoordinator - {MESSAGE}",
}


@pytest.mark.parametrize(
    "before", ["", "2026-09-21T16:13:21.000000001Z stdout F ", "Sep 21 16:13:20 b1 kafka[7]: "]
)
@pytest.mark.parametrize("pattern", LAYOUTS.values())
def test_a_line_of_each_layout(pattern: str, before: str) -> None:
    """The time and the message alone, also behind what a container runtime or journald writes in front."""
    at_ms, message = layout(pattern).message(before + LINES[pattern]) or (None, None)
    assert (at_ms, message) == (AT_MS if "ss}" not in pattern else AT_MS - 123, MESSAGE)


@pytest.mark.parametrize(
    "line", ["", "\tat kafka.Kafka.main(Kafka.scala)", "[2026-99-21 14:13:20,123] INFO a (b)"]
)
def test_a_line_of_none(line: str) -> None:
    """Blank lines, stack traces and times that cannot be."""
    assert [layout(pattern).message(line) for pattern in LAYOUTS.values()] == [None] * len(LAYOUTS)


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        ("%d{dd.MM.yyyy HH:mm:ss.SSS XXX}|%X{rack}|%m|%c%n", "21.09.2026 16:13:20.123 +02:00|r1|said|k.Log"),
        ("%date{yyyy-MM-dd'T'HH:mm:ss.SSSZ} %-5level %msg%n", "2026-09-21T16:13:20.123+0200 INFO  said"),
    ],
)
def test_a_pattern_of_an_operator(pattern: str, line: str) -> None:
    """Dates in another order and zone, values of the context, long names of words."""
    assert layout(pattern).message(line) == (AT_MS, "said")


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("%p %m%n", "it needs %d with a date, and %m"),
        ("%d %p%n", "it needs %d with a date, and %m"),
        ("%d %m %m", "it has %d or %m more than once"),
        ("%d{ABSOLUTE} %m", "in %d{ABSOLUTE} the letters A are not known"),
        (
            "%d{HH:mm:ss} %m",
            "%d needs year, month, day, hour, minute and second, such as yyyy-MM-dd HH:mm:ss",
        ),
    ],
)
def test_a_pattern_that_cannot_be_used(pattern: str, why: str) -> None:
    """The error says what is missing."""
    with pytest.raises(PatternError) as error:
        layout(pattern)
    assert str(error.value) == why
