"""Declarations of flags: click options that also read an environment variable, as fields of a command's settings.

First the values of flags: points in time, durations, lists of names, pairs, addresses. Imports nothing heavy:
``--help`` loads this module.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from groupreplay.app.text.times import GivenTime, duration_ms, given_time
from groupreplay.streaming.base.clock import TimeZone, time_zone
from groupreplay.streaming.base.errors import did_you_mean

if TYPE_CHECKING:
    from groupreplay.app.text.tables import OutputFormat
    from groupreplay.streaming.engine.group_choice import GroupChoice


def moment(value: str | GivenTime) -> GivenTime:
    """A point in time; ``cli/printing_flags.py`` makes milliseconds of it when the end of the data is known."""
    if isinstance(value, GivenTime):
        return value
    try:
        return given_time(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def zone(value: str | TimeZone) -> TimeZone:
    """The zone of ``--time-zone``: a name of the IANA database or an offset."""
    if isinstance(value, TimeZone):
        return value
    try:
        return time_zone(value)
    except ValueError as error:
        what = f"{error}; write UTC, a name such as Europe/Berlin, or an offset such as +02:00"
        raise click.BadParameter(what) from None


def duration(value: str) -> int:
    """A duration such as ``90s``, ``30m``, ``1.5h`` or ``7d``, in milliseconds."""
    try:
        return duration_ms(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def comma_separated_names(value: str) -> tuple[str, ...]:
    """Names separated by commas, as Kafka's tools take them."""
    return tuple(name.strip() for name in value.split(",") if name.strip())


def names_of(known: Callable[[], Sequence[str]]) -> Callable[[str], tuple[str, ...]]:
    """Names separated by commas that are all ``known``, which is called only if one is given.

    Case, hyphens and underscores do not matter; the names are returned as they are known.
    """

    def read(value: str) -> tuple[str, ...]:
        typed = comma_separated_names(value)
        spelled = {plain_name(name): name for name in known()} if typed else {}
        for name in typed:
            if plain_name(name) not in spelled:
                hint = did_you_mean(name, list(spelled.values()))
                raise click.BadParameter(
                    f"unknown name {name!r}; {hint}known are {', '.join(spelled.values())}"
                )
        return tuple(spelled[plain_name(name)] for name in typed)

    return read


def plain_name(name: str) -> str:
    """``NotReady``, ``notready`` and ``not_ready`` are the same."""
    return name.lower().replace("_", "").replace("-", "")


def pair(value: str) -> tuple[str, str]:
    """``KEY=VALUE``."""
    key, equals, text = value.partition("=")
    if not key or not equals:
        raise click.BadParameter(f"{value!r} is not KEY=VALUE")
    return key, text


def listen_address(value: str) -> tuple[str, int]:
    """``127.0.0.1:9408`` or ``[::1]:9408``."""
    host, colon, port = value.rpartition(":")
    if not colon or not port.isdecimal() or not host:
        raise click.BadParameter(f"{value!r} is not HOST:PORT; write 127.0.0.1:9408")
    return host.removeprefix("[").removesuffix("]"), int(port)


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


def complete_since_flag() -> Any:
    """A field with the time from which on all records are there."""
    return time_flag(
        "No record since this time is missing: a first commit after it proves that the group is new."
    )


def time_zone_flag() -> Any:
    """A field with the ``TimeZone`` of times without one, on the command line and in tables."""
    text = "Time zone of tables, and of times that are given without one, such as Europe/Berlin."
    return flag(text, "--time-zone", type=zone, metavar="ZONE", default="UTC")


def names_flag(text: str, *names: str) -> Any:
    """A field with names that are given separated by commas."""
    return flag(text, *names, type=comma_separated_names, default="", show_default=False, metavar="NAMES")


def known_names_flag(text: str, *names: str, known: Callable[[], Sequence[str]]) -> Any:
    """The same of names that must be ``known``."""
    return flag(text, *names, type=names_of(known), default="", show_default=False, metavar="NAMES")


def groups_flag(text: str) -> Any:
    """A field with ids of groups or globs; the flag may be repeated."""
    return repeated_flag(f"{text}: its id, or a glob such as 'pay-*'; may be repeated.", "--group", "GLOB")


def group_names() -> Any:
    """A field with the arguments GROUP of a command, beside that of ``groups_flag`` with the same meaning."""
    return declared_as(click.argument("names", metavar="[GROUP]...", nargs=-1))


def named_or_all(names: Sequence[str], groups: Sequence[str], all_groups: bool) -> GroupChoice:
    """The groups that a command is about. Raises click.UsageError: both some and all of them were given, or neither."""
    from groupreplay.streaming.engine.group_choice import GroupChoice

    named = (*names, *groups)
    if all_groups == bool(named):
        raise click.UsageError("Give either GROUP, which may be a glob, or --all-groups.")
    return GroupChoice(named)


def severity_flag(text: str = "Lowest severity to print.") -> Any:
    """A field with the least severity: info, warn or error."""
    choice = click.Choice(("info", "warn", "error"), case_sensitive=False)
    return flag(text, "--min-severity", type=choice, default="info")


def processes_flag(
    text: str = "So many processes share the work on a long log; without it one for each CPU.",
) -> Any:
    """A field with a number of processes; None: as many as are useful."""
    return flag(f"{text} The output is the same.", type=click.IntRange(1, 64))


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
            tuple(declare for part in declared.values() for declare in part.options),
            lambda values: make(**{name: part.take(values) for name, part in declared.items()}),
        )

    return dataclasses.field(metadata={_DECLARE: declare})


def declared_by(make: Callable[..., Any], **parts: Any) -> Declared:
    """The options of these fields, or of all fields of the dataclass ``make``; their value is that of ``make``."""
    parts = parts or {part.name: part for part in dataclasses.fields(make)}  # type: ignore[arg-type]
    declared: Declared = group(make, **parts).metadata[_DECLARE]("")
    return declared
