"""Options with environment variables, and groups of options as one value."""

from __future__ import annotations

from typing import NamedTuple

import click
from click.testing import CliRunner

from groupreplay.streaming.cli.options import option, option_group, options, pairs_option


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


def test_groups_of_options() -> None:
    """A group is one argument of the command, made from its options; groups nest; the order of --help is kept."""

    class Point(NamedTuple):
        x: int
        y: int = 7

    class Line(NamedTuple):
        start: Point
        label: str

    point = option_group("start", Point, option("-x", "--x", type=int, required=True))

    @click.command()
    @option_group("line", Line, option("--label", default="l"), point)
    @options(option("--first"), pairs_option("--pair", "pairs"))
    def command(line: Line, first: str | None, pairs: dict[str, str]) -> None:
        click.echo(f"{line} {first} {pairs}")

    assert [parameter.name for parameter in command.params] == ["label", "x", "first", "pairs"]
    words = ["-x", "1", "--pair", "a=b", "--pair", "c=d=e"]
    expected = f"{Line(Point(1, 7), 'l')} None { {'a': 'b', 'c': 'd=e'} }\n"
    assert CliRunner().invoke(command, words).output == expected
