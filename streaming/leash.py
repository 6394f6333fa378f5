"""Processes that end when the one that started them ends, however that happened.

The starter holds the only writing end of the child's standard input; the child reads it in a thread, and its
end means that nobody is left to stop the child. ``python -m groupreplay.streaming.leash ARGS`` is
``groupreplay ARGS`` on such a leash.

Knows processes and signals; must not know what the processes do.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_HARD_END_SECONDS: Final = 15.0


class Leashed:
    """A child process in a session of its own (a Ctrl-C in the terminal is its starter's to handle)."""

    def __init__(
        self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        """Starts it; what it prints goes to the end of ``log``."""
        self.log = log
        self._ended = False
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=None if environment is None else dict(environment),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its process id, also the id of its process group."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; minus the signal's number when a signal ended it."""
        return self._process.poll()

    def ask_to_end(self) -> None:
        """SIGTERM, without waiting."""
        if self.exit_code is None:
            self._process.terminate()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        if self.exit_code is None:
            self._process.send_signal(number)

    def end(self, seconds: float) -> None:
        """SIGTERM, then SIGKILL for it and all it started when it takes longer than that; 0 kills at once."""
        if self._ended:  # its id may be somebody else's by now
            return
        if seconds:
            self.ask_to_end()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        _kill_session(self.pid)
        self._process.wait()
        self._ended = True
        if self._process.stdin is not None:
            self._process.stdin.close()

    def __enter__(self) -> Leashed:
        return self

    def __exit__(self, *error: object) -> None:
        self.end(0)

    def tail(self, lines: int = 20) -> str:
        """The end of what it printed."""
        return "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-lines:])


def _kill_session(leader: int) -> None:
    """Kills what left the leader's process group but not its session, as Spark's Python workers do.

    Only where there is a /proc to look at; elsewhere they end by themselves when their JVM is gone.
    """
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.getsid(int(entry.name)) == leader:
                os.kill(int(entry.name), signal.SIGKILL)


def end_with_starter() -> None:
    """For the child: when standard input ends, SIGTERM to itself, then a hard end if it ignores that."""

    def watch() -> None:
        # Not sys.stdin: its lock would be held for ever, and Python waits for it when it ends.
        while os.read(0, 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        timer = threading.Timer(_HARD_END_SECONDS, os._exit, [1])
        timer.daemon = True
        timer.start()

    threading.Thread(target=watch, name="leash", daemon=True).start()


if __name__ == "__main__":
    from groupreplay.streaming.cli import main

    end_with_starter()
    sys.argv[0] = "groupreplay"
    main()
