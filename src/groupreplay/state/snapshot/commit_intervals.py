"""How often a group commits: a histogram of the gaps between commits of the same topic partition.

Gaps are counted by spans of the log's own time, and only the two newest spans are kept: what the group did before
is forgotten, and the counts do not depend on batches or on the order in which they are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

#: The limits of the buckets double: below 64 ms, below 128 ms, … and at the end everything above 4.6 hours.
BUCKETS: Final = 20
_FIRST_EDGE_BITS: Final = 6
#: The length of one span: the histogram is that of the last 6 to 12 hours with commits.
SPAN_MS: Final = 6 * 3_600_000
_SPANS_KEPT: Final = 2
#: The upper edge of the last bucket, which has none.
_NO_EDGE_MS: Final = 1 << (_FIRST_EDGE_BITS + BUCKETS - 1)

#: Where the last bucket begins, in units of the first edge.
_LAST_EDGE: Final = 1 << (BUCKETS - 2)
#: One below the biased exponent of 1.0 in a float of 32 bits.
_EXPONENT_OF_ONE: Final = 126

#: Up to this number of pairs of owner and span, a table holds all of them, also the unused ones.
_DENSE: Final = 100_000

#: One row = the gaps that ended in one span. ``repeats`` are gaps between two commits of the same offset.
RHYTHM: Final = np.dtype([("span", "<i8"), ("repeats", "<i4"), ("gaps", "<i4", (BUCKETS,))])


def nothing() -> npt.NDArray[np.void]:
    """A histogram without gaps."""
    return np.zeros(0, RHYTHM)


def bucket_of(lengths_ms: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The bucket of each gap; a negative gap (a clock went back) counts as 0."""
    # The exponent of a float is the bit length of an integer: quicker than a logarithm, and exact below
    # 2**24; everything longer is in the last bucket.
    # (``np.clip`` takes several times as long for the few gaps of one call.)
    halved = np.minimum(np.maximum(lengths_ms >> _FIRST_EDGE_BITS, 0), _LAST_EDGE).astype(np.float32)
    exponents = np.maximum((halved.view(np.int32) >> 23) - _EXPONENT_OF_ONE, 0)
    buckets: npt.NDArray[np.int64] = exponents.astype(np.int64)
    return buckets


def gaps_ms(before_ms: npt.NDArray[Any], after_ms: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The gaps between commits; a time before 1970 in a record counts as 1970."""
    gaps: npt.NDArray[np.int64] = np.maximum(after_ms, 0) - np.maximum(before_ms, 0)
    return gaps


def counted(
    of: npt.NDArray[Any],
    ended_ms: npt.NDArray[Any],
    lengths_ms: npt.NDArray[Any],
    repeated: npt.NDArray[np.bool_],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.void]]:
    """(owner of each row, rows of RHYTHM) for gaps with their owners, ends, lengths and repeats.

    Owners are small numbers; the rows are in order of owner and span.
    """
    if not len(of):
        return np.zeros(0, np.int64), nothing()
    first = int(ended_ms.min()) // SPAN_MS
    width = int(ended_ms.max()) // SPAN_MS - first + 1
    # This does not overflow, whatever times a clock shows.
    place = of if width == 1 else of * width + (ended_ms // SPAN_MS - first)
    known = np.arange(int(place.max()) + 1) if place.max() < _DENSE else None
    if known is None:
        known, place = np.unique(place, return_inverse=True)
    counts = np.bincount(place * BUCKETS + bucket_of(lengths_ms), minlength=len(known) * BUCKETS)
    gaps = counts.reshape(-1, BUCKETS)
    used = np.flatnonzero(gaps.any(axis=1))
    rows = np.zeros(len(used), RHYTHM)
    rows["span"] = first + known[used] % width
    rows["repeats"] = np.bincount(place[repeated], minlength=len(known))[used]
    rows["gaps"] = gaps[used]
    return known[used] // width, rows


def counted_together(
    ended_ms: npt.NDArray[Any], lengths_ms: npt.NDArray[Any], repeated: npt.NDArray[np.bool_]
) -> npt.NDArray[np.void]:
    """Rows of RHYTHM for gaps of one owner."""
    first, last = int(ended_ms.min()) // SPAN_MS, int(ended_ms.max()) // SPAN_MS
    if first != last:
        return counted(np.zeros(len(ended_ms), np.int64), ended_ms, lengths_ms, repeated)[1]
    # Nearly always; this runs in every call of every group.
    row = np.zeros(1, RHYTHM)
    row["span"], row["repeats"] = first, np.count_nonzero(repeated)
    row["gaps"] = np.bincount(bucket_of(lengths_ms), minlength=BUCKETS)
    return row


def added(known: npt.NDArray[np.void], more: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    """The sum of both, by span, for the newest spans only."""
    if not len(more):
        return known
    if not len(known) and len(more) == 1:
        first: npt.NDArray[np.void] = more.copy()
        return first
    if len(known) and len(more) == 1 and known["span"][-1] == more["span"][0]:
        # Nearly always.
        total: npt.NDArray[np.void] = known.copy()
        total["repeats"][-1] += more["repeats"][0]
        total["gaps"][-1] += more["gaps"][0]
        return total
    spans = sorted({*known["span"].tolist(), *more["span"].tolist()})[-_SPANS_KEPT:]
    total = np.zeros(len(spans), RHYTHM)
    total["span"] = spans
    for rows in (known, more):
        for place, span in enumerate(rows["span"].tolist()):
            if span >= spans[0]:
                at = spans.index(span)
                total["repeats"][at] += rows["repeats"][place]
                total["gaps"][at] += rows["gaps"][place]
    return total


def ended_by(rhythm: npt.NDArray[np.void], at_ms: int) -> npt.NDArray[np.void]:
    """The same gaps, with those of later spans in the span of this moment."""
    later = rhythm["span"] > at_ms // SPAN_MS
    if not later.any():
        return rhythm
    cut: npt.NDArray[np.void] = rhythm[later].copy()
    cut["span"] = at_ms // SPAN_MS
    kept: npt.NDArray[np.void] = rhythm[~later]
    for row in cut:
        kept = added(kept, row.reshape(1))
    return kept


class Usual(NamedTuple):
    """The number of gaps, the share of repeated offsets among them, and a limit below which most gaps are."""

    gaps: int
    repeated: float
    gap_ms: int


class UsualGaps:
    """``usual`` of one histogram, remembered until there is another one: every change of the group asks for it."""

    def __init__(self) -> None:
        self._rhythm: npt.NDArray[np.void] | None = None
        self._counts: list[int] = []
        self._by_share: dict[float, Usual | None] = {}

    def of(self, rhythm: npt.NDArray[np.void], share: float, least: int) -> Usual | None:
        """The usual gap of a histogram, which is never changed in place; None if it has fewer than ``least`` gaps."""
        if self._rhythm is not rhythm:
            self._rhythm, self._counts, self._by_share = rhythm, _counts(rhythm), {}
        if sum(self._counts) < least:
            return None
        if share not in self._by_share:
            self._by_share[share] = _usual(self._counts, rhythm, share)
        return self._by_share[share]


def usual(rhythm: npt.NDArray[np.void], share: float = 0.95) -> Usual | None:
    """The usual gap: ``gap_ms`` is an upper edge of this share of the gaps. None without gaps."""
    return _usual(_counts(rhythm), rhythm, share)


def _counts(rhythm: npt.NDArray[np.void]) -> list[int]:
    """The gaps of all spans, by bucket."""
    counts: list[int] = np.add.reduce(rhythm["gaps"]).tolist()
    return counts


def _usual(counts: Sequence[int], rhythm: npt.NDArray[np.void], share: float) -> Usual | None:
    total = sum(counts)
    if not total:
        return None
    # A few small numbers: quicker without arrays.
    bucket = next(bucket for bucket, below in enumerate(accumulate(counts)) if below >= share * total)
    edge_ms = _NO_EDGE_MS if bucket == BUCKETS - 1 else 1 << (_FIRST_EDGE_BITS + bucket)
    return Usual(total, sum(rhythm["repeats"].tolist()) / total, edge_ms)
