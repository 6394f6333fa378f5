"""Flags for diagnostics, colours and log lines; every command accepts them before and after its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

import click
from click.core import ParameterSource

from groupreplay.app.cli.options import option

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
        import sys

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
