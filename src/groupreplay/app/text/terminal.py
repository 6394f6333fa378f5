"""What a terminal is told: JSON on stdout, errors and progress on stderr; its width and its colours.

Text from records is made harmless here: every line passes ``safe_text``, every JSON text is escaped.
"""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
import time
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final, TextIO

import click
import msgspec

from groupreplay.state.phrases import safe_text
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.base.status_line import StatusLine, can_redraw
from groupreplay.streaming.config.logs import without_secrets

_DEFAULT_WIDTH: Final = 80
#: Line ends may occur between JSON tokens.
_UNUSUAL: Final = re.compile(r"[^\n -~]")
_REDRAW_SECONDS: Final = 0.2
_LINE_SECONDS: Final = 60.0


def terminal_width(stream: TextIO) -> int | None:
    """The width of a terminal; that of ``COLUMNS`` if it is set, as ``watch`` does; None for a pipe or a file."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    if not stream.isatty():
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or _DEFAULT_WIDTH
    except (OSError, ValueError):
        return _DEFAULT_WIDTH


def print_json_array(values: Iterable[object], before: Callable[[], None]) -> None:
    """Print a JSON array element by element; calls ``before`` before each of them."""
    separator = "[\n"
    for value in values:
        before()
        click.echo(separator + json_line(value), nl=False)
        separator = ",\n"
    click.echo("\n]" if separator == ",\n" else "[]")


def safe_line(text: str) -> str:
    """A message with text from records, without secrets and control characters."""
    return safe_text(without_secrets(text), 2000)


def named_lines(name_width: int, name: str, text: str, width: int) -> list[str]:
    """A text in lines of a width, indented, with its name in front of the first one."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=f"      {name:<{name_width}}",
        subsequent_indent=" " * (name_width + 6),
        break_on_hyphens=False,
        break_long_words=False,
    )


def json_document(value: object) -> str:
    """The JSON text of a document, struct or dict, for people: indented, harmless to a terminal."""
    return escape_json(json.dumps(msgspec.to_builtins(value), ensure_ascii=False, indent=2))


def json_line(value: object) -> str:
    """A JSON text on one line, without blanks like Kafka's formatters, harmless to a terminal."""
    return escape_json(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def escape_json(text: str) -> str:
    r"""The JSON text with every unsafe character in its strings escaped as ``\uXXXX``; the value is the same."""
    if text.isascii() and "\x7f" not in text:
        return text
    return _UNUSUAL.sub(lambda unusual: _json_character(unusual[0]), text)


@lru_cache(maxsize=4096)
def _json_character(char: str) -> str:
    if char == "\x7f":
        return "\\u007f"
    return char if safe_text(char, None) == char else json.dumps(char)[1:-1]


def is_colour_terminal(stream: TextIO, *, no_color: bool = False) -> bool:
    """Whether the stream is a terminal with colours, and they are not disabled (no-color.org)."""
    forbidden = no_color or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not forbidden


def print_error(error: BaseException) -> None:
    """Print what failed and where, and below it what to do next."""
    if isinstance(error, GroupReplayError):
        where = f" ({error.where})" if error.where else ""
        what, fix = f"{error.what}{where}", error.fix or ""
    else:
        what = f"{type(error).__name__}: {_words(error)}".strip().partition("\n")[0]
        fix = "run it again with --debug for the traceback"
    first, *rest = what.splitlines()
    for line in [f"error: {first}", *(f"  {more}" for more in [*rest, *fix.splitlines()])]:
        click.echo(safe_line(line), err=True)


def _words(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        # py4j asks the JVM for the words of its error.
        return "its words are lost, because the JVM has ended"


class Progress:
    """Progress of a long read on stderr: a redrawn line on a terminal, otherwise a line every minute."""

    def __init__(self, what: str, stream: TextIO | None = None) -> None:
        self._what = what
        self._stream = stream or sys.stderr
        self._line = StatusLine(self._stream) if can_redraw(self._stream) else None
        self._pause = _LINE_SECONDS if self._line is None else _REDRAW_SECONDS
        self._last = time.monotonic()

    def __call__(self, done: int, total: int | None) -> None:
        """Show ``done`` of ``total``, unless the last update was very recent."""
        now = time.monotonic()
        if now - self._last < self._pause:
            return
        self._last = now
        of = f" of {total:,} ({100 * done // total} %)" if total else ""
        line = f"{self._what}: {done:,}{of}"
        if self._line is not None:
            self._line.show(line)
            return
        self._stream.write(f"{line}\n")
        self._stream.flush()

    def close(self) -> None:
        """Remove the line."""
        if self._line is not None:
            self._line.show("")

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
