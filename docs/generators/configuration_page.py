"""``docs/configuration.md``, every setting of every command, from the flags."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

from groupreplay.app.cli.program import COMMANDS, cli
from groupreplay.streaming.config.config_file import SHARED

_INTRO: Final = """\
# Settings

This page is made from the program's flags by `make docs`; a test fails when it is out of date.

A setting can be given as a flag, as an environment variable, or in the configuration file. The first of these that is
set wins ([cli.md](cli.md#settings-from-elsewhere)). Settings without an environment variable have only the other two.

In the file a setting has the name of its flag without the leading hyphens. It stands in the table of its command, for
example `[run]`. If the last column has `yes`, it may also stand at the top of the file, for all commands that have it.
A setting that may be repeated is a list there, a switch is `true` or `false`.

What is typed comes first, also where two flags exclude each other. A setting of the file that does not apply to a call
(`since` without `--history`) is left out.

Logins stay in the properties file that `command-config` names; no setting takes a password.

"""
#: Flags of the program itself, and those that ask for something else than the command.
_HIDDEN: Final = frozenset({"--help", "--version"})


def page() -> str:
    """The whole page."""
    return _INTRO + "\n".join(_sections()).rstrip() + "\n"


def _sections() -> Iterator[str]:
    ctx = click.Context(cli)
    yield from _section("groupreplay", "Before or after the name of any command:", cli)
    for name, entry in COMMANDS.items():
        command = cli.get_command(ctx, name)
        assert command is not None
        yield from _section(name, entry.line, command)


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
            "| flag | environment variable | meaning | default | top of the file |",
            "| --- " * 5 + "|",
        )
        yield from map(_row, options)
        yield ""


def _row(one: click.Option) -> str:
    flags = ", ".join(f"`{flag}`" for flag in (*one.opts, *one.secondary_opts))
    value = "" if one.is_flag else f" {_value(one)}"
    top = "yes" if one.name in SHARED else ""
    meaning = (one.help or "").removesuffix(".").replace("|", "\\|") + ("; required" if one.required else "")
    if one.multiple and "may be repeated" not in meaning:
        meaning += "; may be repeated"
    variable = f"`{one.envvar}`" if one.envvar else ""
    return f"| {flags}{value} | {variable} | {meaning} | {_default(one)} | {top} |"


def _value(one: click.Option) -> str:
    if isinstance(one.type, click.Choice):
        return " \\| ".join(map(str, one.type.choices))
    return one.metavar or one.type.name.upper().removesuffix(" RANGE")


def _default(one: click.Option) -> str:
    if isinstance(one.show_default, str):
        return one.show_default
    if one.multiple or one.default in (None, (), "") or "UNSET" in repr(one.default).upper():
        return ""
    if one.is_flag:
        return "yes" if one.default else "no"
    return f"`{one.default}`"
