"""Settings of the configuration file beside what is typed: none of them stands in the way of a command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import click
import pytest

from groupreplay.app.cli.file_settings import file_settings
from groupreplay.app.cli.program import COMMANDS, cli
from groupreplay.streaming.base.errors import ExitCode
from groupreplay.streaming.config.config_file import SHARED, FileSetting
from support.job.captures import invoke

#: Command lines that work; CAPTURE, OUT and NEW are files. Each view is there.
LINES: Final = (
    *(
        f"describe --from-file CAPTURE --group g {view}"
        for view in ("", "--offsets", "--members", "--state", "--history", "--states")
    ),
    "describe --from-file CAPTURE --all-groups -o json",
    "describe --from-file CAPTURE --group g --fail-on stuck",
    "describe --from-file CAPTURE --group g --history --since 1h --min-severity warn",
    "list --from-file CAPTURE",
    "list --from-file CAPTURE -o json",
    "list --from-file CAPTURE --expiring 30d -o csv",
    "replay --from-file CAPTURE",
    "decode --from-file CAPTURE",
    "decode --key-hex 0002000167",
    "report --from-file CAPTURE --group g -o NEW.html --force",
    "report --from-file CAPTURE --group g -o NEW.json --force",
    "report --from-file CAPTURE --all-groups -o NEW.html --force",
    "capture --show CAPTURE",
    "simulate --list",
    "simulate --groups 1 --seconds 1 -o NEW.parquet --force",
    "coordinator g",
    "schema member.left",
    "schema -o OUT --force",
)
#: Values of settings whose type alone does not say what can be written.
VALUES: Final = {
    "broker_release": '"3.9"',
    "group": '["g"]',
    "from_file": '["CAPTURE"]',
    "column": '["offset=offset"]',
    "simulate broker_property": '["group.max.size=2"]',
    "broker_property": '["group.share.session.timeout.ms=60000"]',
    "client_property": '["session.timeout.ms=10000"]',
    "partition": "[49]",
    "label": '["a=b"]',
    "rule": '["rebalance.stuck.threshold_ms=3000"]',
    "trace": '["TRACE"]',
    "redact": '"hosts"\nredact-key-file = "KEY"',
    "redact_key_file": '"KEY"\nredact = "hosts"',
    "command_config": '"PROPERTIES"',
    "sink_command_config": '"PROPERTIES"',
    "rules": '"RULES"',
    "bootstrap_server": '"127.0.0.1:1"',
    "time_zone": '"Europe/Berlin"',
    "fail_on": '"stuck"',
    "columns": '"group,current-offset,lag"',
    "state": '"stable"',
    "scenario": '"steady"',
    "show": '"steady"',
    "since": '"90d"',
    "until": '"now"',
    "at": '"now"',
    "complete_since": '"now"',
    "expiring": '"1h"',
    "from_log_dir": '["OUT"]',
    "output_file": '"NEW.parquet"',
    "output_folder": '"OUT"',
    "path": '"NEW.html"',
}
#: A setting that makes a command ask for one record, or for the brokers that hold a partition.
ELSEWHERE: Final = {"decode": {"key_hex", "value_hex"}, "coordinator": {"bootstrap_server", "command_config"}}


@pytest.fixture
def files(tmp_path: Path, capture: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """The files of command lines and settings, by their names there; others are in the folder of the test."""
    monkeypatch.chdir(tmp_path)
    texts = {"TRACE": "", "KEY": "k" * 32, "PROPERTIES": "client.id=x\n", "RULES": ""}
    found = {name: tmp_path / name for name in texts}
    for name, text in texts.items():
        found[name].write_text(text)
    return {"CAPTURE": capture, "OUT": tmp_path / "out", "NEW": tmp_path / "new", **found}


def filled(text: str, files: dict[str, Path]) -> str:
    """The text with the paths of files."""
    for name, path in files.items():
        text = text.replace(name, str(path))
    return text


def value_of(name: str, command: str, setting: FileSetting) -> str:
    """A value of a setting, as TOML."""
    if setting.switch is not None:
        return "true"
    if setting.choices is not None:
        return json.dumps(min(setting.choices))
    param = next(one for one in _command(command).params if one.name == setting.parameter)
    if name == "group" and not setting.repeated:
        return '"g"'
    if name == "type":
        return '["rebalance.stuck"]' if setting.repeated else '"classic"'
    if name in VALUES:
        return VALUES.get(f"{command} {name}", VALUES[name])
    return "10" if isinstance(param.type, (click.types.IntParamType, click.types.FloatParamType)) else '"x"'


def _command(name: str) -> click.Command:
    found = cli.get_command(click.Context(cli), name)
    assert found is not None
    return found


def settings_of(command: str) -> dict[str, FileSetting]:
    """The settings that the file may have for a command."""
    return file_settings(click.Context(cli), cli)[1][command]


@pytest.mark.parametrize("line", LINES)
def test_no_setting_forbids_a_command_line(line: str, tmp_path: Path, files: dict[str, Path]) -> None:
    """Whatever stands in the file: a command line that works without it is no usage error with it.

    The file has defaults for all calls of a command: what does not apply to one of them is left out there, and what
    excludes something typed gives way.
    """
    command, *_ = words = filled(line, files).split()
    config = tmp_path / "config.toml"
    assert invoke(*words).exit_code != ExitCode.USAGE
    refused = {}
    for name, setting in settings_of(command).items():
        if name in ELSEWHERE.get(command, ()):
            continue
        table = f"{name} = {value_of(name, command, setting)}\n"
        texts = [f"[{command}]\n{table}"] + ([table] if name in SHARED else [])
        for text in texts:
            config.write_text(filled(text, files))
            done = invoke("--config", config, *words)
            if done.exit_code in (ExitCode.USAGE, ExitCode.UNEXPECTED):
                refused[text] = done.stderr or repr(done.exception)
    assert refused == {}


@pytest.mark.parametrize("view", ["offsets", "members", "state", "history", "states"])
@pytest.mark.parametrize("typed", ["", "offsets", "members", "state", "history", "states"])
def test_a_view_in_the_file(view: str, typed: str, tmp_path: Path, capture: Path) -> None:
    """The view of the file is that of its flag, and another view that is typed wins."""
    config = tmp_path / "config.toml"
    config.write_text(f"[describe]\n{view} = true\n")
    words = ["describe", "--from-file", capture, "--group", "g"]
    flags = [f"--{typed}"] if typed else []
    shown = invoke("--config", config, *words, *flags)
    assert (shown.stdout, shown.exit_code) == (invoke(*words, f"--{typed or view}").stdout, ExitCode.OK)


def test_two_typed_rivals_stay_an_error(tmp_path: Path, capture: Path) -> None:
    """Only what was not typed gives way."""
    config = tmp_path / "config.toml"
    config.write_text("[describe]\nall-groups = true\n")
    words = ["--config", config, "describe", "--from-file", capture, "--group", "g"]
    assert invoke(*words).exit_code == ExitCode.OK
    result = invoke(*words, "--all-groups")
    assert (result.exit_code, "either --group or --all-groups" in result.stderr) == (ExitCode.USAGE, True)


def test_every_setting_has_the_name_of_its_flag() -> None:
    """Of every command; those of the program are at the top, and only there."""
    program, commands = file_settings(click.Context(cli), cli)
    assert sorted(program) == ["debug", "log_format", "log_level", "no_color"]
    assert list(commands) == list(COMMANDS)
    assert [name for name, known in commands.items() if program.keys() & known.keys()] == []
    assert {"trigger", "events_topic", "probe_interval", "no_probe", "checkpoint"} <= commands["run"].keys()
