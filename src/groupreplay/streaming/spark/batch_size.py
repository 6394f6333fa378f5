"""How many offsets of the log a batch reads at most: as many as were applied in half a minute.

A batch calls Python once for each group that it has records of. Two million offsets are ten calls or two million,
and a call takes from 0.1 to 2 ms (docs/scaling.md), so no fixed number of offsets bounds the time of a batch. While
it lasts, no other group is evaluated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from groupreplay.streaming.run.interface import Batch

#: The first batch, before anything is known of the log: within a minute on two cores if each offset is another group.
_FIRST: Final = 100_000
#: Below, the fixed costs of a batch are most of it.
_FEWEST: Final = 10_000
_LONG_SECONDS: Final = 60.0
#: Times of batches are whole milliseconds.
_LEAST_SECONDS: Final = 0.001
_WANTED_SECONDS: Final = 30.0
#: A batch with this share of the bound was bounded by it: each partition gives whole offsets.
_FULL: Final = 0.9
#: A larger batch needs another plan, which loads the state again: not for less than this factor.
_WORTH: Final = 2.0


@dataclass(slots=True)
class BatchSize:
    """The bound of the next plan, from the batches of the one before.

    ``most`` is that of the settings. A single run begins with it: no group waits for its next batch.
    """

    most: int
    is_single_run: bool = False
    _planned: int = 0
    _wanted: int = field(init=False)
    _offsets: int = 0
    _seconds: float = 0.0

    def __post_init__(self) -> None:
        self._wanted = self.most if self.is_single_run else min(self.most, _FIRST)

    def plan(self) -> int:
        """The number for a plan that is made now."""
        self._planned = self._wanted
        return self._planned

    def learn(self, batch: Batch) -> None:
        """Takes the pace of a batch that read as much as it was allowed to; of others the offsets decide nothing.

        The pace is one of offsets, because compaction has removed the records of many. They are counted: the plan may
        be a later one than that of the batch.
        """
        offsets = batch.records if batch.log_offsets is None else batch.log_offsets
        if offsets < self._planned * _FULL:
            return
        self._offsets, self._seconds = offsets, batch.seconds
        in_time = int(offsets * _WANTED_SECONDS / max(batch.seconds, _LEAST_SECONDS))
        if batch.seconds > _LONG_SECONDS or in_time >= self._planned * _WORTH:
            self._wanted = min(self.most, max(in_time, _FEWEST))

    def change(self) -> str | None:
        """Why the query must be planned again; None: it need not."""
        if self._wanted == self._planned:
            return None
        return (
            f"a batch of {self._offsets:,} offsets took {self._seconds:.0f} s, "
            f"continuing with at most {self._wanted:,} in a batch"
        )
