"""Programs on a terminal of a certain size, which the kernel reports to them."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
import threading
from collections.abc import Sequence

#: What removes the line that a program renews.
ERASE = "\r\x1b[K"


class PseudoTerminal:
    """A program with its output on a terminal; ``text`` is all that it has printed so far.

    A context manager: on exit the program has ended.
    """

    def __init__(self, command: Sequence[str], width: int) -> None:
        self.text = ""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
        env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
        env |= {"TERM": "xterm-256color", "PYTHONUTF8": "1"}
        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env)
        os.close(theirs)
        self._ours = ours
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        read = b""
        while True:
            try:
                chunk = os.read(self._ours, 65_536)
            except OSError:  # how Linux reports the end
                return
            if not chunk:
                return
            read += chunk
            self.text = read.decode(errors="ignore").replace("\r\n", "\n")

    def __enter__(self) -> PseudoTerminal:
        return self

    def __exit__(self, *error: object) -> None:
        if error[0] is not None:
            self.process.terminate()
        self.process.wait(timeout=60)
        self._reader.join(timeout=10)
        os.close(self._ours)
