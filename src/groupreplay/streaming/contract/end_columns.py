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
#: Of a round: which way it is told, and the pairs of ``EndChanges``.
_COLUMNS: Final = 11


def column_bytes(columns: Sequence[Ints]) -> bytes:
    """Columns of numbers: of each column first the lowest bytes of all numbers. Small numbers have only those."""
    body = bytearray()
    for column in columns:
        numbers = column.astype("<i8")
        width = (int(numbers.view("<u8").max()).bit_length() + 7) // 8 if len(numbers) else 0
        body += _HEAD.pack(len(numbers), width)
        body += np.ascontiguousarray(numbers.view(np.uint8).reshape(-1, 8)[:, :width].T).tobytes()
    return bytes(body)


def pack_columns(columns: Sequence[Ints]) -> bytes:
    """The same, compressed."""
    return zlib.compress(column_bytes(columns), 9)


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
    return columns_of(body, count)


def columns_of(body: bytes, count: int) -> list[Ints]:
    """The inverse of ``column_bytes``, of so many columns.

    Raises:
        ValueError: these are other bytes.
    """
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


def unsigned(values: Ints) -> Ints:
    """Small numbers of either sign as small numbers."""
    return (values << 1) ^ (values >> 63)


def signed(values: Ints) -> Ints:
    """The inverse."""
    return (values.view(np.uint64) >> np.uint64(1)).view(np.int64) ^ -(values & 1)


def _gaps(places: Ints) -> Ints:
    return np.diff(places, prepend=np.int64(0))


@dataclass(frozen=True, slots=True)
class EndChanges:
    """What a round changes, by place in ascending order.

    The end of ``places`` grows by ``steps`` times 2 to the power of the place's shift, which is set first: with a shift
    the end is known to so many records. Log start offsets grow by ``start_steps``, leader epochs by ``epoch_steps``;
    ``waiting`` is the end minus the last stable offset.
    """

    places: Ints
    steps: Ints
    start_places: Ints = field(default_factory=lambda: _NONE)
    start_steps: Ints = field(default_factory=lambda: _NONE)
    waiting_places: Ints = field(default_factory=lambda: _NONE)
    waiting: Ints = field(default_factory=lambda: _NONE)
    shift_places: Ints = field(default_factory=lambda: _NONE)
    shifts: Ints = field(default_factory=lambda: _NONE)
    epoch_places: Ints = field(default_factory=lambda: _NONE)
    epoch_steps: Ints = field(default_factory=lambda: _NONE)

    def __bool__(self) -> bool:
        return any(len(places) for places, _ in self.pairs())

    def pairs(self) -> tuple[tuple[Ints, Ints], ...]:
        """Places and what is written of each, in the order of the fields."""
        return (
            (self.places, self.steps),
            (self.start_places, self.start_steps),
            (self.waiting_places, self.waiting),
            (self.shift_places, self.shifts),
            (self.epoch_places, self.epoch_steps),
        )

    def between(self, low: int, high: int) -> EndChanges:
        """Those of the places from ``low`` on and below ``high``."""
        parts = list[Ints]()
        for places, values in self.pairs():
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
    epoch: Ints = field(default_factory=lambda: _NONE)
    #: The places of the last changes, of which most change again, and by place what was changed.
    step: Ints = field(default_factory=lambda: _NONE)
    places: Ints = field(default_factory=lambda: _NONE)

    def grow(self, count: int) -> None:
        """Make room for so many places."""
        missing = count - len(self.end)
        if missing > 0:
            for name in ("end", "more", "start", "waiting", "shift", "epoch", "step"):
                setattr(self, name, np.concatenate([getattr(self, name), np.zeros(missing, np.int64)]))

    def state(self, at: Ints, ends: Ints, starts: Ints, waiting: Ints, shifts: Ints, epochs: Ints) -> None:
        """Set these places to what was stated, which is never rounded."""
        self.end[at], self.start[at], self.waiting[at], self.shift[at] = ends, starts, waiting, shifts
        self.epoch[at], self.more[at] = epochs, 0

    def apply(self, changes: EndChanges) -> None:
        """Change it."""
        self.shift[changes.shift_places] = changes.shifts
        self.start[changes.start_places] += changes.start_steps
        self.waiting[changes.waiting_places] = changes.waiting
        self.epoch[changes.epoch_places] += changes.epoch_steps
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
            column for places, values in changes.pairs()[1:] for column in (_gaps(places), unsigned(values))
        ]
        place_ways = [changes.places] if alone else [changes.places, np.setxor1d(changes.places, self.places)]
        step_ways = [steps] if alone else [steps, steps - self.step[changes.places]]
        ways = [
            (
                pack_columns([np.array([by_places, by_steps]), _gaps(places), unsigned(values), *rest]),
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
        way, *columns = unpack_columns(packed, _COLUMNS)
        places, *parts = [
            column
            for gaps, values in zip(columns[::2], columns[1::2], strict=True)
            for column in (_places(gaps, len(self.end)), signed(values))
        ]
        if len(way) == 2 and way[0]:
            places = np.setxor1d(places, self.places)
        changes = EndChanges(places, *parts)
        if len(way) != 2 or not 0 <= changes.shifts.min(initial=0) <= changes.shifts.max(initial=0) <= 62:
            raise ValueError("the columns are not those of a round")
        if any(len(left) != len(right) for left, right in changes.pairs()):
            raise ValueError("the columns do not belong together")
        if way[1]:
            changes.steps[:] += self.step[places]
        return changes


def _places(gaps: Ints, count: int) -> Ints:
    places = np.cumsum(gaps)
    if len(places) and (gaps.min() < 0 or places[-1] >= count or np.any(np.diff(places) <= 0)):
        raise ValueError("the places are not those of this table")
    return places
