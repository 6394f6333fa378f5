"""Log lines of every command: on stderr, one per line, without secrets and control characters."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from typing import Final, Literal, TextIO

import click

from groupreplay.streaming.base.process import is_quiet
from groupreplay.streaming.base.status_line import StatusLine, can_redraw
from groupreplay.streaming.config.properties import MASK

LogFormat = Literal["text", "json"]

_ROOT: Final = "groupreplay"
_STATUS_SECONDS: Final = 60.0
#: The line that is renewed at the bottom of the terminal, while a run has one: above it everything else is printed.
_status_lines: Final[list[StatusLine]] = []

#: Match ``password="x"``, ``sasl.jaas.config=… ;``, ``'ssl.key.pem': 'x'`` and similar forms.
_JAAS: Final = re.compile(r"(?i)(jaas\.config['\"]?\s*[=:]\s*).*?(;|$)", re.DOTALL)
_SECRET: Final = re.compile(
    r"""(?ix)
    ( [\w.-]* (?: password | passwd | secret | token | ssl [\w.]* \. (?:key|pem) | keystore\.key ) [\w-]*
      ['"]? \s* [=:] \s* )
    ( "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' | [^\s,;}]+ )"""
)


def without_secrets(text: str) -> str:
    """The text with the values of secret settings masked."""
    return _SECRET.sub(rf"\g<1>{MASK}", _JAAS.sub(rf"\g<1>{MASK}\g<2>", text))


class _TextFormatter(logging.Formatter):
    """``08:57:01.123Z WARNING groupreplay.streaming.spark.job: message``."""

    def format(self, record: logging.LogRecord) -> str:
        at = _utc(record).strftime("%H:%M:%S.%f")[:12]
        line = f"{at}Z {record.levelname} {record.name}: {_message(record)}"
        if record.exc_info:
            line += "\n" + without_secrets(self.formatException(record.exc_info))
        return line


class _JsonFormatter(logging.Formatter):
    """One JSON object per line, for log collectors."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": _utc(record).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": _message(record),
        }
        if record.exc_info:
            fields["exception"] = without_secrets(self.formatException(record.exc_info))
        return json.dumps(fields)


class _LogHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Prints above the line that is renewed, if the terminal has one."""

    def emit(self, record: logging.LogRecord) -> None:
        with _above_status():
            super().emit(record)


def configure_logs(level: str = "WARNING", form: LogFormat = "text", stream: TextIO | None = None) -> None:
    """Send this program's log lines of this level and above to stderr; may be called again."""
    root = logging.getLogger(_ROOT)
    for old in root.handlers[:]:
        root.removeHandler(old)
    handler = _LogHandler(stream or sys.stderr)
    handler.setFormatter(_JsonFormatter() if form == "json" else _TextFormatter())
    root.addHandler(handler)
    root.setLevel(level)
    root.propagate = False
    # librdkafka logs every failed connection attempt; kafka/clients.py reports the relevant error.
    logging.getLogger(f"{_ROOT}.librdkafka").propagate = level == "DEBUG"


def log_settings() -> tuple[str, LogFormat]:
    """Level and format of the log lines, to configure a child process in the same way."""
    return logging.getLevelName(
        logging.getLogger(_ROOT).getEffectiveLevel()
    ), "json" if _is_json() else "text"


def report_progress(line: str) -> None:
    """Print a line of progress on stderr, whatever the level; a JSON object if logs are JSON. Not after a signal."""
    if not is_quiet():
        last_words(line)


def last_words(line: str) -> None:
    """Print the line, in the same form, whatever has happened; after a signal no status line is left below it."""
    while is_quiet() and _status_lines:
        _status_lines.pop().show("")
    root = logging.getLogger(_ROOT)
    if _is_json():
        root.handle(root.makeRecord(f"{_ROOT}.progress", logging.INFO, "", 0, line, (), None))
        return
    # The disk of a log file may be full: the job goes on without the line.
    with suppress(OSError), _above_status():
        click.echo(f"{_ROOT}: {line}", err=True)


def pass_on(lines: bytes) -> None:
    """Print whole lines of another process on stderr as they are; not after a signal."""
    # The disk of a log file may be full: the job goes on without the lines.
    with suppress(OSError), _above_status():
        while lines and not is_quiet():
            lines = lines[os.write(2, lines) :]


class StatusReport:
    """How a long run is doing: on a terminal one line that is renewed, in a log one a minute and on each change.

    ``seconds`` is a clock that nobody sets.
    """

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._kind: str | None = None
        self._next = 0.0

    def __call__(self, kind: str, line: str) -> None:
        """Report the present status; another ``kind`` is a change."""
        if is_quiet():
            return
        if not _is_json() and can_redraw(sys.stderr):
            if not _status_lines:
                _status_lines.append(StatusLine(sys.stderr))
            _status_lines[0].show(f"{_ROOT}: {line}")
        elif kind != self._kind or self._seconds() >= self._next:
            self._kind, self._next = kind, self._seconds() + _STATUS_SECONDS
            report_progress(line)

    def close(self) -> None:
        """Remove the line from the terminal; does nothing in a log."""
        while _status_lines:
            _status_lines.pop().show("")


@contextmanager
def _above_status() -> Iterator[None]:
    for line in _status_lines:
        line.clear()
    try:
        yield
    finally:
        for line in _status_lines:
            line.redraw()


def _is_json() -> bool:
    handlers = logging.getLogger(_ROOT).handlers
    return any(isinstance(handler.formatter, _JsonFormatter) for handler in handlers)


def _message(record: logging.LogRecord) -> str:
    # Imported here because it loads numpy, and every --help configures logging.
    from groupreplay.state.phrases import safe_text

    return safe_text(without_secrets(record.getMessage()), None)


def _utc(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, timezone.utc)
