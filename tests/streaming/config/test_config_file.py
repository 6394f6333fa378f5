"""The configuration file: defaults for flags, and loud about mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.config_file import default_path, load_defaults

COMMANDS = {
    "run": {"bootstrap_server": "bootstrap_server", "probe_interval": "probe_interval_seconds"},
    "list": {"bootstrap_server": "bootstrap_server", "output": "output"},
    "schema": {"event": "event"},
}


def test_defaults_of_each_command(tmp_path: Path) -> None:
    """What stands at the top holds for the commands that have it; a command's own table wins.

    Settings are named after their flags, and reach click under the names that it uses.
    """
    path = tmp_path / "config.toml"
    path.write_text(
        'bootstrap-server = "a:1"\nno-color = true\n[run]\nprobe-interval = 30\nbootstrap-server = "b:1"\n'
        '[list]\noutput = "csv"\n'
    )
    assert load_defaults(path, COMMANDS) == {
        "bootstrap_server": "a:1",
        "no_color": True,
        "run": {"bootstrap_server": "b:1", "probe_interval_seconds": 30},
        "list": {"bootstrap_server": "a:1", "output": "csv"},
        "schema": {},
    }


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("bootstrap-servers = 'x'", "unknown setting 'bootstrap_servers', top of the file"),
        ("[runn]\ntrigger = 1", "unknown setting 'runn', tables"),
        ("[run]\ntriger = 1", "unknown setting 'triger', [run]"),
        ("not toml", "the configuration is not TOML"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, what: str) -> None:
    """A misspelt setting is an error, never silence."""
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(GroupReplayError) as caught:
        load_defaults(path, COMMANDS)
    assert caught.value.what.startswith(what)
    assert (caught.value.where, caught.value.exit_code) == (str(path), ExitCode.USAGE)


def test_missing_file(tmp_path: Path) -> None:
    """A file that was named must be there."""
    with pytest.raises(GroupReplayError, match="cannot read the configuration, No such file"):
        load_defaults(tmp_path / "none.toml", COMMANDS)


def test_where_it_is_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The place follows the XDG base directories."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert default_path() == tmp_path / "groupreplay" / "config.toml"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_path() == tmp_path / ".config" / "groupreplay" / "config.toml"
