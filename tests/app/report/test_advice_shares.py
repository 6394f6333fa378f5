"""Advice on all groups by several processes: shares, the same bytes as with one process, a process that fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from groupreplay.app.report import advice_shares
from groupreplay.app.report.advice_shares import GroupShare, usual_processes
from groupreplay.streaming.sources.capture import CaptureSource
from support.job.captures import invoke, simulated_capture


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Groups with rolling restarts, for more than half an hour, with a prober."""
    words = ("--groups", "4", "--seconds", "2400", "--scenario", "rolling-restart-3-dynamic-eager")
    return simulated_capture(tmp_path_factory.mktemp("shares") / "rolled.parquet", *words)


def test_each_group_is_in_one_share() -> None:
    """Whatever its name is."""
    names = [*map(str, range(50)), "", "grün"]
    assert [sum(name in GroupShare(number, 3) for number in range(3)) for name in names] == [1] * len(names)
    assert {number for number in range(3) for name in names if name in GroupShare(number, 3)} == {0, 1, 2}


def test_the_same_bytes_as_with_one_process(capture: Path) -> None:
    """Sums, order of the groups, findings with their events."""
    words = ("advise", "--from-file", capture, "--all-groups", "--since", "35m", "-o", "json", "--processes")
    alone, shared = invoke(*words, "1"), invoke(*words, "2")
    assert (shared.exit_code, shared.stdout) == (0, alone.stdout)
    groups = [entry for entry in json.loads(alone.stdout) if "group_id" in entry]
    assert [bool(group["findings"]) for group in groups] == [True] * 4


def test_a_share_of_a_process_that_failed(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read here: the answer is the same."""
    words = ("advise", "--from-file", capture, "--all-groups", "--processes")
    expected = invoke(*words, "1").stdout
    monkeypatch.setattr(advice_shares, "_received", lambda _: None)
    assert invoke(*words, "2").stdout == expected


def test_a_small_capture_is_read_by_one_process(capture: Path) -> None:
    """To start another one would take longer."""
    assert usual_processes(CaptureSource([capture])) == 1


def test_a_long_capture_is_read_by_more(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One for each CPU, at most."""
    monkeypatch.setattr(advice_shares, "_BYTES_OF_PROCESS", 1)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    assert usual_processes(CaptureSource([capture])) == 3
