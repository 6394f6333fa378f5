"""Click options that also read an environment variable, and groups of options that become one value.

Imports nothing heavy: ``--help`` loads this module.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from groupreplay.streaming.cli.flag_values import pair

if TYPE_CHECKING:
    from groupreplay.streaming.text.terminal import OutputFormat

_F = TypeVar("_F", bound=Callable[..., Any])
Decorator = Callable[[_F], _F]

ENVIRONMENT_PREFIX: Final = "GROUPREPLAY_"
TABLE_FORMATS: Final[tuple[OutputFormat, ...]] = ("table", "json", "jsonl", "csv")


def option(*names: str, **attributes: Any) -> Callable[[_F], _F]:
    """A click option that is also read from the environment variable ``GROUPREPLAY_`` plus its name."""
    long = next(name for name in names if name.startswith("--"))
    variable = ENVIRONMENT_PREFIX + long.split("/")[0].lstrip("-").replace("-", "_").upper()
    return click.option(*names, envvar=variable, **attributes)


def options(*decorators: Decorator[Any]) -> Callable[[_F], _F]:
    """All of these options, in this order in ``--help``."""

    def decorate(command: _F) -> _F:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


def option_group(name: str, make: Callable[..., Any], *decorators: Decorator[Any]) -> Callable[[_F], _F]:
    """Options that the command receives as one argument: ``name``, built by ``make``.

    Each parameter of ``make`` receives the option (or the inner group) of the same name. A parameter without
    such an option keeps its default.
    """
    takes = tuple(inspect.signature(make).parameters)

    def decorate(command: _F) -> _F:
        @wraps(command)
        def grouped(*args: Any, **values: Any) -> Any:
            own = {parameter: values.pop(parameter) for parameter in takes if parameter in values}
            return command(*args, **values, **{name: make(**own)})

        return options(*decorators)(cast("_F", grouped))

    return decorate


def pairs_option(*names: str, **attributes: Any) -> Callable[[_F], _F]:
    """An option that may be repeated, with values ``KEY=VALUE``; the command receives a dict."""
    return option(
        *names,
        type=pair,
        multiple=True,
        metavar="KEY=VALUE",
        callback=lambda _context, _parameter, pairs: dict(pairs),
        **attributes,
    )


def file_option(*names: str, **attributes: Any) -> Callable[[_F], _F]:
    """An option that names a file; the command receives a Path."""
    return option(*names, type=click.Path(path_type=Path), metavar="FILE", **attributes)


def output_option(*formats: OutputFormat) -> Callable[[_F], _F]:
    """``-o``, with the first format as default."""
    return option(
        "-o",
        "--output",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="Output format.",
    )
