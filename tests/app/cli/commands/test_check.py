"""The command ``check``: its answers in every format."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from groupreplay.app.check import checklist as check_module
from groupreplay.app.check.checklist import _Check
from groupreplay.app.check.result import failed, ok, unknown
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from support.job.captures import invoke


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
