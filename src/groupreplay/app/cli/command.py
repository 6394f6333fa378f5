"""Commands: click commands whose function receives one argument, the settings that the flags make."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import click

from groupreplay.app.cli.display import display_options
from groupreplay.app.cli.options import declared_by
from groupreplay.app.cli.usage_hints import ExplainedCommand

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
        for option in reversed(declared.options):
            decorated = option(decorated)
        return click.command(name, cls=ExplainedCommand)(decorated)

    return decorate
