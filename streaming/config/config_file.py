"""The configuration file: defaults for flags, in TOML.

Knows where the file is and how its tables become defaults; must not know what a setting means. A flag wins
over an environment variable, that over this file, and this file over what is built in.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: Settings that stand at the top of the file and hold for every command that has them.
SHARED: Final = frozenset(
    {"bootstrap_server", "command_config", "debug", "log_format", "log_level", "no_color", "output", "rules"}
)

_EXAMPLE: Final = 'write, for example: bootstrap-server = "host:9092", and below [run]: trigger = 30'


def default_path() -> Path:
    """Where the file is looked for when none is named (XDG base directories)."""
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "groupreplay" / "config.toml"


def load_defaults(path: Path, commands: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """The defaults of each command, as click's ``default_map``.

    ``commands`` names every command's settings, so that a misspelt one is an error and not silence: as the file
    does, after the flag, and as click does.

    Raises:
        GroupReplayError: the file cannot be read, is no TOML, or names an unknown table or setting.
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
    try:
        values: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _unusable(f"cannot read the configuration, {error.strerror}", path, "check --config") from None
    except ValueError as error:
        raise _unusable(f"the configuration is not TOML: {error}", path, _EXAMPLE) from None
    return values


def _names(table: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("-", "_"): value for name, value in table.items()}


def _require_known(path: Path, where: str, given: Mapping[str, Any], known: Collection[str]) -> None:
    for name in given:
        if name not in known:
            names = ", ".join(sorted(known))
            raise _unusable(f"unknown setting {name!r}, {where}", path, f"known there: {names}")


def _unusable(what: str, path: Path, fix: str) -> GroupReplayError:
    return GroupReplayError(what, where=str(path), fix=fix, exit_code=ExitCode.USAGE)
