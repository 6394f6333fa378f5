"""Tables on stdout: their cells, and how they are printed: for a terminal, for a pipe, as CSV, or as JSON.

A time in a cell is written when the table is printed, in the zone of the table: short where the table has to fit a
terminal, otherwise as RFC 3339. Text from records is made harmless here: every cell passes ``safe_text``.
"""

from __future__ import annotations

import csv
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import click
import msgspec

from groupreplay.app.text.table_layout import MISSING, Cut, TextColumn, fitted, shortened, stacked, whole
from groupreplay.app.text.terminal import json_document, json_line
from groupreplay.app.text.times import in_zone, offset_if_twice, rfc3339
from groupreplay.state.phrases import LONGEST_TEXT, safe_text
from groupreplay.streaming.base.clock import UTC, TimeZone

#: The values of ``-o``.
OutputFormat = Literal["table", "json", "jsonl", "csv"]

_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")
_GROUP: Final = "GROUP"
_HEADING: Final[Mapping[str, Any]] = {"bold": True}
_NOTE: Final[Mapping[str, Any]] = {"dim": True}


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time, in milliseconds since 1970."""

    at_ms: int


#: A cell may have several parts: ``("before ", Moment(5))``.
Cell = str | int | Moment | tuple[str | Moment, ...] | None
Clock = Callable[[int], str]


def moment(at_ms: int | None) -> Moment | None:
    """The cell of a time; None if it is unknown."""
    return None if at_ms is None or at_ms < 0 else Moment(at_ms)


def whole_clock(zone: TimeZone = UTC) -> Clock:
    """Writes times as RFC 3339 with milliseconds."""
    return lambda at_ms: rfc3339(at_ms, zone)


def short_clock(zone: TimeZone = UTC, year: int | None = None) -> Clock:
    """Writes ``01-31 02:03:04``, and for another year than this one ``2025-01-31 02:03``.

    A time that the clocks of the zone show twice is followed by its offset.
    """

    def written(at_ms: int) -> str:
        at = in_zone(at_ms, zone)
        if at is None:
            return rfc3339(at_ms, zone)
        text = at.strftime("%m-%d %H:%M:%S") if at.year == year else f"{at.year:04d}{at:-%m-%d %H:%M}"
        return text + offset_if_twice(at)

    return written


def has_time(cells: Iterable[Cell]) -> bool:
    """Whether one of the cells has a time."""
    return any(
        isinstance(part, Moment) for cell in cells for part in (cell if isinstance(cell, tuple) else (cell,))
    )


def cell_text(cell: Cell, clock: Clock, missing: str = MISSING, limit: int | None = None) -> str:
    """The text of a cell, safe to print; each text in it has at most ``limit`` characters (None: any number)."""
    if cell is None or cell in ("", ()):
        return missing
    parts = cell if isinstance(cell, tuple) else (cell,)
    return "".join(
        clock(part.at_ms) if isinstance(part, Moment) else safe_text(str(part), limit) for part in parts
    )


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


def show(
    table: Table, documents: Iterable[object], output: OutputFormat, style: TableStyle | None = None
) -> None:
    """Print a result: as a table, as CSV, or its documents (structs or dicts) as JSON."""
    style = style or TableStyle()
    if output == "table":
        print_table(table, style)
    elif output == "csv":
        print_csv(chosen_columns(table, style.columns), style.zone)
    elif output == "json":
        click.echo(json_document(list(documents)))
    else:
        for document in documents:
            click.echo(json_line(msgspec.to_builtins(document)))


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
            *([cell_text(cell, clock, limit=LONGEST_TEXT) for cell in row] for row in chosen.rows),
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
    if style.stacks and any(column.name in left_out and not column.is_empty for column in columns):
        lines: list[tuple[str, Mapping[str, Any]]] = [(line, {}) for line in stacked(columns, width)]
        left_out, headings = [], []
    else:
        lines = _emphasised(layout.lines())
    timed = [
        column.heading for column in columns if column.heading != column.name and column.name not in left_out
    ]
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
