"""One line at the bottom of a terminal that is renewed in place; other lines are printed above it."""

from __future__ import annotations

import os
import shutil
import threading
from contextlib import suppress
from typing import Final, TextIO

#: Removes what is in the line of the cursor.
ERASE: Final = "\r\x1b[K"


def can_redraw(stream: TextIO) -> bool:
    """Whether a line of the stream can be renewed: it is a terminal that knows control sequences."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


class StatusLine:
    """The line of one terminal. Writers of other lines call ``clear`` before, and ``redraw`` after them.

    Several threads may write. A line that is as wide as the terminal would wrap and could not be erased: it is cut.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._text = ""
        self._drawn = False
        self._lock = threading.RLock()

    def show(self, text: str) -> None:
        """Renew the line; an empty text removes it for good."""
        with self._lock:
            self._text = text
            if text:
                self.redraw()
            else:
                self.clear()

    def clear(self) -> None:
        """Remove the line from the terminal until ``redraw``."""
        with self._lock:
            if self._drawn:
                self._write(ERASE)
                self._drawn = False

    def redraw(self) -> None:
        """Draw the line again."""
        # Imported here because every --help loads this module.
        from rich.cells import cell_len, set_cell_size

        with self._lock:
            if not self._text:
                return
            room = max(shutil.get_terminal_size().columns - 1, 1)
            text = self._text if cell_len(self._text) <= room else set_cell_size(self._text, room - 1) + "…"
            # The cursor goes back: a line of another writer, such as Spark's JVM, covers this one.
            self._write(f"{ERASE}{text}\r")
            self._drawn = True

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # the terminal may be gone
            self._stream.write(text)
            self._stream.flush()
