"""A subprocess that never outlives us: ended by us, or by its watchdog when we are killed.

Knows process groups and signals. Knows nothing of what it runs.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final

# As long as our process lives, its end of the pipe is open; an end of file without a word means that we were
# killed, and then nobody else would end the child. (A parent-death signal would do on Linux only, and fires
# when the *thread* that started the child ends.)
_WATCHDOG: Final = """
import os, shutil, signal, sys, time
pid, folder = int(sys.argv[1]), sys.argv[2]
def alive():
    try: os.kill(pid, 0)
    except OSError: return False
    return True
if not sys.stdin.buffer.read():
    for sign, tries in ((signal.SIGTERM, 100), (signal.SIGKILL, 50)):
        if alive():
            try: os.killpg(pid, sign)
            except OSError: pass
        while tries and alive():
            time.sleep(0.1)
            tries -= 1
    if folder:
        shutil.rmtree(folder, ignore_errors=True)
"""


class GuardedProcess:
    """A running command in a session of its own, with a watchdog beside it.

    Attributes:
        pid: the process's id, also the id of its group.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        output: IO[bytes] | int,
        cwd: Path | None = None,
        orphan_folder: Path | None = None,
    ) -> None:
        """Starts the command.

        Args:
            command: program and arguments.
            output: an open file or subprocess.DEVNULL; takes what the command writes to stdout and stderr.
            cwd: its working directory.
            orphan_folder: removed by the watchdog after our violent death.
        """
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=cwd,
            start_new_session=True,  # a Ctrl-C in the terminal is ours to handle, not the child's
        )
        self.pid = self._process.pid
        self._watchdog = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _WATCHDOG, str(self.pid), str(orphan_folder or "")],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def running(self) -> bool:
        """Whether the process itself lives; its children are not looked at."""
        return self._process.poll() is None

    def end(self, sign: signal.Signals, seconds: float) -> int:
        """Signals the whole group, waits, kills what is left after `seconds`; returns the exit code."""
        # Only a group whose leader we have not yet reaped is surely ours: ids are used again.
        if self.running:
            os.killpg(self.pid, sign)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
        if self.running:
            os.killpg(self.pid, signal.SIGKILL)
        code = self._process.wait()
        self.release()  # last: until here the watchdog guards
        return code

    def release(self) -> None:
        """Sends the watchdog home: from now on the process lives on without us."""
        if self._watchdog.poll() is None:
            with contextlib.suppress(BrokenPipeError):
                self._watchdog.communicate(b"ended or released on purpose")
        self._watchdog.wait()
