"""Declarations of flags: click options that also read an environment variable, as fields of a command's settings.

Imports nothing heavy: ``--help`` loads this module.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from groupreplay.app.cli.flag_values import moment, names_of, pair, zone
from groupreplay.app.cli.flag_values import names as comma_separated

if TYPE_CHECKING:
    from groupreplay.app.text.tables import OutputFormat

_F = TypeVar("_F", bound=Callable[..., Any])
Decorator = Callable[[_F], _F]

ENVIRONMENT_PREFIX: Final = "GROUPREPLAY_"
TABLE_FORMATS: Final[tuple[OutputFormat, ...]] = ("table", "json", "jsonl", "csv")
#: Key in the metadata of a field: the function from the field's name to its ``Declared``.
_DECLARE: Final = "declare"


def option(*names: str, **attributes: Any) -> Callable[[_F], _F]:
    """A click option that is also read from the environment variable ``GROUPREPLAY_`` plus its name."""
    return click.option(*names, envvar=ENVIRONMENT_PREFIX + parameter_name(*names).upper(), **attributes)


def parameter_name(*names: str) -> str:
    """``probe_interval`` for the flag ``--probe-interval``."""
    long = next(name for name in names if name.startswith("--"))
    return long.split("/")[0].lstrip("-").replace("-", "_")


class Declared(NamedTuple):
    """The options of one field in the order of ``--help``; ``take`` removes their values and makes the field's."""

    options: tuple[Decorator[Any], ...]
    take: Callable[[dict[str, Any]], Any]


def flag(text: str, *names: str, **attributes: Any) -> Any:
    """A field with the value of one flag, ``--`` plus the field's name unless ``names`` contains another.

    ``attributes`` are those of click's options; a default is shown in the help.
    """
    attributes = {"show_default": "default" in attributes, **attributes}

    def declare(field: str) -> Declared:
        is_named = any(name.startswith("--") for name in names)
        flags = names if is_named else (*names, f"--{field.replace('_', '-')}")
        parameter = parameter_name(*flags)
        declared = option(*flags, parameter, help=text, **attributes)
        return Declared((declared,), lambda values: values.pop(parameter))

    return dataclasses.field(metadata={_DECLARE: declare})


def switch(text: str) -> Any:
    """A field that is true if its flag is given."""
    return flag(text, is_flag=True)


def force_flag() -> Any:
    """A field that is true if files that exist may be replaced."""
    return switch("Replace files that exist.")


def file_flag(text: str, *names: str, **attributes: Any) -> Any:
    """A field with the path of a file."""
    return flag(text, *names, type=click.Path(path_type=Path), metavar="FILE", **attributes)


def time_flag(text: str) -> Any:
    """A field with a ``GivenTime``, None without the flag."""
    return flag(text, type=moment, metavar="TIME")


def time_zone_flag() -> Any:
    """A field with the ``TimeZone`` of times without one, on the command line and in tables."""
    text = "Time zone of tables, and of times that are given without one, such as Europe/Berlin."
    return flag(text, "--time-zone", type=zone, metavar="ZONE", default="UTC")


def names_flag(text: str, *names: str) -> Any:
    """A field with names that are given separated by commas."""
    return flag(text, *names, type=comma_separated, default="", show_default=False, metavar="NAMES")


def known_names_flag(text: str, *names: str, known: Callable[[], Sequence[str]]) -> Any:
    """The same of names that must be ``known``."""
    return flag(text, *names, type=names_of(known), default="", show_default=False, metavar="NAMES")


def groups_flag(text: str) -> Any:
    """A field with ids of groups or globs; the flag may be repeated."""
    return repeated_flag(f"{text}: its id, or a glob such as 'pay-*'; may be repeated.", "--group", "GLOB")


def severity_flag(text: str = "Lowest severity to print.") -> Any:
    """A field with the least severity: info, warn or error."""
    choice = click.Choice(("info", "warn", "error"), case_sensitive=False)
    return flag(text, "--min-severity", type=choice, default="info")


def repeated_flag(text: str, name: str, metavar: str) -> Any:
    """A field with the values of a flag that may be repeated."""
    return flag(text, name, multiple=True, metavar=metavar)


def pairs_flag(text: str, *names: str, metavar: str = "KEY=VALUE") -> Any:
    """A field with a dict; its flag may be repeated, with values ``KEY=VALUE``."""
    return flag(
        text,
        *names,
        type=pair,
        multiple=True,
        metavar=metavar,
        callback=lambda _context, _parameter, pairs: dict(pairs),
    )


def output_flag(*formats: OutputFormat) -> Any:
    """A field with the value of ``-o``, by default the first format."""
    choice = click.Choice(formats)
    return flag("Output format.", "-o", type=choice, default=formats[0])


def declared_as(*options: Decorator[Any]) -> Any:
    """A field with the value of click parameters that all have the field's name."""
    return dataclasses.field(
        metadata={_DECLARE: lambda field: Declared(options, lambda values: values.pop(field))}
    )


def group(make: Callable[..., Any], **parts: Any) -> Any:
    """A field with the value of ``make``, which receives each of these fields as an argument."""

    def declare(_: str) -> Declared:
        declared = {name: part.metadata[_DECLARE](name) for name, part in parts.items()}
        return Declared(
            tuple(one for part in declared.values() for one in part.options),
            lambda values: make(**{name: part.take(values) for name, part in declared.items()}),
        )

    return dataclasses.field(metadata={_DECLARE: declare})


def declared_by(make: Callable[..., Any], **parts: Any) -> Declared:
    """The options of these fields, or of all fields of the dataclass ``make``; their value is that of ``make``."""
    parts = parts or {part.name: part for part in dataclasses.fields(make)}  # type: ignore[arg-type]
    declared: Declared = group(make, **parts).metadata[_DECLARE]("")
    return declared
