"""``groupreplay check``, ``bundle`` and ``schema`` on the command line."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from groupreplay.app.bundle.archive import BundleTarget, spark_release
from groupreplay.app.bundle.builder import Submission
from groupreplay.app.check import checklist as check_module
from groupreplay.app.check import failed, ok, unknown
from groupreplay.app.check.checklist import _Check
from groupreplay.coordinator.trace_entries import trace_schema
from groupreplay.state.output.envelope import EVENTS, json_schemas
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from support.job.captures import invoke
from support.tools.small_wheels import no_index, small_wheel


@pytest.mark.parametrize("output", ["table", "json", "jsonl", "csv"])
def test_every_format_has_every_answer(monkeypatch: pytest.MonkeyPatch, output: str) -> None:
    """The same answers in each; what comes from elsewhere is harmless in all of them."""
    error = GroupReplayError("bad \x1b[31m", fix="do a\ndo b", exit_code=ExitCode.DATA)
    monkeypatch.setattr(
        check_module, "_CHECKS", (_Check("x", lambda _: [ok("x", "=1+1"), failed("y", error)]),)
    )
    result = invoke("check", "--bootstrap-server", "127.0.0.1:1", "-o", output)
    assert result.exit_code == ExitCode.DATA, result.output
    assert "\x1b" not in result.stdout
    wanted: list[dict[str, Any]] = [
        {"check": "x", "status": "ok", "found": "=1+1", "fix": None},
        {"check": "y", "status": "failed", "found": "bad \x1b[31m", "fix": "do a\ndo b"},
    ]
    if output == "table":
        assert result.stdout.splitlines() == [
            "ok       x: =1+1",
            "failed   y: bad \\u{1b}[31m",
            "         do a",
            "         do b",
        ]
    elif output == "csv":
        assert list(csv.reader(io.StringIO(result.stdout))) == [
            ["STATUS", "CHECK", "FOUND", "FIX"],
            ["ok", "x", "'=1+1", ""],
            ["failed", "y", "bad \\u{1b}[31m", "do a\\u{a}do b"],
        ]
    elif output == "json":
        assert json.loads(result.stdout) == wanted
    else:
        assert list(map(json.loads, result.stdout.splitlines())) == wanted


def test_what_was_skipped_is_one_line_for_each_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the job's topics exist, many rights cannot be known: one line names them all, JSON has each."""
    soon, not_yet = "unknown until the topic exists", "needs this check to be ok first: offsets topic"
    answers = [
        unknown("Write on topic group-events", soon),
        ok("Read on topic group-job", "held"),
        unknown("Describe on topic group-events", soon),
        unknown("clock", not_yet),
        unknown("Write on topic group-probes", soon),
        unknown("transactions", not_yet),
    ]
    monkeypatch.setattr(check_module, "_CHECKS", (_Check("x", lambda _: answers),))
    words = ("check", "--bootstrap-server", "127.0.0.1:1")
    assert invoke(*words).stdout.splitlines() == [
        "ok       Read on topic group-job: held",
        f"skipped  Write, Describe on topic group-events; Write on topic group-probes: {soon}",
        f"skipped  clock, transactions: {not_yet}",
    ]
    assert len(json.loads(invoke(*words, "-o", "json").stdout)) == 6


def test_the_files_and_the_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both files are written; stdout is what a shell can run, and the summary is on stderr."""
    no_index(monkeypatch, tmp_path / "index")
    for requirement in spark_release("4.0").requirements:
        name = requirement.split(">")[0].replace("-", "_")
        least = {"numpy": "1.26.0", "pandas": "2.2.0", "pyarrow": "18.0.0", "tzdata": "2024.1"}
        version = least.get(name, "30.0")
        small_wheel(tmp_path / "index", name, version)
    flags = ["--scala", "2.13", "--python", "3.11", "--platform", "aarch64"]
    archive = tmp_path / "env.tar.gz"
    result = invoke("bundle", "-o", archive, "--spark", "4.0.2", *flags)
    assert (result.exit_code, result.stdout) == (
        ExitCode.OK,
        Submission(
            spark=spark_release("4.0.2"), target=BundleTarget("3.11", "aarch64"), archive="env.tar.gz"
        ).script,
    )
    size = f"{archive.stat().st_size / 1_000_000:.0f} MB"
    summary = f"{archive}: groupreplay and 11 libraries, {size}; {tmp_path / 'job.py'}\n"
    assert result.stderr == summary
    again = invoke("bundle", "-o", archive, "--spark", "4.0.2", *flags)
    assert (again.exit_code, "replace it with --force" in again.stderr) == (ExitCode.USAGE, True)


def test_wrong_flags(tmp_path: Path) -> None:
    """An unknown line and a missing flag are usage errors, and nothing is written."""
    unknown = invoke("bundle", "-o", tmp_path / "env.tar.gz", "--spark", "2.4")
    assert (unknown.exit_code, "use --spark 3.5, 4.0, 4.1, 4.2" in unknown.stderr) == (ExitCode.USAGE, True)
    missing = invoke("bundle", "-o", tmp_path / "env.tar.gz")
    assert (missing.exit_code, "Missing option '--spark'" in missing.stderr) == (ExitCode.USAGE, True)
    assert list(tmp_path.iterdir()) == []


def test_schema(tmp_path: Path) -> None:
    """All schemas by name, one of them alone, or a file for each."""
    names = [fact.NAME for fact in EVENTS]
    everything = json.loads(invoke("schema").stdout)
    assert (list(everything), everything) == (names, json_schemas())
    assert json.loads(invoke("schema", "group.created").stdout) == everything["group.created"]
    assert json.loads(invoke("schema", "trace-file").stdout) == trace_schema()
    result = invoke("schema", "-o", tmp_path / "schemas")
    assert result.stdout == ""
    written = {path.stem: json.loads(path.read_text()) for path in (tmp_path / "schemas").iterdir()}
    assert written == everything
