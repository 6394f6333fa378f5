"""The settings that the configuration file may have, from the flags of the commands; and which of them give way.

What is typed comes before what the file or the environment says, also where the two are different flags that exclude
each other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import click
from click.core import ParameterSource

from groupreplay.streaming.config.config_file import FileSetting

#: Flags of the program that ask for something else than the command.
_NOT_IN_FILE: Final = ("config", "version")
_SWITCH: Final[Mapping[bool, Any]] = {True: True, False: False}


def file_settings(
    ctx: click.Context, program: click.Group
) -> tuple[dict[str, FileSetting], dict[str, dict[str, FileSetting]]]:
    """The settings of the program itself and of each command, by their names in the file."""
    shared = {param.name for param in program.params}
    commands = {name: program.get_command(ctx, name) for name in program.list_commands(ctx)}
    return dict(_settings(program.params, _NOT_IN_FILE)), {
        name: dict(_settings(command.params, shared)) for name, command in commands.items() if command
    }


def _settings(
    params: list[click.Parameter], without: Collection[str | None]
) -> Iterator[tuple[str, FileSetting]]:
    for param in params:
        if isinstance(param, click.Option) and param.name not in without:
            parameter, name = str(param.name), _name(param.opts)
            if not param.is_flag and not _chooses(param):
                yield name, FileSetting(parameter, None, param.multiple, _choices(param))
                continue
            yield name, FileSetting(parameter, {True: param.flag_value} if _chooses(param) else _SWITCH)
            for opposite in param.secondary_opts:
                yield _name([opposite]), FileSetting(parameter, {True: False, False: True})


def _chooses(param: click.Option) -> bool:
    """Whether the flag stands for one value of a parameter that has several such flags."""
    return isinstance(param.flag_value, str)


def _name(flags: list[str]) -> str:
    return next(flag for flag in flags if flag.startswith("--")).lstrip("-").replace("-", "_")


def _choices(param: click.Option) -> frozenset[str] | None:
    return (
        frozenset(str(choice).lower() for choice in param.type.choices)
        if isinstance(param.type, click.Choice)
        else None
    )


def is_typed(parameter: str) -> bool:
    """Whether a parameter of the running command, if there is one, was given on the command line."""
    context = click.get_current_context(silent=True)
    return context is not None and context.get_parameter_source(parameter) is ParameterSource.COMMANDLINE


def giving_way(empty: Mapping[str, Any], **parameters: str) -> dict[str, Any]:
    """The fields of ``empty`` that give way, with their values: those that were not typed, if another one was.

    ``empty`` has fields that exclude each other, with the value of each that was not given; ``parameters`` their names
    in click, where these differ.
    """
    typed = {name for name in empty if is_typed(parameters.get(name, name))}
    return {name: value for name, value in empty.items() if name not in typed} if typed else {}
