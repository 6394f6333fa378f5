"""What /proc tells of processes.

Processes that end with the one that started them. What a JVM leaves behind when it is killed: its descendants and
its files, and they go with it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from groupreplay.streaming.local import process_guard
from groupreplay.streaming.local.process_guard import (
    PARENT,
    STATE,
    GuardedProcess,
    jvm_folder,
    started_at,
    stat_fields,
    temporary_files_in,
)
from support.kafka.waiting import children_with, is_alive, wait_until

pytestmark = pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")


def test_the_fields_of_a_hostile_name(tmp_path: Path) -> None:
    """A program may be called so that its name looks like the fields that follow it."""
    program = tmp_path / ") Z 1 ("
    shutil.copy(shutil.which("sleep") or "", program)
    with subprocess.Popen([program, "600"]) as child:
        found = stat_fields(child.pid)
        child.kill()
    assert (found[STATE] in "RSD", int(found[PARENT])) == (True, os.getpid())


def test_the_start_of_a_process() -> None:
    """As psutil has it; a process that is gone has none."""
    with subprocess.Popen(["sleep", "600"]) as child:
        ticks = started_at(child.pid)
        assert ticks is not None
        seconds = int(ticks) / os.sysconf("SC_CLK_TCK")
        assert psutil.boot_time() + seconds == pytest.approx(psutil.Process(child.pid).create_time(), abs=1.5)
        child.kill()
    assert started_at(child.pid) is None


DEADLINE_SECONDS = 30.0
#: A shell with a child, which says its process id.
FAMILY = ["sh", "-c", "sleep 600 & echo started $!; wait"]
#: Starts the command with a folder to be removed, says the process id, and waits to be killed.
STARTER = """
import subprocess, sys
from pathlib import Path
from groupreplay.streaming.local.process_guard import GuardedProcess
child = GuardedProcess(sys.argv[2:], subprocess.DEVNULL, orphan_folder=Path(sys.argv[1]))
print(child.pid, flush=True)
sys.stdin.read()
"""
ANOTHER_WATCHDOG = """
import groupreplay.streaming.local.process_guard as guard
first = guard._WATCHDOG._process; first.kill(); first.wait()
with GuardedProcess(['true'], subprocess.DEVNULL): pass
print("""
DEAF = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(600)
"""


def python(log: Path, code: str) -> GuardedProcess:
    """A guarded interpreter that runs the code and has said "ready" when this returns."""
    child = GuardedProcess([sys.executable, "-c", code], log)
    wait_until(lambda: "ready" in child.tail())
    return child


def family(log: Path) -> tuple[GuardedProcess, int]:
    """The running shell and its child's process id."""
    shell = GuardedProcess(FAMILY, log)
    wait_until(lambda: log.read_text().endswith("\n"))
    return shell, int(log.read_text().split()[1])


Watchdogs = Callable[[], list[psutil.Process]]


def _watchdogs() -> list[psutil.Process]:
    return children_with(process_guard.__name__)


@pytest.fixture
def watchdogs(monkeypatch: pytest.MonkeyPatch) -> Watchdogs:
    """Those that a test has started and that are still there; the broker of all tests has one of its own."""
    monkeypatch.setattr(process_guard, "_WATCHDOG", process_guard._Watchdog())
    others = _watchdogs()
    return lambda: [watchdog for watchdog in _watchdogs() if watchdog not in others]


def test_polite_end(tmp_path: Path) -> None:
    """A child that listens to SIGTERM ends in its own way, and what it prints is in the log."""
    code = DEAF.replace("signal.SIG_IGN", 'lambda *_: (print("bye", flush=True), exit(7))')
    child = python(tmp_path / "log", code)
    child.end(DEADLINE_SECONDS)
    assert (child.exit_code, child.tail()) == (7, "ready\nbye")


def test_hard_end(tmp_path: Path) -> None:
    """A child that ignores SIGTERM is killed when its time is over."""
    child = python(tmp_path / "log", DEAF)
    child.end(0.2)
    assert child.exit_code == -signal.SIGKILL


def test_the_whole_group_ends(tmp_path: Path) -> None:
    """What a command has started is killed with it, even when the command itself has ended politely."""
    shell, child = family(tmp_path / "log")
    assert shell.exit_code is None
    shell.end(DEADLINE_SECONDS)
    assert shell.exit_code == -signal.SIGTERM
    wait_until(lambda: not is_alive(child))


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_who_left_the_group_ends_too(tmp_path: Path) -> None:
    """What the child has started is killed with it, also in a process group of its own."""
    code = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import os, time; os.setpgid(0, 0); print('ready', os.getpid(), flush=True); "
                  "time.sleep(60)"])
time.sleep(60)
"""
    child = python(tmp_path / "log", code)
    grandchild = int(child.tail().split()[1])
    child.end(0)
    wait_until(lambda: not is_alive(grandchild))


def test_own_session(tmp_path: Path) -> None:
    """A Ctrl-C in our terminal does not reach it: it leads a session of its own."""
    with python(tmp_path / "log", DEAF) as child:
        assert os.getsid(child.pid) == child.pid


def test_ending_twice_is_harmless(tmp_path: Path) -> None:
    """The second end does nothing: the process id may belong to somebody else by then."""
    with python(tmp_path / "log", "print('ready', flush=True)") as child:
        wait_until(lambda: child.exit_code is not None)
        child.end(DEADLINE_SECONDS)
        child.end(0)
    assert child.exit_code == 0


def test_the_id_stays_its_own_until_the_end(tmp_path: Path) -> None:
    """However often its exit code is asked for: what is killed at the end has its id, or that of its group."""
    child = python(tmp_path / "log", "print('ready', flush=True); exit(7)")
    child.wait(DEADLINE_SECONDS)
    assert [child.exit_code for _ in range(3)] == [7, 7, 7]
    child.send(signal.SIGKILL)
    assert psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE
    child.end(0)
    assert (child.exit_code, psutil.pid_exists(child.pid)) == (7, False)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_the_watchdog_kills_no_stranger(tmp_path: Path) -> None:
    """A process with the id of a guarded one that was started at another time is somebody else's."""
    shell, _ = family(tmp_path / "log")
    folder = tmp_path / "data"
    folder.mkdir()
    line = json.dumps({shell.pid: ("1", str(folder))}).encode()
    subprocess.run([sys.executable, "-m", process_guard.__name__], input=line + b"\n", check=True)
    assert (shell.exit_code, folder.exists()) == (None, False)
    shell.end(0)


def test_given_and_answered() -> None:
    """What it is given stands on its standard input, up to an end; what it prints can be read."""
    code = "import sys; print(len(sys.stdin.read()), sys.stdin.read())"
    with GuardedProcess([sys.executable, "-c", code], subprocess.PIPE, given=b"secret" * 50_000) as child:
        assert child.answers is not None
        assert child.answers.read() == b"300000 \n"


def test_one_watchdog_as_long_as_it_is_needed(tmp_path: Path, watchdogs: Watchdogs) -> None:
    """However many processes there are, one guards them, and it goes home with the last of them."""
    with python(tmp_path / "a", DEAF):
        with python(tmp_path / "b", DEAF):
            assert len(watchdogs()) == 1
        assert len(watchdogs()) == 1
    assert watchdogs() == []


def test_a_released_process_lives_on(tmp_path: Path, watchdogs: Watchdogs) -> None:
    """After a release nobody guards it any more, and it runs."""
    shell, child = family(tmp_path / "log")
    try:
        shell.release()
        assert watchdogs() == []
        assert (shell.exit_code, is_alive(child)) == (None, True)
    finally:
        shell.end(0)


@pytest.mark.parametrize("way", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("watchdog", ["first", "second"])
def test_violent_death_of_the_starter(way: signal.Signals, watchdog: str, tmp_path: Path) -> None:
    """When we are killed the process goes, too, and the folder it leaves behind; so after a watchdog was killed."""
    folder = tmp_path / "data"
    folder.mkdir()
    code = STARTER if watchdog == "first" else STARTER.replace("print(", ANOTHER_WATCHDOG)
    command = [sys.executable, "-c", code, str(folder), "sleep", "600"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        child = int(starter.stdout.readline())
        assert is_alive(child)
        starter.send_signal(way)
        starter.wait()
    wait_until(lambda: not is_alive(child))
    wait_until(lambda: not folder.exists())


CHILDREN = """
import os, subprocess, sys
# As Spark's start script, the JVM, and a daemon in a process group of its own.
inner = "import os, time; os.setpgid(0, 0); print(os.getpid(), flush=True); time.sleep(600)"
outer = "import os, subprocess, sys; print(os.getpid(), flush=True); "
outer += f"subprocess.run([sys.executable, '-c', {inner!r}])"
tree = subprocess.Popen([sys.executable, "-c", outer], stdout=subprocess.PIPE, text=True)
guarded = subprocess.Popen(["sleep", "600"], start_new_session=True)
pids = [int(tree.stdout.readline()), int(tree.stdout.readline())]
from groupreplay.streaming.local.process_guard import end_jvm, jvm_folder
with jvm_folder() as folder:
    (folder / "x").mkdir()
    (folder / "x" / "file").write_text("content")
    end_jvm(folder)
    import psutil
    alive = [pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"]
    print(alive, folder.exists(), guarded.poll())
guarded.kill()
"""


def test_all_descendants_are_killed() -> None:
    """Those of its session, whatever their group; a guarded process has a session and a watchdog of its own."""
    done = subprocess.run([sys.executable, "-c", CHILDREN], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[] False None\n", "")


def test_the_folder_of_a_jvm() -> None:
    """It is removed with its content at the end of the block, and Python's temporary files can be in it."""
    before = tempfile.gettempdir()
    with jvm_folder() as folder:
        assert folder.parent == Path(before)
        with temporary_files_in(folder):
            assert Path(tempfile.mkdtemp()).parent == folder
        assert tempfile.gettempdir() == before
    assert not folder.exists()
