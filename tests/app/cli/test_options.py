"""``app/cli/options.py``."""

from __future__ import annotations

from collections.abc import Callable

import click
import pytest
from click.testing import CliRunner

from groupreplay.app.cli.options import (
    comma_separated_names,
    duration,
    listen_address,
    moment,
    option,
    pair,
    zone,
)


@pytest.mark.parametrize(
    ("read", "text", "expected"),
    [
        (comma_separated_names, "stable, empty,", ("stable", "empty")),
        (pair, "team=a=b", ("team", "a=b")),
        (duration, "90s", 90_000),
        (duration, "30m", 1_800_000),
        (duration, "24h", 86_400_000),
        (duration, "7d", 604_800_000),
        (duration, "1.5h", 5_400_000),
        (listen_address, "127.0.0.1:9408", ("127.0.0.1", 9408)),
        (listen_address, "[::1]:0", ("::1", 0)),
        (listen_address, "exporter:1", ("exporter", 1)),
    ],
)
def test_values(read: Callable[[str], object], text: str, expected: object) -> None:
    """Lists as in Kafka's tools; a host may be IPv6 in brackets."""
    assert read(text) == expected


def test_times() -> None:
    """A time is read, and keeps its text until the end of the data is known; a value that was read stays."""
    found = moment("1.5h")
    assert (found.text, found.age_ms, moment(found)) == ("1.5h", 5_400_000, found)
    berlin = zone("Europe/Berlin")
    assert (berlin.name, zone(berlin)) == ("Europe/Berlin", berlin)


@pytest.mark.parametrize(
    ("read", "texts", "example"),
    [
        (moment, ("yesterday", "2w", "h", ""), "2026-01-31T02:00:00Z, 02:00, 2h (two hours ago), now"),
        (zone, ("Mars/Olympus", "Europe", ""), "Europe/Berlin"),
        (pair, ("novalue", "=x"), "KEY=VALUE"),
        (duration, ("", "24", "h", "-1h", "1w"), "24h"),
        (listen_address, ("9408", ":9408", "host:", "host:x", "host:-1", ""), "write 127.0.0.1:9408"),
    ],
)
def test_wrong_values(read: Callable[[str], object], texts: tuple[str, ...], example: str) -> None:
    """A value that cannot be read is a usage error that quotes it and shows what is expected."""
    for text in texts:
        with pytest.raises(click.BadParameter) as caught:
            read(text)
        assert (repr(text) in caught.value.message, example in caught.value.message) == (True, True)


def test_environment_variable() -> None:
    """Each flag has a variable of the same name; the flag wins."""

    @click.command()
    @option("--bootstrap-server")
    @option("--probe/--no-probe")
    def command(bootstrap_server: str, probe: bool) -> None:
        click.echo(f"{bootstrap_server} {probe}")

    env = {"GROUPREPLAY_BOOTSTRAP_SERVER": "env:1", "GROUPREPLAY_PROBE": "1"}
    assert CliRunner().invoke(command, [], env=env).output == "env:1 True\n"
    assert CliRunner().invoke(command, ["--bootstrap-server", "flag:1"], env=env).output == "flag:1 True\n"
