"""Cells of tables: texts, numbers, and times that are written when the table is printed.

A time is written in the zone of the table: short where the table has to fit a terminal, otherwise as RFC 3339.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from groupreplay.app.text.time_zone import in_zone, offset_if_twice, rfc3339
from groupreplay.state.display.safe_text import safe_text
from groupreplay.streaming.base.clock import UTC, TimeZone

#: A missing value in a table for people, and in a pipe: a blank would shift the fields of ``awk``.
MISSING: Final = "-"


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
