"""One line at the bottom of a terminal that is renewed in place; other lines are printed above it.

Also the cells that a text takes there, by Unicode's tables: East Asian characters and most emoji take two.
"""

from __future__ import annotations

import os
import shutil
import threading
import unicodedata
from contextlib import suppress
from functools import lru_cache
from itertools import accumulate, takewhile
from typing import Final, TextIO

#: Removes what is in the line of the cursor.
ERASE: Final = "\r\x1b[K"


def can_redraw(stream: TextIO) -> bool:
    """Whether a line of the stream can be renewed: it is a terminal that knows control sequences."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def cells(text: str) -> int:
    """The cells that a text takes: those of its characters, none for combining marks."""
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def beginning(text: str, width: int) -> str:
    """The first characters that take at most so many cells."""
    widths = accumulate(map(_cells_of, text))
    return text[: sum(1 for _ in takewhile(lambda total: total <= width, widths))]


@lru_cache(maxsize=4096)
def _cells_of(char: str) -> int:
    # What makes an emoji of a sign makes it wider, too.
    if char == "\ufe0f":
        return 1
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


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
        with self._lock:
            if not self._text:
                return
            room = max(shutil.get_terminal_size().columns - 1, 1)
            text = self._text if cells(self._text) <= room else beginning(self._text, room - 1) + "…"
            # The cursor goes back: a line of another writer, such as Spark's JVM, covers this one.
            self._write(f"{ERASE}{text}\r")
            self._drawn = True

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # the terminal may be gone
            self._stream.write(text)
            self._stream.flush()
