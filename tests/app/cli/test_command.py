"""Commands that receive the settings made from their flags."""

from __future__ import annotations

from dataclasses import dataclass

import click
from click.testing import CliRunner

from groupreplay.app.cli.command import with_settings
from groupreplay.app.cli.options import declared_as, flag, group, pairs_flag, switch


@dataclass(frozen=True)
class Point:
    """Two numbers."""

    x: int
    y: int


@dataclass(frozen=True)
class Settings:
    """The settings of a command."""

    start: Point = group(Point, x=flag("X.", "-x", type=int, required=True), y=flag("Y.", "--why", default=7))
    labels: dict[str, str] = pairs_flag("Labels.", "--label")
    name: str | None = declared_as(click.argument("name", required=False))
    once: bool = switch("Once.")


def test_fields_are_flags() -> None:
    """Each field is a flag or a group of flags, in the order of the class; the command receives the instance."""
    given: list[Settings] = []
    command = with_settings("c", Settings)(given.append)
    flags = [one.opts for one in command.params[:5]]
    assert flags == [["-x", "--x"], ["--why"], ["--label"], ["name"], ["--once"]]
    assert CliRunner().invoke(command, ["-x", "1", "--label", "a=b", "--label", "c=d=e", "n"]).exit_code == 0
    assert given == [Settings(Point(1, 7), {"a": "b", "c": "d=e"}, "n", False)]
    assert CliRunner().invoke(command, []).exit_code == 2
