"""A command on a terminal of its own, as a user has it: what it prints, how it ends, and what it leaves behind."""

from __future__ import annotations

import os
import pty
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from support.kafka.waiting import PATIENCE_SECONDS, is_alive, wait_until

#: Far above the three seconds of docs/cli.md: tests do not depend on speed.
_SETTLE_SECONDS: Final = 0.05
_TERM_BIT: Final = 1 << (signal.SIGTERM - 1)

#: How a process is ended, and the exit code and the sentence of docs/cli.md.
Way = Callable[["Terminal"], None]


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a command: what was on the terminal after the signal, and how long it took."""

    exit_code: int
    said: str
    seconds: float


class Terminal:
    """A running command; ``scratch`` is its folder for temporary files."""

    def __init__(self, words: Sequence[str], scratch: Path, environment: Mapping[str, str]) -> None:
        self.scratch = scratch
        self.printed = b""
        self._is_closed = False
        self._descendants: set[psutil.Process] = set()
        command = [sys.executable, "-m", "groupreplay", *words]
        variables = {**os.environ, "TERM": "xterm", **environment, "TMPDIR": str(scratch)}
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.execve(sys.executable, command, variables)

    def read(self, seconds: float = 0.0) -> None:
        """Reads what is there, at most for this time."""
        if self._is_closed:
            time.sleep(seconds)
            return
        with suppress(OSError):  # it has ended
            while select.select([self._terminal], [], [], seconds)[0]:
                data = os.read(self._terminal, 65536)
                if not data:
                    return
                self.printed += data

    def look(self) -> None:
        """Notes the processes that it has started."""
        with suppress(psutil.Error):
            self._descendants.update(psutil.Process(self.pid).children(recursive=True))

    def is_loaded(self) -> bool:
        """Whether its first line has run: it handles SIGTERM, as Python by itself does not."""
        with suppress(OSError):
            for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
                if line.startswith("SigCgt:"):
                    return bool(int(line.split()[1], 16) & _TERM_BIT)
        return False

    def wait_until(self, condition: Callable[[], object], pause: float = 0.02) -> None:
        """Waits for the condition, and reads meanwhile."""

        def checked() -> object:
            self.read(0.02)
            assert is_alive(self.pid), self.printed.decode(errors="replace")
            return condition()

        wait_until(checked, pause=pause)

    def end(self, way: Way) -> Ended:
        """Sends the signal, and waits for the end."""
        self.look()
        self.read()
        before, began = len(self.printed), time.monotonic()
        way(self)
        deadline = began + PATIENCE_SECONDS
        while (ended := os.waitpid(self.pid, os.WNOHANG))[0] == 0:
            assert time.monotonic() < deadline, self.printed.decode(errors="replace")
            self.read(0.01)
        seconds = time.monotonic() - began
        self.read(_SETTLE_SECONDS)
        return Ended(os.waitstatus_to_exitcode(ended[1]), shown(self.printed[before:].decode()), seconds)

    def left(self) -> list[str]:
        """The processes that are still there, and the temporary files."""
        processes = [" ".join(one.cmdline()) for one in self._descendants if is_alive_process(one)]
        return processes + [str(path.relative_to(self.scratch)) for path in self.scratch.rglob("*")]

    def ctrl_c(self) -> None:
        """Presses Ctrl-C: SIGINT to the foreground group."""
        os.write(self._terminal, b"\x03")

    def terminate(self) -> None:
        """Sends SIGTERM to the process alone."""
        os.kill(self.pid, signal.SIGTERM)

    def terminate_group(self) -> None:
        """Sends SIGTERM to its process group."""
        os.killpg(self.pid, signal.SIGTERM)

    def terminate_all(self) -> None:
        """Sends SIGTERM to it and to every process that it has started, as systemd does."""
        for pid in [self.pid, *(one.pid for one in self._descendants)]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    def close(self) -> None:
        """Closes the terminal, which sends SIGHUP. Once: its number may be that of another file afterwards."""
        if not self._is_closed:
            self._is_closed = True
            os.close(self._terminal)


def shown(printed: str) -> str:
    """What is left to be seen of it: a line may have been erased and written again."""
    lines = printed.replace("\r\n", "\n").split("\n")[:-1]
    return "".join(line.rpartition("\x1b[K")[2] + "\n" for line in lines)


def is_alive_process(process: psutil.Process) -> bool:
    """Whether it runs; its id may belong to another one by now."""
    with suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


#: The end by each way: exit code, and what is then on the terminal; ^C is erased. Of a closed one nothing is seen.
INTERRUPTED: Final = (130, "groupreplay: interrupted (Ctrl-C)\n")
TERMINATED: Final = (143, "groupreplay: terminated (SIGTERM)\n")
WAYS: Final[Mapping[Way, tuple[int, str]]] = {
    Terminal.ctrl_c: INTERRUPTED,
    Terminal.terminate: TERMINATED,
    Terminal.terminate_group: TERMINATED,
    Terminal.terminate_all: TERMINATED,
    Terminal.close: (129, ""),
}


def ends_as_documented(terminal: Terminal, way: Way) -> Ended:
    """Ends it in this way: one sentence, the exit code, and nothing is left; returns how."""
    ended = terminal.end(way)
    # A line of progress may have been written while the signal was sent.
    progress = tuple(
        f"groupreplay: {word}" for word in ("caught", "starting", "created the topics", "a first start")
    )
    said = "".join(line for line in ended.said.splitlines(keepends=True) if not line.startswith(progress))
    assert (ended.exit_code, said) == WAYS[way], terminal.printed.decode(errors="replace")
    wait_until(lambda: not terminal.left())
    return ended


@contextmanager
def on_terminal(
    words: Sequence[str], scratch: Path, environment: Mapping[str, str] = {}
) -> Iterator[Terminal]:
    """The command, killed with all that it has started if the block fails."""
    scratch.mkdir(exist_ok=True)
    terminal = Terminal(words, scratch, environment)
    try:
        yield terminal
    finally:
        terminal.look()
        for process in [*terminal._descendants]:
            with suppress(psutil.Error):
                process.kill()
        with suppress(OSError):
            if os.waitpid(terminal.pid, os.WNOHANG)[0] == 0:
                os.kill(terminal.pid, signal.SIGKILL)
                os.waitpid(terminal.pid, 0)
        terminal.close()
