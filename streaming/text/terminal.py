"""Prints tables, CSV and JSON on stdout, and errors and progress on stderr.

Text from records is made harmless here: every cell passes ``safe_text``, every JSON text is escaped.
"""

from __future__ import annotations

import csv
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, TextIO

import click

from groupreplay.state.display.safe_text import safe_text
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.config.logs import without_secrets

Cell = str | int | None
#: The values of ``-o``.
OutputFormat = Literal["table", "json", "jsonl", "csv"]

_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")
_REDRAW_SECONDS: Final = 0.2
_LINE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under Kafka's own column names; a missing value is None."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


def show(table: Table, documents: Iterable[Mapping[str, Any]], output: OutputFormat, *, colour: bool) -> None:
    """Print a result: as a table, as CSV, or its documents as JSON."""
    if output == "table":
        print_table(table, colour=colour)
    elif output == "csv":
        print_csv(table)
    elif output == "json":
        click.echo(escape_json(json.dumps(list(documents), ensure_ascii=False, indent=2)))
    else:
        for document in documents:
            click.echo(json_line(document))


def merged(tables: Sequence[Table]) -> Table:
    """All rows under the columns of all tables, for a format that has a single heading."""
    columns = tuple(dict.fromkeys(name for table in tables for name in table.columns))
    named = [dict(zip(table.columns, row, strict=True)) for table in tables for row in table.rows]
    return Table(columns, [tuple(row.get(name) for name in columns) for row in named])


def print_table(table: Table, *, colour: bool) -> None:
    """Print aligned columns: with rich on a colour terminal, otherwise as plain text."""
    cells = [[_cell(value) for value in row] for row in table.rows]
    if colour:
        _print_rich(table.columns, cells)
        return
    widths = [max(map(len, column)) for column in zip(table.columns, *cells, strict=True)]
    for line in [table.columns, *cells]:
        click.echo("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def _print_rich(columns: Sequence[str], cells: Iterable[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        drawn.add_column(Text(name), overflow="fold")
    for row in cells:
        drawn.add_row(*(Text(text) for text in row))
    Console(highlight=False, markup=False).print(drawn)


def print_csv(table: Table) -> None:
    """Print RFC 4180, with ``'`` before values that a spreadsheet would evaluate as a formula (CWE-1236)."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows([_csv_cell(value) for value in row] for row in table.rows)


def _cell(value: Cell) -> str:
    return "-" if value is None or value == "" else safe_text(str(value))


def _csv_cell(value: Cell) -> str | int:
    if value is None or isinstance(value, int):
        return "" if value is None else value
    text = safe_text(value, None)
    return f"'{text}" if value.startswith(_FORMULA_STARTS) else text


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


def json_line(value: object) -> str:
    """A JSON text on one line, without blanks like Kafka's formatters, harmless to a terminal."""
    return escape_json(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def escape_json(text: str) -> str:
    r"""The JSON text with every unsafe character in its strings escaped as ``\uXXXX``; the value is the same."""
    if text.isascii() and "\x7f" not in text:
        return text
    return "".join(map(_json_character, text))


@lru_cache(maxsize=4096)
def _json_character(char: str) -> str:
    if char == "\x7f":
        return "\\u007f"
    if char == "\n" or safe_text(char, None) == char:
        return char  # line ends may occur between JSON tokens
    return json.dumps(char)[1:-1]


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
        what = f"{type(error).__name__}: {error}".strip().partition("\n")[0]
        fix = "run it again with --debug for the traceback"
    first, *rest = what.splitlines()
    for line in [f"error: {first}", *(f"  {more}" for more in [*rest, *fix.splitlines()])]:
        click.echo(safe_line(line), err=True)


class Progress:
    """Progress of a long read on stderr: a redrawn line on a terminal, otherwise a line every ten seconds."""

    def __init__(self, what: str, stream: TextIO | None = None) -> None:
        self._what = what
        self._stream = stream or sys.stderr
        self._redraws = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._pause = _REDRAW_SECONDS if self._redraws else _LINE_SECONDS
        self._last = time.monotonic()
        self._drawn = False

    def __call__(self, done: int, total: int | None) -> None:
        """Show ``done`` of ``total``, unless the last update was very recent."""
        now = time.monotonic()
        if now - self._last < self._pause:
            return
        self._last = now
        of = f" of {total:,} ({100 * done // total} %)" if total else ""
        line = f"{self._what}: {done:,}{of}"
        self._stream.write(f"\r\x1b[K{line}" if self._redraws else f"{line}\n")
        self._stream.flush()
        self._drawn = self._redraws

    def close(self) -> None:
        """Remove the line."""
        if self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._drawn = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
