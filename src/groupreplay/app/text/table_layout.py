"""Fits a table to the width of a terminal: which columns, how wide, and the cells shortened to that.

A table that is too wide loses, in this order: the whole headings, its empty columns, the middle or the end of long
cells, columns from the right. How a column becomes narrower follows from its heading, the same in every table. No line
is ever wider than the terminal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Final, NamedTuple

from groupreplay.streaming.base.status_line import beginning
from groupreplay.streaming.base.status_line import cells as cell_len

#: No cell that can be shortened becomes narrower than this, unless nothing else is left.
LEAST_WIDTH: Final = 12
_ELLIPSIS: Final = "…"


class Keep(IntEnum):
    """When a column is left out for want of room: before others, after them, or only if it is alone too wide."""

    OPTIONAL = 0
    IMPORTANT = 1
    ALWAYS = 2


class Cut(IntEnum):
    """Where a text is shortened: an id in its middle, because its ends differ, another text at its end; or nowhere."""

    END = 0
    MIDDLE = 1
    NEVER = 2


class Shape(NamedTuple):
    """``short``: the heading where the whole one does not fit."""

    cut: Cut = Cut.END
    keep: Keep = Keep.OPTIONAL
    short: str = ""


_ID: Final = Shape(Cut.MIDDLE)
_NUMBER: Final = Shape(Cut.NEVER)
_STATE: Final = Shape(Cut.NEVER, Keep.IMPORTANT)
_TEXT: Final = Shape(keep=Keep.IMPORTANT)

_SHAPES: Final[Mapping[str, Shape]] = {
    "GROUP": Shape(Cut.MIDDLE, Keep.ALWAYS),
    "TOPIC": Shape(Cut.MIDDLE, Keep.ALWAYS),
    "PARTITION": Shape(Cut.NEVER, Keep.ALWAYS, "PART"),
    "CONSUMER-ID": Shape(Cut.MIDDLE, Keep.IMPORTANT),
    "MEMBER": Shape(Cut.MIDDLE, Keep.IMPORTANT),
    "GROUP-INSTANCE-ID": Shape(Cut.MIDDLE, Keep.IMPORTANT, "INSTANCE-ID"),
    "CLIENT-ID": _ID,
    "PROCESS": _ID,
    "HOST": _ID,
    "RACK": _ID,
    "COORDINATOR (ID)": Shape(Cut.MIDDLE, short="COORDINATOR"),
    "PROTOCOL": _ID,
    "ASSIGNMENT-STRATEGY": Shape(Cut.MIDDLE, short="STRATEGY"),
    "STATE": _STATE,
    "TYPE": _NUMBER,
    "BROKER": _NUMBER,
    "MEMBER-STATE": _STATE,
    "RISK": Shape(Cut.NEVER, Keep.ALWAYS),
    "CONDITIONS": Shape(keep=Keep.ALWAYS),
    "#MEMBERS": Shape(Cut.NEVER, short="MEMB"),
    "#PARTITIONS": Shape(Cut.NEVER, Keep.IMPORTANT, "#PART"),
    "MEMBERS": _TEXT,
    "GENERATION": Shape(Cut.NEVER, short="GEN"),
    "GROUP-EPOCH": Shape(Cut.NEVER, short="EPOCH"),
    "CURRENT-EPOCH": Shape(Cut.NEVER, short="EPOCH"),
    "MEMBER-EPOCH": Shape(Cut.NEVER, short="EPOCH"),
    "TARGET-EPOCH": Shape(Cut.NEVER, short="T-EPOCH"),
    "TARGET-ASSIGNMENT-EPOCH": Shape(Cut.NEVER, short="T-EPOCH"),
    "ASSIGNMENT-EPOCH": Shape(Cut.NEVER, short="T-EPOCH"),
    "TOPOLOGY-EPOCH": Shape(Cut.NEVER, short="TOPOLOGY"),
    "LEADER-EPOCH": Shape(Cut.NEVER, short="LEPOCH"),
    "CURRENT-OFFSET": Shape(Cut.NEVER, Keep.IMPORTANT, "OFFSET"),
    "LOG-END-OFFSET": Shape(Cut.NEVER, Keep.IMPORTANT, "LOG-END"),
    "START-OFFSET": Shape(Cut.NEVER, Keep.IMPORTANT, "START"),
    "LAG": Shape(Cut.NEVER, Keep.IMPORTANT),
    "OFFSET-LAG": Shape(Cut.NEVER, Keep.IMPORTANT, "LAG"),
    "EARLIEST-REPLAYS": Shape(Cut.NEVER, Keep.IMPORTANT, "REPLAYS"),
    "LATEST-SKIPS": Shape(Cut.NEVER, Keep.IMPORTANT, "SKIPS"),
    "ASSIGNMENTS": _TEXT,
    "ASSIGNMENT": _TEXT,
    "CURRENT-ASSIGNMENT": Shape(keep=Keep.IMPORTANT, short="ASSIGNMENT"),
    "TARGET-ASSIGNMENT": Shape(short="TARGET"),
    "EXPIRES": _STATE,
    "COMMITTED": _NUMBER,
    "TIME": _STATE,
    "EVENT": _STATE,
    "WHO": _TEXT,
    "WHY": _TEXT,
    "SINCE": _STATE,
    "UNTIL": _STATE,
    "LASTED": _STATE,
}


def shape_of(heading: str) -> Shape:
    """The shape of the column with this heading; of one that is not listed, a text that may be left out."""
    return _SHAPES.get(heading, Shape())


def shortened(text: str, width: int, cut: Cut = Cut.END) -> str:
    """The text in at most so many cells of the terminal, with an ellipsis in place of what is left out."""
    if cell_len(text) <= width:
        return text
    if width < 1:
        return ""
    head = (width - 1) // 2 if cut is Cut.MIDDLE else width - 1
    begin = beginning(text, head).rstrip()
    if cut is not Cut.MIDDLE:
        return begin + _ELLIPSIS
    return begin + _ELLIPSIS + beginning(text[::-1], width - 1 - cell_len(begin))[::-1]


GAP: Final = "  "
#: A missing value in a table for people, and in a pipe: a blank would shift the fields of ``awk``.
MISSING: Final = "-"


@dataclass(frozen=True)
class TextColumn:
    """A column as text: its name, the whole heading (with the time zone) and its cells."""

    name: str
    heading: str
    cells: Sequence[str]

    @cached_property
    def shape(self) -> Shape:
        """How it becomes narrower."""
        return shape_of(self.name)

    @cached_property
    def short(self) -> str:
        """The heading where there is little room; with the time zone if that costs next to nothing."""
        if cell_len(self.heading) <= self.cells_width + len(GAP):
            return self.heading
        return self.shape.short or self.name

    @cached_property
    def is_empty(self) -> bool:
        """Whether no row has a value."""
        return all(cell == MISSING for cell in self.cells)

    @cached_property
    def cells_width(self) -> int:
        """The width of the widest cell."""
        return max(map(cell_len, self.cells), default=0)

    @cached_property
    def natural(self) -> int:
        """The width with the short heading."""
        return max(self.cells_width, cell_len(self.short))

    @cached_property
    def least(self) -> int:
        """The width to which it may be shortened."""
        if self.shape.cut is Cut.NEVER:
            return self.natural
        return max(cell_len(self.short), min(self.cells_width, LEAST_WIDTH))


@dataclass(frozen=True, slots=True)
class FittedTable:
    """Columns with their widths, and the names of those that were left out."""

    columns: Sequence[TextColumn]
    widths: Sequence[int]
    left_out: Sequence[str]

    def headings(self) -> list[str]:
        """The headings that fit."""
        return [
            column.heading if cell_len(column.heading) <= width else shortened(column.short, width)
            for column, width in zip(self.columns, self.widths, strict=True)
        ]

    def lines(self) -> list[str]:
        """The line of headings, and one for each row."""
        cells = [
            [shortened(cell, width, column.shape.cut) for cell in column.cells]
            for column, width in zip(self.columns, self.widths, strict=True)
        ]
        rows = [self.headings(), *map(list, zip(*cells, strict=True))]
        return [aligned(row, self.widths) for row in rows]


def aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    """The cells side by side, each filled with blanks to its width."""
    filled = (cell + " " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True))
    return GAP.join(filled).rstrip()


def whole(columns: Sequence[TextColumn]) -> FittedTable:
    """The table as wide as it is."""
    return FittedTable(columns, [max(column.cells_width, cell_len(column.heading)) for column in columns], ())


def fitted(columns: Sequence[TextColumn], width: int) -> FittedTable:
    """The table in lines of at most this width."""
    table = whole(columns)
    if _total(table.widths) <= width:
        return table
    kept = list(columns)
    if _total([column.natural for column in kept]) > width:
        kept = [column for column in kept if not column.is_empty or column.shape.keep is Keep.ALWAYS] or kept[
            :1
        ]
    for keep in Keep:
        for column in [column for column in reversed(kept) if column.shape.keep is keep]:
            if len(kept) > 1 and _total([each.least for each in kept]) > width:
                kept.remove(column)
    left_out = [column.name for column in columns if column not in kept]
    return FittedTable(kept, _widths(kept, width), left_out)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _widths(columns: Sequence[TextColumn], width: int) -> list[int]:
    """The widest cells are shortened first; what is left over goes to headings, from the left."""
    if len(columns) == 1 and columns[0].least > width:
        return [width]
    cap = max(column.natural for column in columns)
    while _total(widths := [_capped(column, cap) for column in columns]) > width:
        cap -= 1
    spare = width - _total(widths)
    for number, column in enumerate(columns):
        # The cells first: of those that were shortened as far as the others, some can have one more character.
        more = min(spare, max(column.natural - widths[number], 0))
        wanted = max(cell_len(column.heading) - widths[number], 0)
        more = wanted if more < wanted <= spare else more
        widths[number] += more
        spare -= more
    return widths


def _capped(column: TextColumn, cap: int) -> int:
    return max(column.least, min(column.natural, cap))


def stacked(columns: Sequence[TextColumn], width: int) -> list[str]:
    """One line per value, the rows below each other with a blank line between; values that are missing are left out."""
    label = min(max(cell_len(column.name) for column in columns), max(width // 3, 1))
    room = width - label - len(GAP)
    lines: list[str] = []
    for number in range(len(columns[0].cells)):
        lines += [""] if lines else []
        for column in columns:
            cell = column.cells[number]
            if cell != MISSING and room > 0:
                cut = Cut.MIDDLE if column.shape.cut is Cut.MIDDLE else Cut.END
                lines.append(
                    aligned([shortened(column.name, label), shortened(cell, room, cut)], [label, room])
                )
    return lines
