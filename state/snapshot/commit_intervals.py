"""How often a group commits: a histogram of the gaps between commits of the same topic partition.

The counts are kept by spans of the log's own time, and only those of the two newest spans: old habits fade,
and neither the cut into batches nor the order in which counts are added can matter. Knows arrays; must not
know what a long silence means.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

#: Gaps fall into buckets that double: below 64 ms, below 128 ms, … and at the end everything above 4.6 hours.
BUCKETS: Final = 20
_FIRST_EDGE_BITS: Final = 6
#: How long one span of the log's time is: habits are those of the last 6 to 12 hours with commits.
SPAN_MS: Final = 6 * 3_600_000
_SPANS_KEPT: Final = 2
#: What a gap counts as that has no upper edge.
_NO_EDGE_MS: Final = 1 << (_FIRST_EDGE_BITS + BUCKETS - 1)

#: Where the last bucket begins, in units of the first edge.
_LAST_EDGE: Final = 1 << (BUCKETS - 2)
#: One below the biased exponent of 1.0 in a float of 32 bits.
_EXPONENT_OF_ONE: Final = 126

#: Up to so many pairs of owner and span a table holds all of them, the unused ones too.
_DENSE: Final = 100_000

#: One row = the gaps that ended in one span. ``repeats`` are those over which the offset stayed the same.
RHYTHM: Final = np.dtype([("span", "<i8"), ("repeats", "<i4"), ("gaps", "<i4", (BUCKETS,))])


def nothing() -> npt.NDArray[np.void]:
    """No gap was seen."""
    return np.zeros(0, RHYTHM)


def bucket_of(lengths_ms: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The bucket of each gap; one that is negative (a clock went back) counts as none at all."""
    # The exponent of a float is the bit length of a whole number: quicker than a logarithm, and exact below
    # 2**24; all that is longer is in the last bucket.
    # (``np.clip`` costs several times as much for the few gaps of one call.)
    halved = np.minimum(np.maximum(lengths_ms >> _FIRST_EDGE_BITS, 0), _LAST_EDGE).astype(np.float32)
    exponents = np.maximum((halved.view(np.int32) >> 23) - _EXPONENT_OF_ONE, 0)
    buckets: npt.NDArray[np.int64] = exponents.astype(np.int64)
    return buckets


def gaps_ms(before_ms: npt.NDArray[Any], after_ms: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """From one commit to the next; no time of a commit is before 1970, whatever a record says."""
    gaps: npt.NDArray[np.int64] = np.maximum(after_ms, 0) - np.maximum(before_ms, 0)
    return gaps


def counted(
    of: npt.NDArray[Any],
    ended_ms: npt.NDArray[Any],
    lengths_ms: npt.NDArray[Any],
    repeated: npt.NDArray[np.bool_],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.void]]:
    """(whose each row is, rows of RHYTHM) for gaps with their owners, ends, lengths and repeats.

    Owners are small numbers; the rows come by owner, then by span.
    """
    if not len(of):
        return np.zeros(0, np.int64), nothing()
    first = int(ended_ms.min()) // SPAN_MS
    width = int(ended_ms.max()) // SPAN_MS - first + 1
    # Even a clock that jumps over all of time does not make this overflow.
    place = of if width == 1 else of * width + (ended_ms // SPAN_MS - first)
    known = np.arange(int(place.max()) + 1) if place.max() < _DENSE else None
    if known is None:
        known, place = np.unique(place, return_inverse=True)
    gaps = np.bincount(place * BUCKETS + bucket_of(lengths_ms), minlength=len(known) * BUCKETS)
    gaps = gaps.reshape(-1, BUCKETS)
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
    # Nearly always: every call of every group comes along here.
    row = np.zeros(1, RHYTHM)
    row["span"], row["repeats"] = first, np.count_nonzero(repeated)
    row["gaps"] = np.bincount(bucket_of(lengths_ms), minlength=BUCKETS)
    return row


def added(known: npt.NDArray[np.void], more: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    """Both together, by span, the newest spans alone."""
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


class Usual(NamedTuple):
    """How many gaps were seen, the share that repeated an offset, and what most gaps are below."""

    gaps: int
    repeated: float
    gap_ms: int


def usual(rhythm: npt.NDArray[np.void], share: float = 0.95) -> Usual | None:
    """What is usual; ``gap_ms`` is an upper edge of this share of the gaps. None without any."""
    # A few small numbers, looked at very often: quicker without arrays.
    counts = rhythm["gaps"].sum(axis=0).tolist()
    total = sum(counts)
    if not total:
        return None
    below = accumulate(counts)
    bucket = next(bucket for bucket, count in enumerate(below) if count >= share * total)
    edge_ms = _NO_EDGE_MS if bucket == BUCKETS - 1 else 1 << (_FIRST_EDGE_BITS + bucket)
    return Usual(total, sum(rhythm["repeats"].tolist()) / total, edge_ms)
