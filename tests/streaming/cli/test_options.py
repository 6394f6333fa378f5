"""Flags: their environment variables, their types, and where they may stand."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from groupreplay.streaming.cli.options import (
    duration,
    find_cluster,
    moment,
    names,
    need_cluster,
    option,
    pair,
    topic_options,
)


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


def test_topic_names() -> None:
    """The five topics have defaults and can each be named."""

    @click.command()
    @topic_options
    def command(topics: dict[str, str]) -> None:
        click.echo(sorted(topics.items()))

    assert CliRunner().invoke(command, ["--dead-letters-topic", "x"]).output == (
        "[('dead_letters', 'x'), ('events', 'group-events'), ('job', 'group-job'), "
        "('probes', 'group-probes'), ('states', 'group-states')]\n"
    )


def test_which_cluster(tmp_path: Path) -> None:
    """The flag names the cluster, else the properties file does; without either there is none."""
    path = tmp_path / "client.properties"
    path.write_text("bootstrap.servers=file:1\nclient.id=x\n")
    from_file, from_flag = find_cluster(None, path), find_cluster("flag:1", path)
    assert from_file is not None
    assert from_flag is not None
    assert (from_file.bootstrap_servers, from_file.properties["client.id"]) == ("file:1", "x")
    assert from_flag.bootstrap_servers == "flag:1"
    assert find_cluster(None, None) is None
    with pytest.raises(click.UsageError, match="--bootstrap-server"):
        need_cluster(None, None)


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
