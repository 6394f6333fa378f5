"""The table of ends that writer and readers of rounds keep alike, and how a round is told by it.

Each partition has a number in the table, its place. An end is expected to grow as it did in the last rounds, so a round
says of each place by how much that was wrong: mostly nothing. A rounded end is known to within a share of what comes
in an interval; a place that stands still, has had an open transaction, or gets few records is known exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from groupreplay.streaming.contract.end_columns import (
    EndColumns,
    Flags,
    Ints,
    pack_columns,
    signed,
    unpack_columns,
    unsigned,
)
from groupreplay.streaming.contract.symbol_codes import COLUMNS, coded, decoded, next_activity

#: Roundings count such parts of an interval.
ROUNDING_PARTS: Final = 8
#: Places of one message.
PLACES_A_MESSAGE: Final = 100_000
#: As powers of two: parts of a record in which growth is counted, of an interval, and of the average that a round is.
_PART_BITS: Final = 8
_ROUNDING_BITS: Final = 3
_MEMORY_BITS: Final = 4
#: Parts of a record in a round, and the places between an end and where it is expected, that are still told as such.
_MOST_PACE: Final = 1 << 50
_FARTHEST: Final = 1 << 52
#: A place whose end is as expected, and one whose end is told as what it is more than before. All others are steps.
_EXPECTED: Final = 0
_TOLD: Final = 1
_OTHERS: Final = ("start", "waiting", "epoch")


@dataclass(slots=True)
class PredictedEnds(EndColumns):
    """The ends as last written: of each place at least ``end``, and at most ``more`` beyond it."""

    more: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    #: How much comes in a round, and how large the numbers of the place were lately.
    _pace: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    _activity: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    #: That nothing is expected to come, and that a transaction was open once.
    _moves: Flags = field(default_factory=lambda: np.zeros(0, np.bool_))
    _transactional: Flags = field(default_factory=lambda: np.zeros(0, np.bool_))

    def paces(self, at: Ints) -> Ints:
        """What is stated of these places beside their ends, as ``state`` takes it."""
        # Whoever reads a pace expects the place to move: one that stands still goes on doing so.
        pace = np.where(self._moves[at], self._pace[at], np.minimum(self._pace[at], (1 << _PART_BITS) - 1))
        mantissa, exponent = np.frexp(pace.astype(np.float64))
        code = 8 * exponent.astype(np.int64) + (16 * mantissa).astype(np.int64) - 8
        return 2 * np.where(pace > 0, code, 0) + self._transactional[at]

    def state(self, at: Ints, ends: Ints, starts: Ints, waiting: Ints, paces: Ints, epochs: Ints) -> None:
        """Set these places to what was stated, which is never rounded.

        Raises:
            ValueError: these are no paces.
        """
        exponent = paces >> 4
        if paces.min(initial=0) < 0 or exponent.max(initial=0) > _MOST_PACE.bit_length():
            raise ValueError("the paces are too large")
        self.end[at], self.start[at], self.waiting[at], self.epoch[at] = ends, starts, waiting, epochs
        self.more[at] = 0
        self._pace[at] = np.where(exponent > 0, (8 + ((paces >> 1) & 7) << exponent) >> 4, 0)
        self._transactional[at] = ((paces & 1) > 0) | (waiting > 0)
        self._moves[at] = self._pace[at] >= 1 << _PART_BITS

    def tell(self, part: int, now: EndColumns, grown: Flags, rounding: int, *, alone: bool) -> bytes:
        """Change the table to what there is now; returns this as ``read`` takes it, nothing if nothing has changed.

        ``alone``: it can be read without the rounds before.
        """
        places = self._begin(part, alone=alone)
        pairs = [_others(getattr(self, name)[places], getattr(now, name)[places]) for name in _OTHERS]
        self._apply_others(places, pairs)
        base, most = self._expected(places, rounding)
        before, ends, moves = self.end[places], now.end[places], self._moves[places]
        apart = (ends - base) // (most + 1)
        values = np.where(moves, np.where(apart == 0, _EXPECTED, _TOLD + unsigned(apart)), _TOLD + 1 + apart)
        values[~moves & (ends == before)] = _EXPECTED
        values[moves & (most > 0) & ~grown[places] | (abs(apart) > _FARTHEST)] = _TOLD
        if not (values.any() or moves.any() or any(len(at) for at, _ in pairs)):
            return b""
        more = (ends - before)[values == _TOLD]
        packed = pack_columns([*coded(values, self._activity[places]), more, *_sparse(pairs)])
        self._apply(places, values, more, rounding)
        return packed

    def read(self, packed: bytes, part: int, rounding: int, *, alone: bool) -> Ints:
        """Change the table by what was told of a round; returns the places that have changed.

        Raises:
            ValueError: these are other bytes, or those of another table.
        """
        places = self._begin(part, alone=alone)
        if not packed:
            return np.zeros(0, np.int64)
        columns = unpack_columns(packed, COLUMNS + 7)
        values = decoded(columns[:COLUMNS], self._activity[places])
        more, *others = columns[COLUMNS:]
        pairs = [(np.cumsum(gaps), column) for gaps, column in zip(others[::2], others[1::2], strict=True)]
        if len(more) != np.count_nonzero(values == _TOLD) or any(
            len(at) != len(column)
            or np.any(np.diff(at) <= 0)
            or (len(at) and not 0 <= at[0] <= at[-1] < len(values))
            for at, column in pairs
        ):
            raise ValueError("the columns do not belong together")
        pairs = [(at, column - int(number == 2)) for number, (at, column) in enumerate(pairs)]
        self._apply_others(places, pairs)
        changed = self._apply(places, values, more, rounding)
        touched: Ints = np.unique(np.concatenate([changed, *(at for at, _ in pairs)]))
        return touched + np.int64(places.start)

    def _begin(self, part: int, *, alone: bool) -> slice:
        count = len(self.end)
        places = slice(min(part * PLACES_A_MESSAGE, count), min((part + 1) * PLACES_A_MESSAGE, count))
        if alone:
            self._activity[places] = 0
        return places

    def _apply_others(self, places: slice, pairs: list[tuple[Ints, Ints]]) -> None:
        for column, (at, values) in zip((getattr(self, name) for name in _OTHERS), pairs, strict=True):
            column[places][at] = values
        self._transactional[places] |= self.waiting[places] > 0

    def _expected(self, places: slice, rounding: int) -> tuple[Ints, Ints]:
        """The least end that is expected if the place grows, and how many more it may be then."""
        pace, end, more = self._pace[places], self.end[places], self.more[places]
        most = np.where(self._transactional[places], 0, (pace * rounding) >> (_PART_BITS + _ROUNDING_BITS))
        middle = (((more - most) << _PART_BITS) + 2 * pace) >> (_PART_BITS + 1)
        return end + np.where(self._moves[places], np.maximum(middle, 0), 1), most

    def _apply(self, places: slice, values: Ints, told: Ints, rounding: int) -> Ints:
        """The round itself; returns which of the places have another end now."""
        base, most = self._expected(places, rounding)
        end, more, moves = self.end[places].copy(), self.more[places].copy(), self._moves[places]
        steps = np.maximum(values - _TOLD, 0)
        lowest = base + np.where(moves, signed(steps), steps - 1) * (most + 1)
        least = np.maximum(lowest, end)
        rest = np.maximum(lowest + most - least, 0)
        is_told = values == _TOLD
        least[is_told] = end[is_told] + told
        is_still = ~moves & (values == _EXPECTED)
        least[is_still] = end[is_still]
        rest[is_told | is_still] = 0
        grown = ((least - end) << _PART_BITS) + ((rest - more) << (_PART_BITS - 1))
        pace = self._pace[places]
        pace += (np.clip(grown, 0, _MOST_PACE) - pace) >> _MEMORY_BITS
        self.end[places], self.more[places] = least, rest
        stands = is_told | ((more == 0) & (least == end)) | (pace < 1 << _PART_BITS)
        self._moves[places] = (rest > 0) | ~stands
        self._activity[places] = next_activity(self._activity[places], values)
        return np.flatnonzero((least != end) | (rest != more))


def _others(before: Ints, now: Ints) -> tuple[Ints, Ints]:
    at = np.flatnonzero(now != before)
    return at, now[at]


def _sparse(pairs: list[tuple[Ints, Ints]]) -> Iterator[Ints]:
    for number, (at, values) in enumerate(pairs):
        yield np.diff(at, prepend=np.int64(0))
        # The least epoch is -1.
        yield values + int(number == 2)
