"""``app/cli/command.py``."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from groupreplay.app.cli.command import Display, display_options, with_settings
from groupreplay.app.cli.options import declared_as, flag, group, pairs_flag, switch
from groupreplay.streaming.base.errors import ExitCode
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
    flags = [one.opts for one in command.params[:5]]
    assert flags == [["-x", "--x"], ["--why"], ["--label"], ["name"], ["--once"]]
    assert CliRunner().invoke(command, ["-x", "1", "--label", "a=b", "--label", "c=d=e", "n"]).exit_code == 0
    assert given == [Settings(Point(1, 7), {"a": "b", "c": "d=e"}, "n", False)]
    assert CliRunner().invoke(command, []).exit_code == 2
