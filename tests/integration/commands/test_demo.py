"""The demo from end to end: real broker, real consumers, real job."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from support.kafka.waiting import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.spark]

PAGE = "demo.html"
START_SECONDS = 240.0
END_SECONDS = 120.0


@contextmanager
def demo(folder: Path, *flags: str) -> Iterator[subprocess.Popen[str]]:
    """The command in a session of its own, its temporary files in ``folder``; killed if a test leaves it."""
    with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
        process = subprocess.Popen(
            [*(sys.executable, "-m", "groupreplay", "demo"), "--report", str(folder / PAGE), *flags],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            text=True,
            env={**os.environ, "TMPDIR": str(folder), "NO_COLOR": "1"},
            start_new_session=True,
        )
    try:
        yield process
    finally:
        for child in descendants(process.pid) if process.poll() is None else []:
            child.kill()
        process.kill()
        process.wait()


def descendants(pid: int) -> list[psutil.Process]:
    """All that a running process has started, and what those have."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def still_running(processes: set[psutil.Process]) -> set[psutil.Process]:
    """Those that have not ended; ``psutil`` tells a new process of the same id from the old one."""
    return {one for one in processes if one.is_running() and one.status() != psutil.STATUS_ZOMBIE}


def watch(
    process: subprocess.Popen[str],
    seconds: float = START_SECONDS,
    until: Callable[[], object] = lambda: False,
) -> set[psutil.Process]:
    """Waits for the end of the demo or until this holds; all processes that were seen on the way."""
    seen: set[psutil.Process] = set()

    def ended() -> bool:
        seen.update(descendants(process.pid))
        return process.poll() is not None or bool(until())

    wait_until(ended, seconds, pause=0.2)
    return seen


def gone(processes: set[psutil.Process], seconds: float = END_SECONDS) -> set[psutil.Process]:
    """What is left of the processes after at most this time."""
    end = time.monotonic() + seconds
    while (left := still_running(processes)) and time.monotonic() < end:
        time.sleep(0.1)
    return left


def test_shows_what_happens_and_leaves_nothing(tmp_path: Path) -> None:
    """It exits 0, tells each kind of event of the story's first third in order, and cleans up.

    The groups stand in the summary as the story has left them. No process and no file stays behind.
    """
    with demo(tmp_path, "--seconds", "20") as process:
        seen = watch(process, START_SECONDS + 60)
    output, errors = (tmp_path / "out").read_text(), (tmp_path / "err").read_text()
    assert process.returncode == 0, errors
    assert len(seen) > 5
    assert gone(seen) == set()
    assert {path.name for path in tmp_path.iterdir()} == {"out", "err", PAGE}
    assert re.search(r"Live pages of the groups, as long as the demo runs: http://127\.0\.0\.1:\d+/", output)

    lines = [re.split(r"\s{2,}", line, maxsplit=3) for line in output.splitlines()]
    told = [(line[2], line[3]) for line in lines if len(line) == 4 and line[1] in {"INFO", "WARN", "ERROR"}]
    story = {
        group: [
            re.sub(r", (?:took at most|join|sync|reason) .*", "", words)
            for name, words in told
            if name == group
        ]
        for group in {name for name, _ in told}
    }
    # Its offsets go with it, those that it had the time to commit.
    assert [words for words in story["nightly-report"] if not words.startswith("offsets deleted")] == [
        "group created: generation 0, before the first member's join is complete",
        "rebalance completed: generation 1, 1 member (+1 report on 127.0.0.1), trigger first_join",
        "member joined: report on 127.0.0.1",
        "group emptied: the last member has gone, generation 2",
        "member left: report on 127.0.0.1",
        "group deleted: the group is gone, after generation 2",
    ]
    assert (
        story["billing"][-1] == "static replaced: billing-b came back as a new process, no rebalance needed"
    )
    joined = [words for words in story["shipping"] if words.startswith("member joined")]
    assert joined == [f"member joined: shipping-{one} on 127.0.0.1" for one in "abc"]
    fourth = "generation 4, 2 members (-1 shipping-b on 127.0.0.1 left), trigger member_left"
    assert f"rebalance completed: {fourth}" in story["shipping"]
    assert [words for words in story["search"] if words.startswith("rebalance started")] == [
        "rebalance started: epoch 2, trigger first_join",
        "rebalance started: epoch 3, trigger member_joined",
    ]
    rows = [line.split()[:4] for line in output.partition("GROUP ")[2].splitlines()[1:]]
    assert [row for row in rows if row and row[0] in {"backfill", "billing", "search"}] == [
        ["backfill", "simple", "Empty", "0"],
        ["billing", "classic", "Stable", "2"],
        ["search", "consumer", "Stable", "2"],
    ]
    assert "nightly-report" not in {row[0] for row in rows if row}
    assert output.splitlines()[-2:] == [
        "The broker describes the same groups and states.",
        f"What happened to each group, as a page for your browser: {tmp_path / PAGE}",
    ]


@pytest.mark.long
def test_a_scenario_is_played_with_real_clients(tmp_path: Path) -> None:
    """A member that hangs: the job says in whose way the others are, and that it is over when it is killed."""
    with demo(tmp_path, "--scenario", "stuck") as process:
        watch(process, START_SECONDS + 120)
    output, errors = (tmp_path / "out").read_text(), (tmp_path / "err").read_text()
    assert process.returncode == 0, errors
    said = [line for line in output.splitlines() if "rebalance stuck: " in line]
    assert len(said) == 2
    assert "suspects: shipping-b" in said[0]
    assert "resolved after" in said[1]
    assert output.splitlines()[-1] == "The broker describes the same groups and states."


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGINT, id="Ctrl-C", marks=pytest.mark.long),
        pytest.param(signal.SIGTERM, id="SIGTERM", marks=pytest.mark.long),
    ],
)
def test_a_signal_ends_all(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C in the middle ends broker, consumers and job, removes their files; the exit code says so."""
    with demo(tmp_path, "--seconds", "60") as process:
        seen = watch(process, until=lambda: "group created" in read(tmp_path))
        os.killpg(process.pid, number)  # as a terminal does: to the whole foreground group
        process.wait(END_SECONDS)
    assert process.returncode == 128 + number
    words = {signal.SIGINT: "interrupted (Ctrl-C)", signal.SIGTERM: "terminated (SIGTERM)"}
    assert (tmp_path / "err").read_text().splitlines()[-1] == f"groupreplay: {words[number]}"
    assert len(seen) > 4
    assert gone(seen) == set()
    assert {path.name for path in tmp_path.iterdir()} == {"out", "err"}


def read(folder: Path) -> str:
    """What the demo has printed so far."""
    return (folder / "out").read_text()


@pytest.mark.long
def test_a_killed_demo_leaves_nothing_running(tmp_path: Path) -> None:
    """Even after SIGKILL all that the demo has started ends by itself."""
    with demo(tmp_path, "--seconds", "60") as process:
        seen = watch(process, until=lambda: "group created" in read(tmp_path))
        seen.update(descendants(process.pid))
        process.kill()
        process.wait()
    assert len(seen) > 4
    assert gone(seen, 60.0) == set()


@pytest.mark.long
def test_keep_leaves_the_broker(tmp_path: Path) -> None:
    """With --keep the broker survives, alone; the printed commands work, and so does the last one."""
    with demo(tmp_path, "--seconds", "12", "--keep") as process:
        seen = watch(process, START_SECONDS + 60)
    output = read(tmp_path)
    assert process.returncode == 0, (tmp_path / "err").read_text()
    pid = int(re.findall(r"\(pid (\d+)\)", output)[0])
    try:
        assert {one.pid for one in gone({one for one in seen if one.pid != pid})} == set()
        assert psutil.pid_exists(pid)
        commands = re.findall(r"^  (\S.* --bootstrap-server .*)$", output, re.MULTILINE)
        answers = [
            subprocess.run(command.split(), capture_output=True, text=True, timeout=60, check=False)
            for command in commands
        ]
        assert [answer.returncode for answer in answers] == [0] * 4, answers
        assert [answer.stdout for answer in answers if "billing" not in answer.stdout] == []
    finally:
        last = output.strip().splitlines()[-1].strip()
        assert re.fullmatch(rf"kill {pid} && rm -r \S+/groupreplay-broker-\S+", last), last
        subprocess.run(["sh", "-c", last], check=True)
    assert gone({one for one in seen if one.pid == pid}) == set()
