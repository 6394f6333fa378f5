"""Processes that do not outlive us."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from waiting import wait_until

from groupreplay.streaming.guarded import GuardedProcess

# A shell with a child: both must go.
FAMILY = ["sh", "-c", "sleep 600 & echo started $!; wait"]

# Starts the command, says the pid, and waits to be killed.
PARENT = """
import subprocess, sys
from pathlib import Path
from groupreplay.streaming.guarded import GuardedProcess
child = GuardedProcess(sys.argv[2:], output=subprocess.DEVNULL, orphan_folder=Path(sys.argv[1]))
print(child.pid, flush=True)
sys.stdin.read()
"""


def gone(pid: int) -> bool:
    """Whether no such process runs; an orphan that waits to be reaped counts as gone."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def start_family(log: Path) -> tuple[GuardedProcess, int]:
    """The running family and its child's pid."""
    with log.open("wb") as file:
        family = GuardedProcess(FAMILY, output=file)
    wait_until(lambda: log.read_text().endswith("\n"))
    return family, int(log.read_text().split()[1])


def test_end_takes_the_whole_group(tmp_path: Path) -> None:
    """A signal goes to the command and its children; the exit code tells it; ending twice is harmless."""
    family, child = start_family(tmp_path / "log")
    assert family.running
    assert family.end(signal.SIGTERM, 20) == -signal.SIGTERM
    assert not family.running
    wait_until(lambda: gone(child))
    assert family.end(signal.SIGTERM, 20) == -signal.SIGTERM


def test_end_gets_harder(tmp_path: Path) -> None:
    """Who does not heed SIGTERM is killed when its time is up."""
    log = tmp_path / "log"
    with log.open("wb") as file:
        deaf = GuardedProcess(
            [
                sys.executable,
                "-c",
                "import signal; signal.signal(15, signal.SIG_IGN); print(1, flush=True); signal.pause()",
            ],
            output=file,
        )
    wait_until(log.read_text)
    assert deaf.end(signal.SIGTERM, 0.2) == -signal.SIGKILL


def test_own_session(tmp_path: Path) -> None:
    """A Ctrl-C in our terminal does not reach it: it leads a session of its own."""
    family, _ = start_family(tmp_path / "log")
    try:
        assert os.getsid(family.pid) == family.pid
    finally:
        family.end(signal.SIGKILL, 0)


def test_release_lets_it_live(tmp_path: Path) -> None:
    """After a release no watchdog is left, and the process runs on."""
    family, child = start_family(tmp_path / "log")
    try:
        watchdogs = [
            process
            for process in psutil.Process().children()
            if process.pid != family.pid and str(family.pid) in process.cmdline()
        ]
        assert len(watchdogs) == 1
        family.release()
        assert not watchdogs[0].is_running()
        assert (family.running, gone(child)) == (True, False)
    finally:
        family.end(signal.SIGKILL, 0)


@pytest.mark.parametrize("way", [signal.SIGKILL, signal.SIGTERM])
def test_violent_death_of_the_parent(way: signal.Signals, tmp_path: Path) -> None:
    """When we are killed, the process goes, too, and the folder it leaves behind."""
    folder = tmp_path / "data"
    folder.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(folder), "sleep", "600"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert not gone(child)
        parent.send_signal(way)
        parent.wait()
    wait_until(lambda: gone(child))
    wait_until(lambda: not folder.exists())
