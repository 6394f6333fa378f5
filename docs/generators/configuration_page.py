"""``docs/configuration.md``, every setting of every command, from the flags."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

from groupreplay.streaming.cli.program import COMMANDS, cli
from groupreplay.streaming.config.config_file import SHARED

_INTRO: Final = """\
# Settings

This page is made from the program's flags by `make docs`; a test fails when it is out of date.

A setting can be given as a flag, as an environment variable, or in the configuration file, and the first of them that
is there wins ([cli.md](cli.md#settings-from-elsewhere)). In the file a setting has the name of its flag without the
hyphens in front, in the table of its command, `[run]` for instance; where the last column says so it may stand at the
top of the file, too, for all commands that have it. Settings that may be repeated are lists there, switches are `true`
or `false`. What is typed comes first also where two flags exclude each other, and a setting of the file that does not
apply to a call (`since` without `--history`) is left out. Security stays in the properties file that `command-config` names; no setting takes a password.

"""
#: Flags of the program itself, and those that ask for something else than the command.
_HIDDEN: Final = frozenset({"--help", "--version"})


def page() -> str:
    """The whole page."""
    return _INTRO + "\n".join(_sections()).rstrip() + "\n"


def _sections() -> Iterator[str]:
    ctx = click.Context(cli)
    yield from _section("groupreplay", "Before or behind the name of any command:", cli)
    for name, summary in COMMANDS.items():
        command = cli.get_command(ctx, name)
        assert command is not None
        yield from _section(name, summary, command)


def _section(name: str, summary: str, command: click.Command) -> Iterator[str]:
    shared = set() if command is cli else {parameter.name for parameter in cli.params}
    options = [
        one
        for one in command.params
        if isinstance(one, click.Option) and one.name not in shared and not _HIDDEN & {*one.opts}
    ]
    yield from (f"## {name}", "", summary, "")
    if options:
        yield from (
            "| flag | environment variable | what it says | default | top of the file |",
            "| --- " * 5 + "|",
        )
        yield from map(_row, options)
        yield ""


def _row(one: click.Option) -> str:
    flags = ", ".join(f"`{flag}`" for flag in (*one.opts, *one.secondary_opts))
    value = "" if one.is_flag else f" {_value(one)}"
    repeated = "; may be repeated" if one.multiple and "may be repeated" not in (one.help or "") else ""
    note = ("; required" if one.required else "") + repeated
    top = "yes" if one.name in SHARED else ""
    says = (one.help or "").removesuffix(".").replace("|", "\\|")
    variable = f"`{one.envvar}`" if one.envvar else ""
    return f"| {flags}{value} | {variable} | {says}{note} | {_default(one)} | {top} |"


def _value(one: click.Option) -> str:
    if isinstance(one.type, click.Choice):
        return " \\| ".join(map(str, one.type.choices))
    return one.metavar or one.type.name.upper().removesuffix(" RANGE")


def _default(one: click.Option) -> str:
    if one.multiple or one.default is None or one.default == () or "UNSET" in repr(one.default).upper():
        return ""
    if one.is_flag:
        return "yes" if one.default else "no"
    return f"`{one.default}`"
