"""Child processes that end when this process ends, however it ends.

A watchdog process holds the reading end of a pipe. When the pipe closes while child processes are still registered,
the watchdog ends them. (A parent-death signal works only on Linux, and it fires when the *thread* that started the
process ends.) ``python -m groupreplay.streaming.local.process_guard`` is the watchdog.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Final, NamedTuple

from groupreplay.streaming.base.process import always_at_the_end, at_the_end

#: Places in /proc/PID/stat after the program's name, as in proc(5).
STATE: Final = 0
PARENT: Final = 1
_STARTED: Final = 19


def stat_fields(pid: int) -> list[str]:
    """State, parent and what follows; the name before them may have any characters.

    Raises:
        OSError: there is no such process, or no /proc.
    """
    return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()


def started_at(pid: int) -> str | None:
    """When a process was started, in ticks since the machine was; None without the process, or without a /proc.

    Ids are used again: two processes with one id differ in it.
    """
    try:
        return stat_fields(pid)[_STARTED]
    except OSError:
        return None


#: Time after SIGTERM, and then after SIGKILL, when the parent process was killed.
_POLITE_SECONDS: Final = 15.0
_GONE_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.1
_WAIT_SECONDS: Final = 0.02


class GuardedProcess:
    """A command in its own session, so that Ctrl-C in the terminal only reaches the parent process.

    Attributes:
        answers: its standard output with ``subprocess.PIPE``; otherwise None.
    """

    def __init__(
        self,
        command: Sequence[str],
        output: Path | int | None,
        *,
        environment: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        orphan_folder: Path | None = None,
        given: bytes = b"",
    ) -> None:
        """Start the process.

        Args:
            command: program and arguments.
            output: where its output goes: a file to append to, subprocess.DEVNULL, or subprocess.PIPE for
                ``answers``; with PIPE its errors go to this process's stderr.
            environment: its environment; None: that of this process.
            cwd: its working directory.
            orphan_folder: a folder that the watchdog removes if this process is killed.
            given: its standard input.
        """
        self.log = output if isinstance(output, Path) else None
        self._ended = False
        with contextlib.ExitStack() as stack:
            target = stack.enter_context(output.open("ab")) if isinstance(output, Path) else output
            self._process = subprocess.Popen(
                [*command],
                stdin=subprocess.PIPE if given else subprocess.DEVNULL,
                stdout=target,
                stderr=None if output == subprocess.PIPE else target,
                env=None if environment is None else dict(environment),
                cwd=cwd,
                start_new_session=True,
            )
        _WATCHDOG.guard(self._process, orphan_folder)
        self.answers: IO[bytes] | None = self._process.stdout
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError), self._process.stdin as stdin:
                stdin.write(given)

    @property
    def pid(self) -> int:
        """The process id, also the id of its process group and session."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; minus the signal's number if a signal ended it."""
        return _exit_code(self._process)

    def wait(self, seconds: float = 10.0) -> None:
        """Wait for its end, at most this long."""
        deadline = time.monotonic() + seconds
        while self.exit_code is None and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, _WAIT_SECONDS))

    def ask_to_end(self) -> None:
        """Send SIGTERM, without waiting."""
        self.send(signal.SIGTERM)

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        if self.exit_code is None:
            os.kill(self.pid, number)

    def end(self, seconds: float) -> None:
        """Send SIGTERM, and after ``seconds`` SIGKILL to it and all its descendants; 0 kills at once."""
        if self._ended:  # the id may belong to a stranger by now
            return
        if seconds:
            self.ask_to_end()
            self.wait(seconds)
        _kill_all(self.pid)
        self._process.wait()
        self._ended = True
        self.release()  # last: the watchdog is responsible until here

    def release(self) -> None:
        """Let the process outlive this one."""
        _WATCHDOG.forget(self.pid)

    def __enter__(self) -> GuardedProcess:
        return self

    def __exit__(self, *error: object) -> None:
        self.end(0)

    def tail(self, lines: int = 20) -> str:
        """The last lines of its output file."""
        text = "" if self.log is None else self.log.read_text("utf-8", "replace")
        return "\n".join(text.splitlines()[-lines:])


def _exit_code(process: subprocess.Popen[bytes]) -> int | None:
    """Its exit code; the process stays a zombie, so that its id can be no stranger's when what it has left is killed.

    macOS has no ``waitid`` before Python 3.13.
    """
    if process.returncode is not None or not hasattr(os, "waitid"):
        return process.poll()
    try:
        status = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # collected by another part of the program
        return process.poll()
    if status is None:
        return None
    return status.si_status if status.si_code == os.CLD_EXITED else -status.si_status


def _kill_all(leader: int) -> None:
    """Kill a process group, and processes that left the group but not the session, as Spark's Python workers do.

    The latter only where there is a /proc; elsewhere they end by themselves when their JVM has ended.
    """
    with contextlib.suppress(OSError):
        os.killpg(leader, signal.SIGKILL)
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.getsid(int(entry.name)) == leader:
                os.kill(int(entry.name), signal.SIGKILL)


class _Guarded(NamedTuple):
    """A process, when it was started, and the folder to be removed; the watchdog is told the last two.

    The process is held, because Python would collect one that nobody holds, and then its id may be a stranger's.
    """

    process: subprocess.Popen[bytes]
    begun: str | None
    folder: str | None


class _Watchdog:
    """The parent's side of the watchdog; the watchdog process runs while there is something to guard."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._guarded: dict[int, _Guarded] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def guard(self, process: subprocess.Popen[bytes], folder: Path | None) -> None:
        with self._lock:
            place = None if folder is None else str(folder)
            self._guarded[process.pid] = _Guarded(process, started_at(process.pid), place)
            self._send()

    def end_all(self) -> None:
        """Kill everything that is guarded, and remove its folders: this process ends at once."""
        for pid, guarded in list(self._guarded.items()):
            _kill_all(pid)
            if guarded.folder is not None:
                shutil.rmtree(guarded.folder, ignore_errors=True)

    def forget(self, pid: int) -> None:
        with self._lock:
            if pid not in self._guarded:
                return
            del self._guarded[pid]
            self._send()
            if not self._guarded and self._process is not None:
                self._process.communicate()
                self._process = None

    def _send(self) -> None:
        """Send everything that is to be guarded, as one line."""
        line = (
            json.dumps(
                {pid: (guarded.begun, guarded.folder) for pid, guarded in self._guarded.items()}
            ).encode()
            + b"\n"
        )
        for _ in range(2):
            if self._process is None:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", __name__],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(line)
                self._process.stdin.flush()
            except BrokenPipeError:  # the watchdog was killed
                self._process.wait()
                self._process = None
            else:
                return


_WATCHDOG: Final = _Watchdog()
always_at_the_end(_WATCHDOG.end_all)


def _watch() -> None:
    """The watchdog: end what is still guarded when the pipe closes."""
    line = b"{}"
    for line in sys.stdin.buffer:  # noqa: B007 - the last one counts
        pass
    guarded: dict[int, tuple[str | None, str | None]] = {
        int(pid): told for pid, told in json.loads(line).items()
    }
    # The zombies of a dead parent are collected at once: an id may be a stranger's already.
    ours = [pid for pid, (begun, _) in guarded.items() if started_at(pid) in (None, begun)]
    for pid in ours:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGTERM)
    _await_end(ours, _POLITE_SECONDS)
    for pid in ours:
        _kill_all(pid)
    _await_end(ours, _GONE_SECONDS)
    for folder in filter(None, (folder for _, folder in guarded.values())):
        shutil.rmtree(folder, ignore_errors=True)


def _await_end(pids: Sequence[int], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and any(map(_runs, pids)):
        time.sleep(_POLL_SECONDS)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


_JVM_GONE_SECONDS: Final = 0.4
_JVM_POLL_SECONDS: Final = 0.01


@contextmanager
def jvm_folder() -> Iterator[Path]:
    """The folder for temporary files of the JVM that the block starts; afterwards it is removed.

    If the process ends at once, the JVM and everything that it has started are killed, and the folder is removed.
    """
    folder = Path(tempfile.mkdtemp(prefix="groupreplay-spark-"))
    try:
        with at_the_end(partial(end_jvm, folder)):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def temporary_files_in(folder: Path) -> Iterator[None]:
    """Python's temporary files are below ``folder``: PySpark makes one for the address of the JVM."""
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before


def end_jvm(folder: Path | None = None) -> None:
    """Kills what this process has started and is in its session, with all its descendants, and removes the folder.

    A ``GuardedProcess`` has a session of its own. Without a /proc nothing is killed: there the JVM ends by itself,
    because its standard input does.
    """
    pids = _descendants()
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + _JVM_GONE_SECONDS
    while any(map(_is_running, pids)) and time.monotonic() < deadline:
        time.sleep(_JVM_POLL_SECONDS)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def _descendants() -> list[int]:
    own, session = os.getpid(), os.getsid(0)
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            pid = int(entry.name)
            if os.getsid(pid) == session:
                parents[pid] = int(stat_fields(pid)[PARENT])
    descendants = [own]
    for pid in descendants:
        descendants += [child for child, parent in parents.items() if parent == pid]
    return descendants[1:]


def _is_running(pid: int) -> bool:
    with suppress(OSError):
        return stat_fields(pid)[STATE] != "Z"
    return False


if __name__ == "__main__":
    _watch()
