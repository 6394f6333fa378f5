"""Events in a file of lines of JSON that is replaced when it is full: each once, whenever the process was killed."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Final

from groupreplay.streaming.base.errors import unusable
from groupreplay.streaming.contract.messages import OutputRow

log = logging.getLogger(__name__)

MOST_BYTES: Final = 100 << 20
#: FILE.1 is the newest of the full files.
KEPT_FILES: Final = 4


@dataclass(slots=True)
class EventFile:
    """An outlet to ``path``. What cannot be written waits in memory, and is written when it can be.

    Raises:
        GroupReplayError: the file cannot be made.
    """

    path: Path
    wanted: Callable[[bytes], bool] = lambda _: True
    most_bytes: int = MOST_BYTES
    name: str = "jsonl"
    trouble: str = ""
    _waiting: dict[int, bytes] = field(default_factory=dict, init=False)
    _arrived: list[int] = field(default_factory=list, init=False)
    _file: FileIO = field(init=False)
    _is_first: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        try:
            self._file = _opened(self.path)
        except OSError as error:
            what = f"events cannot be written: {error.strerror}"
            raise unusable(what, self.path, "give --jsonl a file in a folder that is writable") from None

    def start(self) -> None:
        """Nothing is to be started."""

    def close(self) -> None:
        """Nothing ends here: it may be asked a last time what has arrived."""
        self._file.close()

    def choose(self, rows: Sequence[OutputRow], events: Iterable[bytes]) -> Iterable[bytes]:
        """The events that are wanted."""
        del rows
        return [event for event in events if self.wanted(event)]

    def send(self, messages: Mapping[int, bytes]) -> None:
        """Writes them, or with a later call what cannot be written now."""
        if self._is_first and messages:
            # Events of an earlier process: it may have written some of them before it was killed.
            written = _written(self.path, messages.values())
            messages = {number: b"" if event in written else event for number, event in messages.items()}
            self._is_first = False
        self._waiting.update(messages)
        self._try_to_write()

    def arrived(self) -> Sequence[int]:
        """The events that are in the file since the last call; tries again to write what waits."""
        self._is_first = False
        self._try_to_write()
        arrived, self._arrived = self._arrived, []
        return arrived

    def _try_to_write(self) -> None:
        if not self._waiting:
            return
        try:
            self._write()
        except OSError as error:
            if not self.trouble:
                log.warning("events cannot be written to %s now (%s); they are kept", self.path, error)
            self.trouble = str(error)
            return
        if self.trouble:
            log.warning("events are written to %s again", self.path)
            self.trouble = ""

    def _write(self) -> None:
        """All or nothing."""
        if self._file.tell() >= self.most_bytes:
            self._replace()
        before = self._file.tell()
        try:
            left = memoryview(b"".join(event + b"\n" for event in self._waiting.values() if event))
            while left:
                left = left[self._file.write(left) :]
            os.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(before)
            self._file.seek(before)
            raise
        self._arrived.extend(self._waiting)
        self._waiting.clear()

    def _replace(self) -> None:
        for number in range(KEPT_FILES, 0, -1):
            older = _numbered(self.path, number - 1)
            if older.exists():
                older.replace(_numbered(self.path, number))
        full, self._file = self._file, _opened(self.path)
        full.close()


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}") if number else path


def _opened(path: Path) -> FileIO:
    """The file at its end; a line that a kill has cut is removed."""
    # Not buffered: what a failed write has left of a buffer would follow later.
    file = FileIO(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+")
    end = file.seek(0, os.SEEK_END)
    while end:
        start = max(0, end - 65_536)
        file.seek(start)
        if (at := file.read(end - start).rfind(b"\n")) >= 0:
            end = start + at + 1
            break
        end = start
    file.truncate(end)
    file.seek(end)
    return file


def _written(path: Path, events: Iterable[bytes]) -> set[bytes]:
    """Those of the events that are in the file or in the one before it."""
    wanted, written = set(events), set[bytes]()
    for place in (_numbered(path, 1), path):
        if place.exists():
            with place.open("rb") as lines:
                written.update(event for line in lines if (event := line[:-1]) in wanted)
    return written
