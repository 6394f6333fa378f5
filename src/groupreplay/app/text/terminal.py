"""Prints tables, CSV and JSON on stdout, and errors and progress on stderr.

Text from records is made harmless here: every cell passes ``safe_text``, every JSON text is escaped.
"""

from __future__ import annotations

import csv
import json
import os
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, TextIO

import click

from groupreplay.app.text.cells import Cell, Clock, cell_text, has_time, short_clock, whole_clock
from groupreplay.app.text.column_shapes import Cut, shortened
from groupreplay.app.text.table_layout import TextColumn, fitted, stacked, whole
from groupreplay.state.display.safe_text import LIMIT, safe_text
from groupreplay.streaming.base.clock import UTC, TimeZone
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.base.process import StatusLine, can_redraw
from groupreplay.streaming.config.logs import without_secrets

#: The values of ``-o``.
OutputFormat = Literal["table", "json", "jsonl", "csv"]

_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")
_DEFAULT_WIDTH: Final = 80
_GROUP: Final = "GROUP"
_HEADING: Final[Mapping[str, Any]] = {"bold": True}
_NOTE: Final[Mapping[str, Any]] = {"dim": True}
_REDRAW_SECONDS: Final = 0.2
_LINE_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under Kafka's own column names; a missing value is None."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStyle:
    """How a table is printed.

    ``width``: the lines fit a terminal of so many cells; None: fields separated by tabs. ``wide``: aligned and whole,
    whatever the width. ``columns``: only these, in this order. ``by_group``: in lines that fit, a single group is a
    heading and not a column. ``stacks``: values stand below each other if some do not fit side by side. ``year``: times
    of this year are written without it.
    """

    colour: bool = False
    width: int | None = None
    wide: bool = False
    columns: Sequence[str] = ()
    by_group: bool = False
    stacks: bool = False
    zone: TimeZone = UTC
    year: int | None = None


def terminal_width(stream: TextIO) -> int | None:
    """The width of a terminal; that of ``COLUMNS`` if it is set, as ``watch`` does; None for a pipe or a file."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    if not stream.isatty():
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or _DEFAULT_WIDTH
    except (OSError, ValueError):
        return _DEFAULT_WIDTH


def show(
    table: Table,
    documents: Iterable[Mapping[str, Any]],
    output: OutputFormat,
    style: TableStyle | None = None,
) -> None:
    """Print a result: as a table, as CSV, or its documents as JSON."""
    style = style or TableStyle()
    if output == "table":
        print_table(table, style)
    elif output == "csv":
        print_csv(chosen_columns(table, style.columns), style.zone)
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


def chosen_columns(table: Table, names: Sequence[str]) -> Table:
    """The table with only the columns of these names, in their order; those that it does not have are left out."""
    places = {name: place for place, name in enumerate(table.columns)}
    chosen = [name for name in names if name in places] if names else list(table.columns)
    return Table(chosen, [tuple(row[places[name]] for name in chosen) for row in table.rows])


def print_table(table: Table, style: TableStyle) -> None:
    """Print a table on stdout."""
    if style.width is None and not style.wide:
        clock = whole_clock(style.zone)
        chosen = chosen_columns(table, style.columns)
        for line in [
            chosen.columns,
            *([cell_text(cell, clock, limit=LIMIT) for cell in row] for row in chosen.rows),
        ]:
            click.echo("\t".join(line))
        return
    for text, effect in table_lines(table, style):
        click.echo(click.style(text, **effect) if style.colour and text and effect else text)


def table_lines(table: Table, style: TableStyle) -> list[tuple[str, Mapping[str, Any]]]:
    """The lines of a table for a person, and how each is emphasised in colour."""
    width = None if style.wide else style.width
    clock = whole_clock(style.zone) if width is None else short_clock(style.zone, style.year)
    table = chosen_columns(table, style.columns)
    columns = [_text_column(table, number, clock, style, width) for number in range(len(table.columns))]
    if width is None:
        return _emphasised(whole(columns).lines())
    is_of_one = style.by_group and not style.columns and len(columns) > 1 and columns[0].name == _GROUP
    if not is_of_one or len(set(columns[0].cells)) != 1:
        return _fitted_lines(columns, style, width)
    group = shortened(f"{_GROUP} {columns[0].cells[0]}", width, Cut.MIDDLE)
    return [(group, _HEADING), *_fitted_lines(columns[1:], style, width)]


def _fitted_lines(
    columns: Sequence[TextColumn], style: TableStyle, width: int
) -> list[tuple[str, Mapping[str, Any]]]:
    layout = fitted(columns, width)
    left_out, headings = layout.left_out, layout.headings()
    if style.stacks and any(one.name in left_out and not one.is_empty for one in columns):
        lines: list[tuple[str, Mapping[str, Any]]] = [(line, {}) for line in stacked(columns, width)]
        left_out, headings = [], []
    else:
        lines = _emphasised(layout.lines())
    timed = [one.heading for one in columns if one.heading != one.name and one.name not in left_out]
    notes = _notes(left_out, style.zone, any(heading not in headings for heading in timed), width)
    return lines + [(line, _NOTE) for line in notes]


def _emphasised(lines: Sequence[str]) -> list[tuple[str, Mapping[str, Any]]]:
    return [(lines[0], _HEADING), *((line, {}) for line in lines[1:])]


def _text_column(table: Table, number: int, clock: Clock, style: TableStyle, width: int | None) -> TextColumn:
    name = table.columns[number]
    cells = [row[number] for row in table.rows]
    is_timed = width is not None and has_time(cells)
    return TextColumn(
        name, f"{name} ({style.zone.name})" if is_timed else name, [cell_text(cell, clock) for cell in cells]
    )


def _notes(left_out: Sequence[str], zone: TimeZone, is_zone_missing: bool, width: int) -> list[str]:
    """Lines below a table: what it does not show, and the time zone if no heading has it."""
    notes = [f"times: {zone.name}"] if is_zone_missing else []
    if left_out:
        notes.append(f"not shown (--wide, --columns): {', '.join(left_out)}")
    return [
        line
        for note in notes
        for line in textwrap.wrap(note, width, subsequent_indent="  ", break_on_hyphens=False)
    ]


def print_csv(table: Table, zone: TimeZone = UTC) -> None:
    """Print RFC 4180, with ``'`` before values that a spreadsheet would evaluate as a formula (CWE-1236)."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    clock = whole_clock(zone)
    writer.writerow(table.columns)
    writer.writerows([_csv_cell(value, clock) for value in row] for row in table.rows)


def _csv_cell(value: Cell, clock: Clock) -> str | int:
    if isinstance(value, int):
        return value
    text = cell_text(value, clock, missing="")
    first = value[0] if isinstance(value, tuple) and value else value
    return f"'{text}" if str(first or "").startswith(_FORMULA_STARTS) else text


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
