"""The configuration file: defaults for flags, and loud about mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.config.config_file import FileSetting, default_path, load_defaults

SWITCH = {True: True, False: False}
PROGRAM = {"no_color": FileSetting("no_color", SWITCH), "log_level": FileSetting("log_level")}
OUTPUT = FileSetting("output", choices=frozenset({"table", "csv"}))
COMMANDS = {
    "run": {
        "bootstrap_server": FileSetting("bootstrap_server"),
        "probe_interval": FileSetting("probe_interval_seconds"),
        "probe": FileSetting("probe", SWITCH),
        "no_probe": FileSetting("probe", {True: False, False: True}),
    },
    "list": {"bootstrap_server": FileSetting("bootstrap_server"), "output": OUTPUT},
    "describe": {
        "group": FileSetting("group", repeated=True),
        "since": FileSetting("since"),
        "members": FileSetting("view", {True: "members"}),
        "states": FileSetting("view", {True: "states"}),
    },
    "capture": {"output": FileSetting("output", choices=frozenset({"json"}))},
}


def write(tmp_path: Path, text: str) -> Path:
    """A configuration file."""
    path = tmp_path / "config.toml"
    path.write_text(text)
    return path


def test_defaults_of_each_command(tmp_path: Path) -> None:
    """What stands at the top holds for the commands that have it; a command's own table wins.

    Settings are named after their flags, and reach click under the names that it uses, as they would be typed.
    """
    text = (
        'bootstrap-server = "a:1"\nno-color = true\n[run]\nprobe-interval = 30\nbootstrap-server = "b:1"\n'
        '[list]\noutput = "csv"\n'
    )
    assert load_defaults(write(tmp_path, text), PROGRAM, COMMANDS) == {
        "no_color": True,
        "run": {"bootstrap_server": "b:1", "probe_interval_seconds": "30"},
        "list": {"bootstrap_server": "a:1", "output": "csv"},
        "describe": {},
        "capture": {},
    }


@pytest.mark.parametrize(
    ("text", "command", "values"),
    [
        ("[describe]\nmembers = true", "describe", {"view": "members"}),
        ("[describe]\nmembers = false\nstates = true", "describe", {"view": "states"}),
        ("[run]\nno-probe = true", "run", {"probe": False}),
        ("[describe]\nsince = 2026-01-31T02:00:00Z", "describe", {"since": "2026-01-31T02:00:00+00:00"}),
        ("[describe]\nsince = 02:00:00", "describe", {"since": "02:00:00"}),
        ("[describe]\ngroup = ['a', 7]", "describe", {"group": ["a", "7"]}),
        ("output = 'csv'", "list", {"output": "csv"}),
        ("output = 'csv'", "capture", {}),
        ("output = 'json'", "list", {}),
    ],
)
def test_kinds_of_settings(tmp_path: Path, text: str, command: str, values: dict[str, object]) -> None:
    """Flags of one parameter, opposites, TOML's own times, lists, and choices that only some commands have."""
    assert load_defaults(write(tmp_path, text), PROGRAM, COMMANDS)[command] == values


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("bootstrap-servers = 'x'", "unknown setting 'bootstrap_servers', top of the file"),
        ("[runn]\ntrigger = 1", "unknown setting 'runn', tables"),
        ("[run]\ntriger = 1", "unknown setting 'triger', [run]"),
        ("not toml", "the configuration is not TOML"),
        ("no-color = 'yes'", "the setting 'no_color', top of the file, is true or false"),
        ("[run]\nprobe = 1", "the setting 'probe', [run], is true or false"),
        ("[run]\nprobe-interval = true", "the setting 'probe_interval', [run], is a text or a number"),
        ("[run]\nprobe-interval = [1]", "the setting 'probe_interval', [run], is a text or a number"),
        ("[run.bootstrap-server]\na = 1", "the setting 'bootstrap_server', [run], is a text or a number"),
        ("[describe]\ngroup = 'abc'", "the setting 'group', [describe], may be repeated, so it is a list"),
        ("[describe]\ngroup = [true]", "the setting 'group', [describe], is a text or a number"),
        ("[describe]\nmembers = true\nstates = true", "only one of members, states can be set, [describe]"),
        ("output = 'xml'", "the setting 'output' is 'xml'"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, what: str) -> None:
    """A misspelt setting, or one of another kind, is an error, never silence."""
    path = write(tmp_path, text)
    with pytest.raises(GroupReplayError) as caught:
        load_defaults(path, PROGRAM, COMMANDS)
    assert caught.value.what.startswith(what)
    assert (caught.value.where, caught.value.exit_code) == (str(path), ExitCode.USAGE)


def test_missing_file(tmp_path: Path) -> None:
    """A file that was named must be there."""
    with pytest.raises(GroupReplayError, match="cannot read the configuration, No such file"):
        load_defaults(tmp_path / "none.toml", PROGRAM, COMMANDS)


def test_where_it_is_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The place follows the XDG base directories."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert default_path() == tmp_path / "groupreplay" / "config.toml"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_path() == tmp_path / ".config" / "groupreplay" / "config.toml"
