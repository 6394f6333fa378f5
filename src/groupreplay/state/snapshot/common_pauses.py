"""The pauses of a whole group: when the last one of each length ended.

A coordinator that loads, or a topic without records, lets all members pause. The first one to commit again makes each
of the others look silent, so a member is compared only with others that have worked since: without a gap between any
two commits of the group that is half as long as what a member may be silent.

Of each length, twice the one before, only the last end is known: that is bounded, and does not depend on how often the
group commits, which is counted only later. A pause is found in a run of commits as it is between two runs.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from groupreplay.state.snapshot.observations import LULL_MS, CommitRun

#: The ends of the last pauses of at least ``LULL_MS``, of twice that, and so on; without those that never were.
Resumed = tuple[int, ...]

#: The longest that is told from longer ones lasts two days.
_LENGTHS: Final = 14
#: Before everything that is known. (Half of the range, so that differences do not overflow.)
_BEFORE_ALL: Final = -(1 << 62)


class Pauses(NamedTuple):
    """Pauses of ``LULL_MS`` or more in order: the times of the commits that ended them, and their lengths."""

    end_ms: npt.NDArray[np.int64]
    length_ms: npt.NDArray[np.int64]


NO_PAUSES: Final = Pauses(np.zeros(0, np.int64), np.zeros(0, np.int64))


def pauses(run: CommitRun, newest_ms: int | None) -> Pauses:
    """The pauses before the commits of a run; ``newest_ms`` is the newest commit before it, None without any."""
    rows, lulls = run.rows, run.lulls
    begins, ends = rows["first_timestamp_ms"], rows["commit_timestamp_ms"]
    before_ms = run.first_ms if newest_ms is None else newest_ms
    is_one = not len(lulls) and np.maximum.reduce(begins) - np.minimum.reduce(ends) < LULL_MS
    if is_one and run.first_ms - before_ms < LULL_MS:
        return NO_PAUSES
    # Between its lulls a partition has no gap of that length. Where as many of these stretches have ended as have
    # begun, nobody commits.
    begins = np.sort(np.concatenate(((_BEFORE_ALL,), begins, lulls["after_ms"])))
    ends = np.sort(np.concatenate(((before_ms,), ends, lulls["before_ms"])))
    gaps = begins[1:] - ends[:-1]
    found = gaps >= LULL_MS
    return Pauses(begins[1:][found], gaps[found])


def noted(resumed: Resumed, found: Pauses) -> Resumed:
    """What is known after these pauses."""
    if found is NO_PAUSES:  # Nearly always.
        return resumed
    ends: list[int] = []
    for place in range(_LENGTHS):
        longer = found.end_ms[found.length_ms >= LULL_MS << place]
        if not len(longer):
            break
        ends.append(int(longer[-1]))
    return (*ends, *resumed[len(ends) :])


def working_since_ms(resumed: Resumed, limit_ms: int) -> int:
    """Since when the group has made no pause of half this limit, or somewhat less; -1: it has made none."""
    place = _place(limit_ms)
    return resumed[place] if place < len(resumed) else -1


def is_pause(gap_ms: int, limit_ms: int) -> bool:
    """Whether a gap between two commits of the group is such a pause."""
    return gap_ms >= LULL_MS << _place(limit_ms)


def _place(limit_ms: int) -> int:
    return max(1, limit_ms // 2 // LULL_MS).bit_length() - 1


def ended_by(resumed: Resumed, at_ms: int) -> Resumed:
    """The same, with later ends at this moment."""
    return tuple(min(end_ms, at_ms) for end_ms in resumed)
