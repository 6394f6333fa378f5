"""What a round changes in a table of ends, as it was written before ends were predicted: read only.

A round is places and steps. A step counts 2 to the power of the place's shift, within which the end is known.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from groupreplay.streaming.contract.end_columns import EndColumns, Flags, Ints, signed, unpack_columns

#: Of a round: which way it is told, and places and values of steps, log starts, what waits, shifts and epochs.
_COLUMNS: Final = 11


@dataclass(slots=True)
class SteppedEnds(EndColumns):
    """The ends as last written: of each place at least ``end``, and at most ``more`` beyond it."""

    more: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    _shift: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    #: What was changed last, and of which places: most of them change again.
    _step: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    _changed: Flags = field(default_factory=lambda: np.zeros(0, np.bool_))

    def state(self, at: Ints, ends: Ints, starts: Ints, waiting: Ints, shifts: Ints, epochs: Ints) -> None:
        """Set these places to what was stated, which is never rounded.

        Raises:
            ValueError: these are no shifts.
        """
        if shifts.max(initial=0) > 62:
            raise ValueError("the shifts are too large")
        self.end[at], self.start[at], self.waiting[at], self._shift[at] = ends, starts, waiting, shifts
        self.epoch[at], self.more[at] = epochs, 0

    def read(self, packed: bytes) -> Ints:
        """Change the table by the changes of a round; returns the places.

        Raises:
            ValueError: these are other bytes, or those of another table.
        """
        way, *columns = unpack_columns(packed, _COLUMNS)
        pairs = [
            (_places(gaps, len(self.end)), signed(values))
            for gaps, values in zip(columns[::2], columns[1::2], strict=True)
        ]
        (places, steps), (starts, by), (waits, waiting), (shifted, shifts), (led, epochs) = pairs
        if len(way) != 2 or not 0 <= shifts.min(initial=0) <= shifts.max(initial=0) <= 62:
            raise ValueError("the columns are not those of a round")
        if way[0]:
            places = np.setxor1d(places, np.flatnonzero(self._changed))
        if len(places) != len(steps) or any(len(left) != len(right) for left, right in pairs[1:]):
            raise ValueError("the columns do not belong together")
        if way[1]:
            steps = steps + self._step[places]
        self._shift[shifted] = shifts
        self.start[starts] += by
        self.waiting[waits] = waiting
        self.epoch[led] += epochs
        self.end[places] += steps << self._shift[places]
        self.more[places] = (np.int64(1) << self._shift[places]) - 1
        self._step[self._changed] = 0
        self._step[places] = steps
        self._changed[:] = False
        self._changed[places] = True
        touched: Ints = np.unique(np.concatenate([places, starts, waits, led]))
        return touched


def _places(gaps: Ints, count: int) -> Ints:
    places = np.cumsum(gaps)
    if len(places) and (gaps.min() < 0 or places[-1] >= count or np.any(np.diff(places) <= 0)):
        raise ValueError("the places are not those of this table")
    return places
