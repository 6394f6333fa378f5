"""Values of flags."""

from __future__ import annotations

import time
from collections.abc import Callable

import click
import pytest

from groupreplay.streaming.cli.flag_values import duration, listen_address, moment, names, pair


@pytest.mark.parametrize(
    ("read", "text", "expected"),
    [
        (moment, "1700000000123", 1_700_000_000_123),
        (moment, "2026-01-01T00:00:00Z", 1_767_225_600_000),
        (moment, "2026-01-01T00:00:00", 1_767_225_600_000),
        (moment, "2026-01-01 00:00:00.250", 1_767_225_600_250),
        (moment, "2026-01-01T02:00:00+02:00", 1_767_225_600_000),
        (moment, "2026-01-01", 1_767_225_600_000),
        (names, "stable, empty,", ("stable", "empty")),
        (pair, "team=a=b", ("team", "a=b")),
        (duration, "90s", 90_000),
        (duration, "30m", 1_800_000),
        (duration, "24h", 86_400_000),
        (duration, "7d", 604_800_000),
        (listen_address, "127.0.0.1:9408", ("127.0.0.1", 9408)),
        (listen_address, "[::1]:0", ("::1", 0)),
        (listen_address, "exporter:1", ("exporter", 1)),
    ],
)
def test_values(read: Callable[[str], object], text: str, expected: object) -> None:
    """Times are UTC without an offset; lists as in Kafka's tools; a host may be IPv6 in brackets."""
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "age_ms"), [("90s", 90_000), ("5m", 300_000), ("2h", 7_200_000), ("3d", 259_200_000)]
)
def test_ages(text: str, age_ms: int) -> None:
    """A number and a unit is so long ago."""
    before = time.time_ns() // 1_000_000
    assert before <= moment(text) + age_ms <= time.time_ns() // 1_000_000


@pytest.mark.parametrize(
    ("read", "texts", "example"),
    [
        (moment, ("yesterday", "2w", "h", ""), "2026-01-31T02:00:00Z"),
        (pair, ("novalue", "=x"), "KEY=VALUE"),
        (duration, ("", "24", "h", "-1h", "1.5h", "1w"), "24h"),
        (listen_address, ("9408", ":9408", "host:", "host:x", "host:-1", ""), "write 127.0.0.1:9408"),
    ],
)
def test_wrong_values(read: Callable[[str], object], texts: tuple[str, ...], example: str) -> None:
    """A value that cannot be read is a usage error that quotes it and shows what is expected."""
    for text in texts:
        with pytest.raises(click.BadParameter) as caught:
            read(text)
        assert (repr(text) in caught.value.message, example in caught.value.message) == (True, True)
