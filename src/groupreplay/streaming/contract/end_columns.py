"""Many numbers in few bytes: columns of integers, and what a round changes in a table of ends.

Writer and reader keep the same table. Each partition has a number in it, its place. A round is written as places and
steps, most of which are small, so a changed partition takes one or two bytes instead of forty in JSON.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]

#: Places that a table may have, which bounds the memory of a reader.
MOST_PLACES: Final = 2_000_000
_HEAD: Final = struct.Struct("<IB")
#: A message has at most 1 MiB; this is what a column of zeros would make of it.
_MOST_BYTES: Final = 256 << 20
_NONE: Final = np.zeros(0, np.int64)


def pack_columns(columns: Sequence[Ints]) -> bytes:
    """Columns of numbers that are not negative: byte by byte of the numbers, compressed."""
    body = bytearray()
    for column in columns:
        width = (int(column.max()).bit_length() + 7) // 8 if len(column) else 0
        body += _HEAD.pack(len(column), width)
        body += np.ascontiguousarray(
            column.astype("<i8").view(np.uint8).reshape(-1, 8)[:, :width].T
        ).tobytes()
    return zlib.compress(bytes(body), 9)


def unpack_columns(packed: bytes, count: int) -> list[Ints]:
    """The inverse of ``pack_columns``, of so many columns.

    Raises:
        ValueError: these are other bytes.
    """
    stream = zlib.decompressobj()
    try:
        body = stream.decompress(packed, _MOST_BYTES)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not stream.eof:
        raise ValueError("the columns are cut off")
    columns, at = list[Ints](), 0
    for _ in range(count):
        if len(body) - at < _HEAD.size:
            raise ValueError("a column is missing")
        length, width = _HEAD.unpack_from(body, at)
        at += _HEAD.size
        if width > 8 or length > MOST_PLACES or len(body) - at < length * width:
            raise ValueError("a column is cut off")
        planes = np.frombuffer(body, np.uint8, length * width, at).reshape(width, length)
        column = np.zeros((length, 8), np.uint8)
        column[:, :width] = planes.T
        columns.append(column.view("<i8").reshape(length).astype(np.int64))
        at += length * width
    return columns


def _unsigned(values: Ints) -> Ints:
    """Small numbers of either sign as small numbers."""
    return np.where(values < 0, ~(values << 1), values << 1)


def _signed(values: Ints) -> Ints:
    return np.where(values & 1, ~(values >> 1), values >> 1)


def _gaps(places: Ints) -> Ints:
    return np.diff(places, prepend=np.int64(0))


@dataclass(frozen=True, slots=True)
class EndChanges:
    """What a round changes, by place in ascending order.

    The end of ``places`` grows by ``steps`` times 2 to the power of the place's shift, which is set first: with a shift
    the end is known to so many records. Log start offsets grow by ``start_steps``; ``waiting`` is the end minus the
    last stable offset.
    """

    places: Ints
    steps: Ints
    start_places: Ints = field(default_factory=lambda: _NONE)
    start_steps: Ints = field(default_factory=lambda: _NONE)
    waiting_places: Ints = field(default_factory=lambda: _NONE)
    waiting: Ints = field(default_factory=lambda: _NONE)
    shift_places: Ints = field(default_factory=lambda: _NONE)
    shifts: Ints = field(default_factory=lambda: _NONE)

    def __bool__(self) -> bool:
        return any(map(len, (self.places, self.start_places, self.waiting_places, self.shift_places)))

    def between(self, low: int, high: int) -> EndChanges:
        """Those of the places from ``low`` on and below ``high``."""
        pairs = (
            (self.places, self.steps),
            (self.start_places, self.start_steps),
            (self.waiting_places, self.waiting),
            (self.shift_places, self.shifts),
        )
        parts = list[Ints]()
        for places, values in pairs:
            first, last = np.searchsorted(places, [low, high])
            parts += [places[first:last], values[first:last]]
        return EndChanges(*parts)


@dataclass(slots=True)
class EndsTable:
    """The ends as last written: of each place at least ``end``, and at most ``more`` beyond it."""

    end: Ints = field(default_factory=lambda: _NONE)
    more: Ints = field(default_factory=lambda: _NONE)
    start: Ints = field(default_factory=lambda: _NONE)
    waiting: Ints = field(default_factory=lambda: _NONE)
    shift: Ints = field(default_factory=lambda: _NONE)
    #: The places of the last changes, of which most change again, and by place what was changed.
    step: Ints = field(default_factory=lambda: _NONE)
    places: Ints = field(default_factory=lambda: _NONE)

    def grow(self, count: int) -> None:
        """Make room for so many places."""
        missing = count - len(self.end)
        if missing > 0:
            for name in ("end", "more", "start", "waiting", "shift", "step"):
                setattr(self, name, np.concatenate([getattr(self, name), np.zeros(missing, np.int64)]))

    def state(self, at: Ints, ends: Ints, starts: Ints, waiting: Ints, shifts: Ints) -> None:
        """Set these places to what was stated, which is never rounded."""
        self.end[at], self.start[at], self.waiting[at], self.shift[at] = ends, starts, waiting, shifts
        self.more[at] = 0

    def apply(self, changes: EndChanges) -> None:
        """Change it."""
        self.shift[changes.shift_places] = changes.shifts
        self.start[changes.start_places] += changes.start_steps
        self.waiting[changes.waiting_places] = changes.waiting
        at = changes.places
        self.end[at] += changes.steps << self.shift[at]
        self.more[at] = (np.int64(1) << self.shift[at]) - 1
        self.step[self.places] = 0
        self.step[at] = changes.steps
        self.places = at

    def packed(self, changes: EndChanges, *, alone: bool = False) -> tuple[bytes, bool]:
        """The changes as bytes, which ``unpacked`` of the same table reads, and whether they stand alone.

        They do if they are not told by the changes before, which is often shorter.
        """
        steps = changes.steps
        rest = [
            _gaps(changes.start_places),
            _unsigned(changes.start_steps),
            _gaps(changes.waiting_places),
            changes.waiting,
            _gaps(changes.shift_places),
            changes.shifts,
        ]
        place_ways = [changes.places] if alone else [changes.places, np.setxor1d(changes.places, self.places)]
        step_ways = [steps] if alone else [steps, steps - self.step[changes.places]]
        ways = [
            (
                pack_columns([np.array([by_places, by_steps]), _gaps(places), _unsigned(values), *rest]),
                not (by_places or by_steps),
            )
            for by_places, places in enumerate(place_ways)
            for by_steps, values in enumerate(step_ways)
        ]
        return min(ways, key=lambda way: len(way[0]))

    def unpacked(self, packed: bytes) -> EndChanges:
        """The inverse.

        Raises:
            ValueError: these are other bytes, or those of another table.
        """
        way, gaps, values, start_gaps, starts, waiting_gaps, waiting, shift_gaps, shifts = unpack_columns(
            packed, 9
        )
        if len(way) != 2 or (len(shifts) and int(shifts.max()) > 62):
            raise ValueError("the columns are not those of a round")
        places = _places(gaps, len(self.end))
        if way[0]:
            places = np.setxor1d(places, self.places)
        changes = EndChanges(
            places,
            _signed(values),
            _places(start_gaps, len(self.end)),
            _signed(starts),
            _places(waiting_gaps, len(self.end)),
            waiting,
            _places(shift_gaps, len(self.end)),
            shifts,
        )
        pairs = ((places, values), (start_gaps, starts), (waiting_gaps, waiting), (shift_gaps, shifts))
        if any(len(left) != len(right) for left, right in pairs):
            raise ValueError("the columns do not belong together")
        if way[1]:
            changes.steps[:] += self.step[places]
        return changes


def _places(gaps: Ints, count: int) -> Ints:
    places = np.cumsum(gaps)
    if len(places) and (gaps.min() < 0 or places[-1] >= count or np.any(np.diff(places) <= 0)):
        raise ValueError("the places are not those of this table")
    return places
