"""The configuration file: defaults for flags, in TOML.

A flag overrides an environment variable, the variable overrides this file, and the file overrides the built-in
default.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
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


def load_defaults(path: Path, commands: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """The defaults of each command, as click's ``default_map``.

    ``commands`` has the settings of every command: name in the file -> name in click. A name that is not among
    them is an error.

    Raises:
        GroupReplayError: the file cannot be read, is not TOML, or has an unknown table or setting.
    """
    values = _names(_parse(path))
    tables = {name: table for name, table in values.items() if isinstance(table, dict)}
    shared = {name: value for name, value in values.items() if name not in tables}
    _require_known(path, "top of the file", shared, SHARED)
    _require_known(path, "tables", tables, commands)
    defaults: dict[str, Any] = dict(shared)
    for command, known in commands.items():
        table = _names(tables.get(command, {}))
        _require_known(path, f"[{command}]", table, known)
        both = {name: value for name, value in shared.items() if name in known} | table
        defaults[command] = {known[name]: value for name, value in both.items()}
    return defaults


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


def _require_known(path: Path, where: str, given: Mapping[str, Any], known: Collection[str]) -> None:
    for name in given:
        if name not in known:
            names = ", ".join(sorted(known))
            raise unusable(f"unknown setting {name!r}, {where}", path, f"known there: {names}")
