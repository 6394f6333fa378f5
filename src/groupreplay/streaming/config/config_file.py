"""The configuration file: defaults for flags, in TOML.

A flag overrides an environment variable, the variable overrides this file, and the file overrides the built-in
default.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from pathlib import Path
from typing import Any, Final

from groupreplay.streaming.base.errors import unusable

#: Settings that may be at the top of the file; they apply to every command that has them.
SHARED: Final = frozenset(
    {
        *("bootstrap_server", "command_config", "debug", "log_format", "log_level", "no_color", "output"),
        *("rules", "time_zone"),
    }
)

_EXAMPLE: Final = 'write, for example: bootstrap-server = "host:9092", and below [run]: trigger = 30'


def default_path() -> Path:
    """The path of the file without ``--config`` (XDG base directories)."""
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "groupreplay" / "config.toml"


@dataclass(frozen=True, slots=True)
class FileSetting:
    """What a name in the file sets: the value of click's ``parameter``.

    ``switch``: the values that ``true`` and ``false`` mean, for a flag without a value. ``repeated``: the value is a
    list. ``choices``: the values that are accepted, if not all are.
    """

    parameter: str
    switch: Mapping[bool, Any] | None = None
    repeated: bool = False
    choices: frozenset[str] | None = None

    def read(self, value: Any) -> dict[str, Any]:
        """The value by parameter, as click reads it from a command line: everything but switches is text.

        Raises:
            ValueError: the value is of another kind.
        """
        if self.switch is not None:
            if not isinstance(value, bool):
                raise ValueError("is true or false")
            return {self.parameter: self.switch[value]} if value in self.switch else {}
        if not self.repeated:
            return {self.parameter: _text(value)}
        if not isinstance(value, list):
            raise ValueError('may be repeated, so it is a list: ["…"]')
        return {self.parameter: [_text(entry) for entry in value]}

    def takes(self, value: Any) -> bool:
        """Whether the value is one of the choices."""
        return self.choices is None or str(value).lower() in self.choices


def load_defaults(
    path: Path, program: Mapping[str, FileSetting], commands: Mapping[str, Mapping[str, FileSetting]]
) -> dict[str, Any]:
    """The defaults of the program and of each command, as click's ``default_map``.

    ``program`` and ``commands`` have the settings by their names in the file. A name that is not among them is an
    error. A setting at the top does not apply to a command with other choices.

    Raises:
        GroupReplayError: the file cannot be read, is not TOML, or has an unknown table or setting, or a setting of
            the wrong kind.
    """
    values = _names(_parse(path))
    tables = {name: table for name, table in values.items() if isinstance(table, dict)}
    shared = {name: value for name, value in values.items() if name not in tables}
    top = "top of the file"
    _require_known(path, top, shared, SHARED)
    _require_known(path, "tables", tables, commands)
    _require_choices(path, shared, commands)
    defaults = _defaults(path, top, shared, program)
    for command, settings in commands.items():
        table, where = _names(tables.get(command, {})), f"[{command}]"
        _require_known(path, where, table, settings)
        fitting = {
            name: value for name, value in shared.items() if name in settings and settings[name].takes(value)
        }
        defaults[command] = _defaults(path, top, fitting, settings) | _defaults(path, where, table, settings)
    return defaults


def _defaults(
    path: Path, where: str, values: Mapping[str, Any], settings: Mapping[str, FileSetting]
) -> dict[str, Any]:
    """The values by click's names."""
    defaults: dict[str, Any] = {}
    for name, value in values.items():
        if name not in settings:
            continue
        try:
            read = settings[name].read(value)
        except ValueError as error:
            raise unusable(f"the setting {name!r}, {where}, {error}", path, _EXAMPLE) from None
        if twice := read.keys() & defaults.keys():
            rivals = [name for name in values if name in settings and settings[name].parameter in twice]
            raise unusable(f"only one of {', '.join(rivals)} can be set, {where}", path, "remove the others")
        defaults |= read
    return defaults


def _require_choices(
    path: Path, shared: Mapping[str, Any], commands: Mapping[str, Mapping[str, FileSetting]]
) -> None:
    """A setting at the top must be a choice of one command at least."""
    for name, value in shared.items():
        of_commands = [settings[name] for settings in commands.values() if name in settings]
        if of_commands and not any(command.takes(value) for command in of_commands):
            choices = ", ".join(
                sorted(frozenset().union(*(command.choices or () for command in of_commands)))
            )
            raise unusable(f"the setting {name!r} is {value!r}", path, f"write one of: {choices}")


def _text(value: Any) -> str:
    """A value as it would be typed.

    Raises:
        ValueError: it is no text, number or time.
    """
    if isinstance(value, (date, datetime, time)):
        return value.isoformat()
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError('is a text or a number: "…"')
    return str(value)


def _parse(path: Path) -> dict[str, Any]:
    import msgspec

    try:
        return msgspec.toml.decode(path.read_bytes(), type=dict[str, Any])
    except OSError as error:
        raise unusable(f"cannot read the configuration, {error.strerror}", path, "check --config") from None
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise unusable(f"the configuration is not TOML: {error}", path, _EXAMPLE) from None


def _names(table: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("-", "_"): value for name, value in table.items()}


def _require_known(path: Path, where: str, values: Mapping[str, Any], known: Collection[str]) -> None:
    for name in values:
        if name not in known:
            names = ", ".join(sorted(known))
            raise unusable(f"unknown setting {name!r}, {where}", path, f"known there: {names}")
