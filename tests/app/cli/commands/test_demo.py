"""``groupreplay demo`` on the command line; the whole is in tests/integration/commands/test_demo.py."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from groupreplay.app.demo import run as module
from groupreplay.app.demo.stories import STORIES
from groupreplay.streaming.base.process import StoppedBySignal
from support.job.captures import invoke


def test_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scenario, its time, whether the broker stays, and the report; a signal's number becomes the exit code."""
    calls: list[tuple[object, ...]] = []

    def run_demo(story: object, seconds: int | None, _screen: object, *, keep: bool, report: Path) -> None:
        calls.append((story, seconds, keep, report))
        if keep:
            raise StoppedBySignal(signal.SIGTERM)

    monkeypatch.setattr(module, "run_demo", run_demo)
    assert invoke("demo").exit_code == 0
    stopped = invoke("demo", "--scenario", "stuck", "--seconds", "10", "--keep", "--report", "a.html")
    assert (stopped.exit_code, stopped.stderr) == (143, "")
    assert calls == [
        (STORIES["mixed"], None, False, Path("demo.html")),
        (STORIES["stuck"], 10, True, Path("a.html")),
    ]
