"""Processes that apply the records of a long log: the same messages and states, and what a process leaves behind."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from groupreplay.state import Context
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.base.spawned import spawned
from groupreplay.streaming.engine import replay as replay_module
from groupreplay.streaming.engine import replay_workers
from groupreplay.streaming.engine.live import Call, KeyState
from groupreplay.streaming.engine.replay import Replay
from groupreplay.streaming.engine.replay_workers import ReplayWorkers
from groupreplay.streaming.engine.wire import GROUP_TAG
from groupreplay.streaming.sources.capture import read_captures
from support.histories.raw_records import Raw
from support.job.captures import CLUSTER_ID, ERA, invoke, simulated_capture, write_capture
from support.job.failing_process import fails

CONTEXT = Context(cluster_id=CLUSTER_ID, era=ERA, member_events=True)


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Groups of all kinds, with a prober and answers that wait when the log ends."""
    return simulated_capture(
        tmp_path_factory.mktemp("workers") / "mixed.parquet", "--groups", "12", "--seconds", "600"
    )


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes begin after the first group, and are asked often."""
    monkeypatch.setattr(replay_module, "_ALONE_BYTES", 1)
    monkeypatch.setattr(replay_workers, "_ROUND_BYTES", 4_096)


def everything(path: Path, processes: int) -> tuple[Any, ...]:
    """All that a replay gives: its messages in their order, its states, and its counts."""
    replay = Replay(CONTEXT, processes=processes)
    rows = list(replay.feed(read_captures([path])))
    states = [(group.group_id, group.describe()) for group in replay.groups()]
    counts = replay.group_count, replay.dead_letters, replay.quarantined, replay.latest_ms
    return rows, states, counts, list(replay.changes()), list(replay.documents())


def test_the_same_as_with_one_process(capture: Path) -> None:
    """Messages, their order, the states of all groups, what comes after the last record, and the counts."""
    alone = everything(capture, 1)
    assert len(alone[0]) > 80
    assert everything(capture, 3) == alone


def test_records_that_cannot_be_read(tmp_path: Path) -> None:
    """They are counted once, and are no group's."""
    bad = [Raw(partition, 7, 5_000, b"\0\2\0\1g", b"\0\3rubbish") for partition in range(5)]
    path = write_capture(tmp_path / "bad.parquet", bad)
    alone, shared = everything(path, 1), everything(path, 2)
    assert (alone[2][1], shared) == (5, alone)


def test_the_command_prints_the_same(capture: Path) -> None:
    """Also on stderr, and of a selection."""
    words = ("replay", "--from-file", capture, "--type", "rebalance.completed", "-o", "jsonl", "--processes")
    alone, shared = invoke(*words, "1"), invoke(*words, "2")
    assert (shared.exit_code, shared.stdout, shared.stderr) == (0, alone.stdout, alone.stderr)
    assert alone.stdout


def test_a_report_on_all_groups_is_the_same(capture: Path, tmp_path: Path) -> None:
    """The page, and what explain prints of it."""
    pages = {processes: tmp_path / processes / "all.html" for processes in "12"}
    for processes, page in pages.items():
        page.parent.mkdir()
        words = ("report", "--from-file", capture, "--all-groups", "-o", page, "--processes", processes)
        assert invoke(*words).exit_code == 0
    assert pages["1"].read_text("utf-8") == pages["2"].read_text("utf-8")
    words = ("explain", "--from-file", capture, "--all-groups", "--processes")
    assert invoke(*words, "2").stdout == invoke(*words, "1").stdout


def test_what_a_process_logs(caplog: pytest.LogCaptureFixture) -> None:
    """This process logs it, as its own settings want it."""
    logged = {}
    for processes in (1, 2):
        caplog.clear()
        replay = Replay(CONTEXT, processes=processes)
        replay.restore([KeyState(GROUP_TAG + b"damaged", b"\xff damaged", None)])
        list(replay.apply([Call(GROUP_TAG + b"first", []), Call(GROUP_TAG + b"damaged", [])]))
        logged[processes] = [(one.name, one.levelno, one.getMessage()) for one in caplog.records]
    assert logged[1] == logged[2]
    assert [level for _, level, _ in logged[1]] == [logging.WARNING]


@pytest.mark.parametrize(
    ("error", "words"),
    [(None, "a process that replays a share .* --processes 1"), (MemoryError("no room"), "no room")],
)
def test_a_process_that_fails(error: Exception | None, words: str) -> None:
    """What it has raised is raised here; if it was killed, a sentence says so, and what can be done."""
    with spawned(fails, [(error,)]) as connections:
        workers = ReplayWorkers(Replay(CONTEXT), connections)
        with pytest.raises(GroupReplayError if error is None else type(error), match=words):
            list(workers.apply([Call(GROUP_TAG + b"g", [])]))
