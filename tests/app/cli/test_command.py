"""Commands: what a mistake is answered with; and the settings that the configuration file may have."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
import pytest
from click.testing import CliRunner

from groupreplay.app.cli.command import Display, display_options, file_settings, with_settings
from groupreplay.app.cli.options import declared_as, flag, group, pairs_flag, switch
from groupreplay.app.cli.program import COMMANDS, cli
from groupreplay.streaming.base.errors import ExitCode
from groupreplay.streaming.config.config_file import SHARED, FileSetting
from support.job.captures import invoke


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Other tests rely on the level of the program's logger."""
    logger = logging.getLogger("groupreplay")
    before = logger.level, logger.handlers[:], logger.propagate
    yield
    logger.setLevel(before[0])
    logger.handlers, logger.propagate = before[1:]


@pytest.mark.parametrize(
    ("words", "env", "level", "log_format"),
    [
        (["c"], {}, "WARNING", "text"),
        (["--log-level", "info", "c"], {}, "info", "text"),
        (["c", "--log-level", "info", "--log-format", "json"], {}, "info", "json"),
        (["--log-level", "info", "c", "--log-level", "error"], {}, "error", "text"),
        (["--log-level", "info", "c"], {"GROUPREPLAY_LOG_LEVEL": "error"}, "info", "text"),
        (["c", "--debug"], {}, "WARNING", "text"),
    ],
)
def test_both_places(words: list[str], env: dict[str, str], level: str, log_format: str) -> None:
    """The flag after the name overrides the one before it; a variable overrides neither."""
    display = Display()

    @click.group()
    @display_options
    def program() -> None:
        """The program."""

    @program.command("c")
    @display_options
    def command() -> None:
        """A command."""

    assert CliRunner().invoke(program, words, env=env, obj=display).exit_code == 0
    assert (display.log_level.lower(), display.log_format) == (level.lower(), log_format)
    expected = "DEBUG" if display.debug else level.upper()
    if words != ["c"]:
        assert logging.getLevelName(logging.getLogger("groupreplay").level) == expected


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (
            "list a.parquet",
            [
                "Error: Got unexpected extra argument (a.parquet): a capture is given with --from-file a.parquet."
            ],
        ),
        (
            "describe payments --members",
            ["Error: Got unexpected extra argument (payments): a group is given with --group payments."],
        ),
        (
            "whatif --group payments session.timeout.ms=10000",
            [
                "Error: Got unexpected extra argument (session.timeout.ms=10000): "
                "a setting is given with --set session.timeout.ms=10000."
            ],
        ),
        ("schema group.created b", ["Error: Got unexpected extra argument (b)."]),
        (
            "events --from-file a.parquet",
            [
                "Error: No such option '--from-file'.",
                "events reads what the job has written; the events of a capture: "
                "groupreplay replay --from-file FILE",
            ],
        ),
        ("run --nothing", ["Error: No such option '--nothing'."]),
        (
            "--from-file a.parquet list",
            [
                "Error: No such option '--from-file'.",
                "Flags of a command stand behind its name: groupreplay list --from-file ...",
            ],
        ),
        ("simulat", ["Error: No such command 'simulat'. Did you mean simulate?"]),
        ("xyzzy", ["Error: No such command 'xyzzy'."]),
        ("-x", ["Error: No such option '-x'."]),
    ],
)
def test_hints(words: str, lines: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below the usage of the command; nothing is guessed where nothing is likely."""
    (tmp_path / "a.parquet").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    done = invoke(*words.split())
    assert (done.exit_code, done.stdout) == (ExitCode.USAGE, "")
    # Other releases of click put other quotes around names.
    assert done.stderr.replace('"', "'").splitlines()[3:] == lines


def test_a_misspelt_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no effect, which is said; a right one, one of Kubernetes and one of another program are left alone."""
    for name in ("GROUPREPLAY_BOOTSTRAP_SERVR", "GROUPREPLAY_PORT_9408_TCP_ADDR", "GROUPREPLAY_SERVICE_HOST"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("GROUPREPLAY_CHECKPOINT", "x")
    result = invoke("coordinator", "g")
    assert [line for line in result.stderr.splitlines() if "GROUPREPLAY" in line] == [
        "warning: GROUPREPLAY_BOOTSTRAP_SERVR has no effect: did you mean GROUPREPLAY_BOOTSTRAP_SERVER?"
    ]


@dataclass(frozen=True)
class Point:
    """Two numbers."""

    x: int
    y: int


@dataclass(frozen=True)
class Settings:
    """The settings of a command."""

    start: Point = group(Point, x=flag("X.", "-x", type=int, required=True), y=flag("Y.", "--why", default=7))
    labels: dict[str, str] = pairs_flag("Labels.", "--label")
    name: str | None = declared_as(click.argument("name", required=False))
    once: bool = switch("Once.")


def test_fields_are_flags() -> None:
    """Each field is a flag or a group of flags, in the order of the class; the command receives the instance."""
    given: list[Settings] = []
    command = with_settings("c", Settings)(given.append)
    flags = [param.opts for param in command.params[:5]]
    assert flags == [["-x", "--x"], ["--why"], ["--label"], ["name"], ["--once"]]
    assert CliRunner().invoke(command, ["-x", "1", "--label", "a=b", "--label", "c=d=e", "n"]).exit_code == 0
    assert given == [Settings(Point(1, 7), {"a": "b", "c": "d=e"}, "n", False)]
    assert CliRunner().invoke(command, []).exit_code == 2


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
    "whatif": '["session.timeout.ms=10000"]',
    "scenario": '"steady"',
    "show": '"steady"',
    "since": '"90d"',
    "until": '"now"',
    "at": '"now"',
    "complete_since": '"now"',
    "expiring": '"1h"',
    "from_log_dir": '["OUT"]',
    "broker_log": '["LOGGED"]',
    "topic": '["t"]',
    "unused": '"30d"',
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
    logged = "[2026-01-01 00:00:00,000] INFO [GroupCoordinator 1]: Starting up. (o.a.k.GroupCoordinator)\n"
    texts = {"TRACE": "", "KEY": "k" * 32, "PROPERTIES": "client.id=x\n", "RULES": "", "LOGGED": logged}
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
    param = next(param for param in _command(command).params if param.name == setting.parameter)
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
