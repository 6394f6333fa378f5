"""A run of commits from inside: when partitions are at work again, and the table of offsets at a moment of it.

A run is as long as what was read at once, so what is found must not depend on where it ends. Of each partition it has
the first and the last commit, the first that moves the offset, and every lull (``LULLS``); between these a partition
commits at least every ``LULL_MS``, and moves at least every ``STAY_MS`` if it moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from groupreplay.state.snapshot import commit_intervals, common_pauses
from groupreplay.state.snapshot.common_pauses import Pauses, Resumed
from groupreplay.state.snapshot.observations import LULL_MS, CommitRun
from groupreplay.state.snapshot.offsets import Offsets
from groupreplay.state.snapshot.partitions import keys_of

_Times = npt.NDArray[np.int64]
_Flags = npt.NDArray[np.bool_]
#: Longer than anything was known.
_EVER: Final = np.int64(1 << 60)


class Returns(NamedTuple):
    """Commits with which a partition is at work again; each has a place in all columns.

    ``at_ms`` is the time of the record, ``lull_ms`` that without a commit before it, ``stay_ms`` for how long the
    offset had not moved (0: this commit does not move it). A partition that had no commit, or whose offset was never
    seen to move, has rested for ever.
    """

    at_ms: _Times
    lull_ms: _Times
    stay_ms: _Times


@dataclass(slots=True)
class RunAhead:
    """A run of commits that is not applied to the table yet."""

    offsets: Offsets
    run: CommitRun
    _returns: Returns | None = None

    @property
    def has_lulls(self) -> bool:
        """Whether a partition may have been without a commit for ``LULL_MS``: quicker than ``returns``."""
        rows = self.run.rows
        if len(self.run.lulls):
            return True
        if not len(self.offsets):
            return self.run.last_ms - int(np.minimum.reduce(rows["timestamp_ms"])) >= LULL_MS
        return int(np.maximum.reduce(rows["first_timestamp_ms"])) - self.offsets.oldest_commit_ms() >= LULL_MS

    def usual(self) -> commit_intervals.Usual | None:
        """The usual gap between commits after the run."""
        return commit_intervals.usual(commit_intervals.added(self.offsets.rhythm, self.run.rhythm))

    @property
    def returns(self) -> Returns:
        """With which commits partitions are at work again."""
        if self._returns is None:
            self._returns = _returns(self.offsets, self.run)
        return self._returns


def _returns(offsets: Offsets, run: CommitRun) -> Returns:
    rows, lulls = run.rows, run.lulls
    at, known = _places(offsets, run)
    first_ms, moved_ms = rows["first_timestamp_ms"], rows["moved_ms"]
    committed, moved = _taken(offsets.rows, at), _taken(offsets.moved, at)
    seen = known & (moved["generation"] >= 0)
    fresh = known & (rows["first_offset"] != committed["offset"])
    lull_ms = rows["first_commit_timestamp_ms"] - committed["commit_timestamp_ms"]
    later = np.flatnonzero((moved_ms >= 0) & ~fresh)
    return Returns(
        np.concatenate((first_ms, moved_ms[later], lulls["after_ms"])),
        np.concatenate(
            (
                np.where(known, lull_ms, _EVER),
                np.zeros(len(later), np.int64),
                lulls["after_ms"] - lulls["before_ms"],
            )
        ),
        np.concatenate(
            (
                np.where(fresh | ~known, np.where(seen, first_ms - moved["since_ms"], _EVER), 0),
                np.where(seen, moved_ms - moved["since_ms"], _EVER)[later],
                np.zeros(len(lulls), np.int64),
            )
        ),
    )


def _places(offsets: Offsets, run: CommitRun) -> tuple[npt.NDArray[np.intp], _Flags]:
    """(the place in the table of each row of the run, whether it is there)."""
    index = {topic: place for place, topic in enumerate(offsets.topics)}
    topics = np.array([index.get(topic, -1) for topic in run.topics], np.int64)
    keys, known = keys_of(topics[run.rows["topic"]], run.rows["partition"]), offsets.keys()
    at = known.searchsorted(keys)
    return at, _taken(known, at) == keys


def _taken(rows: npt.NDArray[Any], at: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
    """The rows at these places; any where there is none."""
    return rows.take(at, mode="clip") if len(rows) else np.full(len(at), -1, rows.dtype)


@dataclass(slots=True)
class CommitsBetween:
    """A run of commits, and the table ``before`` and ``after`` it."""

    run: CommitRun
    before: Offsets
    after: Offsets
    #: By row of the run, made for the first moment: its place after the run and before it, whether it has the latter.
    _known: tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], _Flags] | None = None
    _pauses: Pauses | None = None

    def at(self, at_ms: int) -> Offsets:
        """The table after the commits from before this moment.

        A partition that goes on committing has the commit before its next lull, and one that goes on moving the move
        before its next stay: as long as that is later, nothing can be due.
        """
        after, rows = self.after, self.run.rows
        table, moved = after.rows.copy(), after.moved.copy()
        if self._known is None:
            self._known = (_places(after, self.run)[0], *_places(self.before, self.run))
        place, source, known = self._known
        later = rows["first_timestamp_ms"] >= at_ms
        between = ~later & (rows["timestamp_ms"] >= at_ms)
        table["commit_timestamp_ms"][place[between]] = self._active_until_ms(at_ms)[between]
        stays = ~self._has_moved(source, known, at_ms)
        old, fresh = stays & known, stays & ~known
        table["offset"][place[old]] = self.before.rows["offset"][source[old]]
        moved[place[old]] = self.before.moved[source[old]]
        table["offset"][place[fresh]] = rows["first_offset"][fresh]
        moved["since_ms"][place[fresh]] = rows["first_commit_timestamp_ms"][fresh]
        moved["generation"][place[fresh]] = -1
        old = later & known
        table[place[old]] = self.before.rows[source[old]]
        return self._without(table, moved, place[later & ~known], self._resumed_ms(at_ms))

    def _resumed_ms(self, at_ms: int) -> Resumed:
        """The pauses of the group that commits from before this moment have ended."""
        if self._pauses is None:
            self._pauses = common_pauses.pauses(self.run, self.before.newest_commit_ms())
        over = self._pauses.end_ms < at_ms
        found = Pauses(self._pauses.end_ms[over], self._pauses.length_ms[over])
        return common_pauses.noted(self.before.resumed_ms, found)

    def _active_until_ms(self, at_ms: int) -> _Times:
        """By row the commit before its first lull that ends at this moment or later, else the last one."""
        until_ms: _Times = self.run.rows["commit_timestamp_ms"].copy()
        # Backwards: of several assignments to one place NumPy keeps the last.
        lulls = self.run.lulls[self.run.lulls["after_ms"] >= at_ms][::-1]
        until_ms[lulls["row"]] = lulls["before_ms"]
        return until_ms

    def _has_moved(self, source: npt.NDArray[np.intp], known: _Flags, at_ms: int) -> _Flags:
        rows = self.run.rows
        fresh = known & (rows["first_offset"] != _taken(self.before.rows, source)["offset"])
        first_ms = np.where(fresh, rows["first_timestamp_ms"], rows["moved_ms"])
        found: _Flags = (first_ms >= 0) & (first_ms < at_ms)
        return found

    def _without(
        self,
        table: npt.NDArray[np.void],
        moved: npt.NDArray[np.void],
        unknown: npt.NDArray[np.intp],
        resumed_ms: Resumed,
    ) -> Offsets:
        """The table without these rows, which are committed later for the first time."""
        after, expiries = self.after, self.after.expire_timestamps_ms
        if len(unknown):
            if expiries:
                left_out = {*after.keys()[unknown].tolist()}
                expiries = {key: at_ms for key, at_ms in expiries.items() if key not in left_out}
            table, moved = np.delete(table, unknown), np.delete(moved, unknown)
        sparse = (after.metadata, expiries, after.topic_ids)
        return Offsets(after.topics, table, *sparse, moved, after.rhythm, resumed_ms)
