"""Log files of brokers, plain or ``.gz``, in any order: their lines by time, and what is wrong with a file."""

from __future__ import annotations

import gzip
import logging
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import chain, islice
from pathlib import Path
from typing import IO, Final

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.broker_log.layouts import LAYOUTS, Layout, layout
from groupreplay.streaming.broker_log.lines import BrokerLine, broker_line

log = logging.getLogger(__name__)

_GZIP: Final = b"\x1f\x8b"
#: A file begins with lines of a start script or of a stack trace, at most so many.
_HEAD_LINES: Final = 5_000
#: Of a longer line the rest is left out: no line of a coordinator has so many characters.
_LINE_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class TimedLine:
    """A line that says something, and its time by the broker's clock."""

    at_ms: int
    line: BrokerLine


@dataclass
class LogFiles:
    """These files; ``pattern`` is the conversion pattern of all of them, None: one of ``LAYOUTS``.

    ``fitting`` are those of which a line has a known layout, and is filled while the lines are read.
    """

    paths: Sequence[Path]
    pattern: Layout | None = None
    fitting: list[Path] = field(default_factory=list)

    def lines(self) -> Iterator[TimedLine]:
        """The lines that say something, of all files, by time.

        Raises:
            GroupReplayError: a file cannot be opened, or no file has a known layout; also while iterating.
        """
        yield from merge(*map(self._file, self.paths), key=lambda timed: timed.at_ms)
        if not self.fitting:
            raise GroupReplayError(
                "no line has a known layout"
                if self.pattern is None
                else f"no line has the layout {self.pattern.pattern}",
                where=", ".join(map(str, self.paths)),
                fix="give the conversion pattern of the broker's log4j file with --broker-log-pattern, such as "
                "'[%d] %p %m (%c)%n'",
                exit_code=ExitCode.DATA,
            )

    def _file(self, path: Path) -> Iterator[TimedLine]:
        texts = _texts(path)
        head = list(islice(texts, _HEAD_LINES))
        known = next(filter(lambda one: any(map(one.message, head)), self._layouts()), None)
        if known is None:
            log.warning("%s: no line has a known layout, so the file is not used", path)
            return
        self.fitting.append(path)
        for text in chain(head, texts):
            # The layout of a line is only looked at if its words say something.
            if (read := known.message(text)) is not None and (line := broker_line(read[1])) is not None:
                yield TimedLine(read[0], line)

    def _layouts(self) -> Iterator[Layout]:
        yield from map(layout, LAYOUTS.values()) if self.pattern is None else [self.pattern]


def _texts(path: Path) -> Iterator[str]:
    """The lines of a file; of one that is damaged, those before the damage."""
    try:
        with _opened(path) as stream:
            while raw := stream.readline(_LINE_BYTES):
                yield raw.decode("utf-8", "replace").rstrip("\r\n")
                while not raw.endswith(b"\n") and len(raw) == _LINE_BYTES:
                    raw = stream.readline(_LINE_BYTES)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        log.warning("%s: the archive is damaged (%s); the lines before the damage are used", path, error)
    except OSError as error:
        raise GroupReplayError(
            f"the file cannot be read: {error.strerror or error}",
            where=str(path),
            fix="give log files of brokers, plain or .gz",
            exit_code=ExitCode.DATA,
        ) from None


def _opened(path: Path) -> IO[bytes] | gzip.GzipFile:
    with path.open("rb") as stream:
        is_gzip = stream.read(2) == _GZIP
    return gzip.open(path) if is_gzip else path.open("rb")
