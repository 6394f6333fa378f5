"""When each partition of a group had a commit: the last before a moment, the first after it, those between."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from groupreplay.timeline.commit_rates import CommitLog, usual_gap_ms

#: A regular commit is not earlier than this share of the usual time.
_EARLY: Final = 0.95
#: A topic and the number of a partition.
Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class CommitTimes:
    """The times by partition, in order; ``interval_ms``: the usual one between two of a partition, 0: none has two."""

    interval_ms: int
    of_place: Mapping[Place, Sequence[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, log: CommitLog) -> CommitTimes:
        """Those of a log."""
        order = np.lexsort((log.at_ms, log.place))
        place, at_ms = log.place[order], log.at_ms[order]
        bounds = np.searchsorted(place, np.arange(len(log.places) + 1))
        times = {
            name: at_ms[bounds[number] : bounds[number + 1]].tolist()
            for number, name in enumerate(log.places)
        }
        return cls(usual_gap_ms(log), times)

    def last_ms(self, places: Collection[Place], before_ms: int) -> int | None:
        """The last commit of any of these partitions at or before a moment; None: there is none."""
        lasts = list[int]()
        for place in places:
            times = self.of_place.get(place, ())
            if number := bisect_right(times, before_ms):
                lasts.append(times[number - 1])
        return max(lasts, default=None)

    def last_two(self, places: Collection[Place], before_ms: int) -> tuple[int, ...]:
        """The last two commits of these partitions, or fewer, at or before a moment, in order."""
        lasts = set[int]()
        for place in places:
            times = self.of_place.get(place, ())
            number = bisect_right(times, before_ms)
            lasts.update(times[max(number - 2, 0) : number])
        return tuple(sorted(lasts)[-2:])

    def is_early(self, lasts: Sequence[int]) -> bool:
        """Whether the last of two commits came before the usual time, as no regular one does."""
        return len(lasts) > 1 and lasts[1] - lasts[0] < _EARLY * self.interval_ms

    def next_ms(self, places: Collection[Place], after_ms: int) -> int | None:
        """The first commit of any of these partitions after a moment; None: there is none."""
        nexts = list[int]()
        for place in places:
            times = self.of_place.get(place, ())
            if (number := bisect_right(times, after_ms)) < len(times):
                nexts.append(times[number])
        return min(nexts, default=None)

    def between(self, places: Collection[Place], since_ms: int, until_ms: int) -> list[int]:
        """The commits of these partitions after a moment and up to another, in order."""
        within: set[int] = set()
        for place in places:
            times = self.of_place.get(place, ())
            within.update(times[bisect_right(times, since_ms) : bisect_right(times, until_ms)])
        return sorted(within)
