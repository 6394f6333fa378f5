"""Values of flags."""

from __future__ import annotations

import time
from collections.abc import Callable

import click
import pytest

from groupreplay.streaming.cli.flag_values import duration, listen_address, moment, names, pair


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1700000000123", 1_700_000_000_123),
        ("2026-01-01T00:00:00Z", 1_767_225_600_000),
        ("2026-01-01T00:00:00", 1_767_225_600_000),
        ("2026-01-01 00:00:00.250", 1_767_225_600_250),
        ("2026-01-01T02:00:00+02:00", 1_767_225_600_000),
        ("2026-01-01", 1_767_225_600_000),
    ],
)
def test_moments(text: str, expected: int) -> None:
    """Times are UTC unless they say otherwise."""
    assert moment(text) == expected


@pytest.mark.parametrize(
    ("text", "age_ms"), [("90s", 90_000), ("5m", 300_000), ("2h", 7_200_000), ("3d", 259_200_000)]
)
def test_ages(text: str, age_ms: int) -> None:
    """A number and a unit is so long ago."""
    before = time.time_ns() // 1_000_000
    assert before <= moment(text) + age_ms <= time.time_ns() // 1_000_000


@pytest.mark.parametrize(
    ("read", "text"),
    [(moment, "yesterday"), (moment, "2w"), (moment, "h"), (pair, "novalue"), (pair, "=x"), (moment, "")],
)
def test_wrong_values(read: Callable[[str], object], text: str) -> None:
    """A value that cannot be read is a usage error that quotes it."""
    with pytest.raises(click.BadParameter) as caught:
        read(text)
    assert repr(text) in caught.value.message


def test_names_and_pairs() -> None:
    """Lists as Kafka's tools take them, and settings."""
    assert names("stable, empty,") == ("stable", "empty")
    assert pair("team=a=b") == ("team", "a=b")


@pytest.mark.parametrize(
    ("text", "expected"), [("90s", 90_000), ("30m", 1_800_000), ("24h", 86_400_000), ("7d", 604_800_000)]
)
def test_durations(text: str, expected: int) -> None:
    """A number and a unit."""
    assert duration(text) == expected


@pytest.mark.parametrize("text", ["", "24", "h", "-1h", "1.5h", "1w"])
def test_what_is_no_duration(text: str) -> None:
    """Said with what would be one."""
    with pytest.raises(click.BadParameter, match="24h"):
        duration(text)


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:9408", ("127.0.0.1", 9408)), ("[::1]:0", ("::1", 0)), ("exporter:1", ("exporter", 1))],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    """A host, which may be IPv6 in brackets, and a port."""
    assert listen_address(text) == address


@pytest.mark.parametrize("text", ["9408", ":9408", "host:", "host:x", "host:-1", ""])
def test_what_is_no_address(text: str) -> None:
    """It says what one looks like; listening everywhere has to be asked for by name."""
    with pytest.raises(click.BadParameter, match=r"write 127\.0\.0\.1:9408"):
        listen_address(text)
