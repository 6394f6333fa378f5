"""The program as a whole: help without weight, one exit code for each kind of failure."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from groupreplay.app.cli import program as cli_module
from groupreplay.app.cli.program import COMMANDS, SECTIONS, cli
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.base.process import StoppedBySignal
from groupreplay.version import __version__
from support.histories.builders import generation, member
from support.job.captures import invoke, raw, write_capture
from support.paths import ROOT

HEAVY = ("pyspark", "pandas", "pyarrow", "numpy", "confluent_kafka")


def test_help_loads_nothing_heavy() -> None:
    """Version, overview and the help of every command are answered without loading a library that takes time."""
    code = (
        "import contextlib, io, sys\nfrom groupreplay.app.cli.program import COMMANDS, cli\n"
        "for words in (['--version'], ['--help'], *([name, '--help'] for name in COMMANDS)):\n"
        "    with contextlib.redirect_stdout(io.StringIO()) as printed:\n"
        "        try: cli.main(words)\n"
        "        except SystemExit as end: code = end.code\n"
        f"    print(*words, [n for n in {HEAVY} if n in sys.modules], code, printed.getvalue() != '')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    asked = [["--version"], ["--help"], *([name, "--help"] for name in COMMANDS)]
    assert done.stdout.splitlines() == [f"{' '.join(words)} [] 0 True" for words in asked]


def test_pandas_is_not_loaded(tmp_path: Path) -> None:
    """A command without Spark leaves pandas alone, which Arrow would load for its first array."""
    code = (
        "import atexit, sys\nfrom groupreplay.__main__ import main\n"
        "atexit.register(lambda: print(*(name in sys.modules for name in ('pyarrow', 'pandas')), flush=True))\n"
        "main()"
    )
    words = ["simulate", "--groups", "1", "--seconds", "10", "-o", str(tmp_path / "capture.parquet")]
    done = subprocess.run([sys.executable, "-c", code, *words], check=True, capture_output=True, text=True)
    assert done.stdout == "True False\n"


def test_version() -> None:
    """The version is the package's own."""
    assert invoke("--version").stdout == f"groupreplay, version {__version__}\n"


def test_every_command_is_there() -> None:
    """Each section of the overview has its names, and each name leads to a command with help of its own."""
    overview = invoke("--help").stdout
    places = [overview.index(f"\n{title}:\n") for title in SECTIONS]
    assert places == sorted(places)
    for name, entry in COMMANDS.items():
        assert f"  {name} " in overview
        assert entry.line in " ".join(overview.split())
        result = invoke(name, "--help")
        assert (result.exit_code, result.stdout.startswith(f"Usage: groupreplay {name} ")) == (0, True)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["replai"], "No such command 'replai'"),
        (["replay"], "give --from-file FILE, --from-log-dir DIR or --bootstrap-server"),
        (["replay", "--from-file", "x", "--type", "rebalance"], "There is no event 'rebalance'"),
        (["replay", "--from-file", "x", "--since", "noon"], "'noon' is not a time"),
        (["replay", "-o", "csv"], "'csv' is not one of 'table', 'jsonl'"),
        (["describe", "--from-file", "x"], "Give either --group or --all-groups"),
        (
            ["describe", "--from-file", "x", "--group", "g", "--all-groups"],
            "Give either --group or --all-groups",
        ),
        (["decode", "--value-hex", "00"], "--value-hex needs --key-hex"),
        (["capture", "-o", "x"], "give --bootstrap-server"),
        (["capture", "--bootstrap-server", "h:1"], "Give either -o FILE or --show FILE"),
        (["run", "--bootstrap-server", "h:1"], "Missing option '--checkpoint'"),
        (["run", "--checkpoint", "x"], "give --bootstrap-server"),
        (["coordinator"], "Give GROUP, the id of a group."),
        (["schema", "no.such"], "There is no event 'no.such'"),
    ],
)
def test_usage_errors(words: list[str], says: str) -> None:
    """A wrong command line ends with 2, says what is wrong on stderr, and prints nothing on stdout."""
    result = invoke(*words)
    assert (result.exit_code, result.stdout) == (ExitCode.USAGE, "")
    assert says in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("error", "code", "stderr"),
    [
        (
            GroupReplayError("no answer", where="h:1", fix="start it", exit_code=ExitCode.CONNECTION),
            3,
            "error: no answer (h:1)\n  start it\n",
        ),
        (GroupReplayError("not allowed", exit_code=ExitCode.AUTHORISATION), 4, "error: not allowed\n"),
        (
            ValueError("boom password=x"),
            1,
            "error: ValueError: boom password=********\n  run it again with --debug for the traceback\n",
        ),
        (KeyboardInterrupt(), 130, "\n"),
        (StoppedBySignal(signal.SIGHUP), 129, ""),
        (BrokenPipeError(), 141, ""),
    ],
)
def test_failures_become_exit_codes(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, stderr: str
) -> None:
    """Whatever a command raises ends as one message and one exit code, never as a traceback."""

    @click.command()
    def failing() -> None:
        raise error

    monkeypatch.setattr(cli_module, "_silence_stdout", lambda: None)
    monkeypatch.setattr(cli_module.Program, "get_command", lambda *_: failing)
    result = invoke("list")
    assert (result.exit_code, result.stderr) == (code, stderr)


@pytest.mark.parametrize("words", [["--debug", "list"], ["list", "--debug"]])
def test_debug_shows_the_traceback(words: list[str]) -> None:
    """With --debug, in front of the command or behind it, the traceback comes before the message."""
    result = invoke(*words, "--from-file", "/nonexistent.parquet")
    assert result.exit_code == ExitCode.DATA
    assert result.stderr.startswith("Traceback (most recent call last):")
    assert "error: cannot open the capture" in result.stderr


def test_configuration_file(tmp_path: Path) -> None:
    """Flag before environment before file before default; a mistake in the file is an error."""
    capture = write_capture(tmp_path / "a.parquet", raw([generation(1, member("a"), at=1_000)]))
    config = tmp_path / "config.toml"
    config.write_text('output = "csv"\n[describe]\noutput = "jsonl"\n')
    words = ["list", "--from-file", capture]
    assert invoke("--config", config, *words).stdout.startswith("GROUP,TYPE")
    env = {"GROUPREPLAY_OUTPUT": "json"}
    assert json.loads(invoke("--config", config, *words, env=env).stdout)[0]["group_id"] == "g"
    assert invoke("--config", config, *words, "-o", "table", env=env).stdout.startswith("GROUP\tTYPE")
    config.write_text("[list]\noutptu = 1\n")
    wrong = invoke("--config", config, *words)
    assert (wrong.exit_code, "unknown setting 'outptu', [list]" in wrong.stderr) == (2, True)


def test_configuration_in_its_usual_place(tmp_path: Path) -> None:
    """Without --config the file of the XDG folder is read, when there is one."""
    (tmp_path / "groupreplay").mkdir()
    (tmp_path / "groupreplay" / "config.toml").write_text('[coordinator]\noutput = "csv"\n')
    result = invoke("coordinator", "my-group", env={"XDG_CONFIG_HOME": str(tmp_path)})
    assert result.stdout == "GROUP,PARTITION,COORDINATOR (ID)\nmy-group,12,\n"


def test_terminated(tmp_path: Path) -> None:
    """SIGTERM ends a command with 143 and one sentence."""
    pipe = tmp_path / "never-ending.properties"
    os.mkfifo(pipe)
    words = ["capture", "-o", "x", "--command-config", str(pipe)]
    command = [sys.executable, "-m", "groupreplay", *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    with pipe.open("w"):  # returns when the other side has opened it, too
        process.send_signal(signal.SIGTERM)
        assert (process.wait(30), process.stderr.read() if process.stderr else "") == (
            143,
            "groupreplay: terminated (SIGTERM)\n",
        )


def test_the_page_is_complete() -> None:
    """docs/cli.md names every command, every exit code, and no flag that does not exist."""
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    context = click.Context(cli)
    commands = [cli.get_command(context, name) for name in COMMANDS]
    flags = {
        flag
        for command in (cli, *commands)
        if command
        for param in command.params
        for flag in (*param.opts, *param.secondary_opts)
    }
    assert set(re.findall(r"--[a-z][a-z-]+", page)) <= flags | {"--help"}
    assert [name for name in COMMANDS if f"| `{name}` |" not in page] == []
    codes = {str(code.value) for code in ExitCode} | {"129", "130", "141", "143"}
    rows = page.partition("## Exit codes")[2].splitlines()
    assert {
        code for row in rows for code in re.findall(r"\d+", row.split("|")[1] if "|" in row else "")
    } == codes
