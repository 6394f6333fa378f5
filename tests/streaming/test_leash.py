"""Processes that end with the one that started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from groupreplay.streaming.leash import Leashed

DEADLINE_SECONDS = 30.0


def wait_for(condition: Callable[[], object]) -> bool:
    """Whether the condition came true in time."""
    end = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for yet does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def python(log: Path, code: str) -> Leashed:
    """A leashed interpreter that runs the code and has said "ready" when this returns."""
    child = Leashed([sys.executable, "-c", code], log)
    assert wait_for(lambda: "ready" in child.tail()), child.tail()
    return child


def test_polite_end(tmp_path: Path) -> None:
    """A child that listens to SIGTERM ends in its own way, and what it prints is in the log."""
    code = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("bye", flush=True), sys.exit(7)))
print("ready", flush=True)
time.sleep(60)
"""
    child = python(tmp_path / "log", code)
    child.end(DEADLINE_SECONDS)
    assert (child.exit_code, child.tail()) == (7, "ready\nbye")


def test_hard_end(tmp_path: Path) -> None:
    """A child that ignores SIGTERM is killed when its time is over."""
    code = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(60)
"""
    child = python(tmp_path / "log", code)
    child.end(0.2)
    assert child.exit_code == -signal.SIGKILL


@pytest.mark.parametrize("own_group", [False, True], ids=["same group", "own group"])
def test_children_go_too(tmp_path: Path, own_group: bool) -> None:
    """What the child has started is killed with it, also in a process group of its own (Linux)."""
    if own_group and not Path("/proc/self").exists():
        pytest.skip("needs /proc")
    code = f"""
import subprocess, sys, os, time
grandchild = subprocess.Popen([sys.executable, "-c", "import os, time\\nif {own_group}: os.setpgid(0, 0)\\n"
                               "print('ready', os.getpid(), flush=True)\\ntime.sleep(60)"])
time.sleep(60)
"""
    child = python(tmp_path / "log", code)
    grandchild = int(child.tail().split()[1])
    child.end(0)
    assert wait_for(lambda: not is_alive(grandchild))


def test_ending_twice_is_harmless(tmp_path: Path) -> None:
    """The second end does nothing: the process id may belong to somebody else by then."""
    with python(tmp_path / "log", "print('ready', flush=True)") as child:
        assert wait_for(lambda: child.exit_code is not None)
        child.end(DEADLINE_SECONDS)
        child.end(0)
    assert child.exit_code == 0


def test_ends_with_its_starter(tmp_path: Path) -> None:
    """A child on the leash is gone soon after its starter was killed with SIGKILL."""
    starter = f"""
import sys, time
from pathlib import Path
from groupreplay.streaming.leash import Leashed
code = "from groupreplay.streaming.leash import end_with_starter as e; import time; e(); " \\
       "print('ready', flush=True); time.sleep(60)"
child = Leashed([sys.executable, "-c", code], Path({str(tmp_path / "log")!r}))
print(child.pid, flush=True)
time.sleep(60)
"""
    process = subprocess.Popen([sys.executable, "-c", starter], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    assert wait_for((tmp_path / "log").read_text)
    was_alive = is_alive(child)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert was_alive
    assert wait_for(lambda: not is_alive(child))


def test_a_command_on_the_leash(tmp_path: Path) -> None:
    """``python -m groupreplay.streaming.leash ARGS`` is ``groupreplay ARGS``."""
    command = [
        sys.executable,
        "-m",
        "groupreplay.streaming.leash",
        "coordinator",
        "testgroup",
        "--partitions",
        "50",
    ]
    with Leashed(command, tmp_path / "log") as child:
        assert wait_for(lambda: child.exit_code is not None)
    plain = subprocess.run(
        [sys.executable, "-m", "groupreplay.streaming", *command[3:]],
        capture_output=True,
        text=True,
        check=True,
    )
    assert (child.exit_code, child.tail()) == (0, plain.stdout.strip())
