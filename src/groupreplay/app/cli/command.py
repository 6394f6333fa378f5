"""Commands: click commands whose function receives one argument, the settings that the flags make.

Every command has the display flags (diagnostics, colours, log lines), before and after its name, and says what to type
instead, for mistakes of newcomers: a file without its flag, a flag of another command, and so on.
The settings that the configuration file may have are made from these flags. What is typed comes before what the file or
the environment says, also where the two are different flags that exclude each other.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import click
from click.core import ParameterSource

from groupreplay.app.cli.options import ENVIRONMENT_PREFIX, declared_by, option
from groupreplay.streaming.base.errors import did_you_mean
from groupreplay.streaming.config.config_file import FileSetting

_F = TypeVar("_F", bound=Callable[..., Any])

LOG_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")


@dataclass(slots=True)
class Display:
    """Values of the display flags; mutable because they can stand before and after the command's name."""

    debug: bool = False
    no_color: bool = False
    log_level: str = "WARNING"
    log_format: Literal["text", "json"] = "text"

    def configure_logs(self) -> None:
        """Send log lines to stderr in the chosen level and format."""
        from groupreplay.streaming.config.logs import configure_logs

        configure_logs("DEBUG" if self.debug else self.log_level.upper(), self.log_format)

    @property
    def colour(self) -> bool:
        """Whether stdout may be coloured."""
        from groupreplay.app.text.terminal import is_colour_terminal

        return is_colour_terminal(sys.stdout, no_color=self.no_color)


def display() -> Display:
    """The values of the display flags of the running command."""
    return click.get_current_context().ensure_object(Display)


def display_options(command: _F) -> _F:
    """The display flags; their values go to the ``Display`` in click's context."""
    hidden: dict[str, Any] = {"callback": _remember, "expose_value": False}
    levels = click.Choice(LOG_LEVELS, case_sensitive=False)
    formats = click.Choice(("text", "json"))
    for name, text, attributes in (
        ("--log-format", "Format of log lines on stderr (text).", {"type": formats}),
        ("--log-level", "Lowest level of log lines on stderr (WARNING).", {"type": levels}),
        ("--no-color", "Plain output, also on a terminal.", {"is_flag": True, "default": None}),
        ("--debug", "Show tracebacks and debug log lines.", {"is_flag": True, "default": None}),
    ):
        command = option(name, help=text, **attributes, **hidden)(command)
    return command


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    # After the command's name, environment and file do not count: they were already read before it.
    typed = ctx.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE
    if value is not None and (ctx.parent is None or typed):
        display = ctx.ensure_object(Display)
        setattr(display, str(param.name), value)
        display.configure_logs()


#: Key in the context of a command: the words behind its name.
_TYPED: Final = "groupreplay.typed"


def typed_words() -> tuple[Sequence[str], Sequence[str]]:
    """What was typed before and behind the name of the running command; the name itself is in neither."""
    behind = click.get_current_context().meta[_TYPED]
    return tuple(sys.argv[1 : len(sys.argv) - len(behind) - 1]), behind


#: What was a command of its own once.
_REPLACED: Final[Mapping[str, str]] = {"export": "serve --metrics-only", "timeline": "report -o FILE.json"}


class ExplainedCommand(click.Command):
    """A command that says which flag an argument needs that it does not take."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As ``click.Command``; it fails itself, with a hint."""
        ctx.allow_extra_args = True
        ctx.meta[_TYPED] = tuple(args)
        rest = super().parse_args(ctx, args)
        if rest and not ctx.resilient_parsing:
            ctx.fail(_unexpected(rest, {name for param in self.params for name in param.opts}))
        return rest


def _unexpected(words: Sequence[str], flags: Collection[str]) -> str:
    what, first = f"Got unexpected extra argument ({' '.join(words)})", words[0]
    if "--from-file" in flags and Path(first).exists():
        return f"{what}: a capture is given with --from-file {first}."
    if "--set" in flags and "=" in first:
        return f"{what}: a setting is given with --set {first}."
    if "--group" in flags:
        return f"{what}: a group is given with --group {first}."
    return f"{what}."


def unknown_command(name: str, names: Sequence[str]) -> str:
    """The error for a command that does not exist."""
    if name in _REPLACED:
        return f"No such command {name!r}: it is {_REPLACED[name]!r} now."
    near = did_you_mean(name, names).strip()
    return f"No such command {name!r}. {near[:1].upper()}{near[1:]}".strip()


def misspelt_variables(
    names: Collection[str], settings_of_commands: Callable[[], Collection[str]]
) -> list[str]:
    """A line for each environment variable that is nearly the name of a setting: it has no effect.

    Others are left alone: Kubernetes makes variables of the names of services.
    """
    ours = [name for name in sorted(names) if name.startswith(ENVIRONMENT_PREFIX)]
    settings = settings_of_commands() if ours else ()
    return [
        f"warning: {name} has no effect: {near.strip()}"
        for name in ours
        if name not in settings and (near := did_you_mean(name, settings, 0.9))
    ]


def hint(error: click.UsageError) -> str | None:
    """What to type instead of a flag that the command does not have; None: nothing is known."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return None
    if isinstance(error.ctx.command, click.Group) and error.option_name.startswith("--"):
        return f"Flags of a command stand behind its name: groupreplay list {error.option_name} ..."
    if error.ctx.info_name == "events" and error.option_name == "--from-file":
        return "events reads what the job has written; the events of a capture: groupreplay replay --from-file FILE"
    return None


_S = TypeVar("_S")


def with_settings(
    name: str, make: Callable[..., _S], **fields: Any
) -> Callable[[Callable[[_S], int | None]], click.Command]:
    """A command that receives the value of ``make`` and returns its exit code, None for 0.

    Its flags are the fields of the dataclass ``make``, or ``fields``, and the display flags.
    """
    declared = declared_by(make, **fields)

    def decorate(function: Callable[[_S], int | None]) -> click.Command:
        @wraps(function)
        def called(**values: Any) -> int | None:
            return function(declared.take(values))

        decorated = display_options(called)
        for declare in reversed(declared.options):
            decorated = declare(decorated)
        return click.command(name, cls=ExplainedCommand)(decorated)

    return decorate


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
