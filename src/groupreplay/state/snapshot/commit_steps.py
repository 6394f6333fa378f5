"""Commits that may be more than progress: a program or an operator sets offsets, or a consumer begins anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from groupreplay.state.snapshot import commit_intervals

if TYPE_CHECKING:
    from groupreplay.state.snapshot.observations import CommitRun

#: One row = one commit that may be more than progress (``is_step``): ``row`` indexes the run's commits; ``old_*`` are
#: those of the commit before it.
STEPS = np.dtype(
    [
        ("row", "<i4"),
        ("old_offset", "<i8"),
        ("new_offset", "<i8"),
        ("log_offset", "<i8"),
        ("timestamp_ms", "<i8"),
        ("old_leader_epoch", "<i4"),
        ("leader_epoch", "<i4"),
    ]
)
#: A change of the offset so long after the commit before it is a step.
_SLOW_STEP_MS: Final = 10_000
#: The same for a commit without a leader epoch. Tools write such commits, and seldom two of them within a second.
_STEP_MS: Final = 1_000


def is_step(
    offsets: tuple[npt.NDArray[Any], npt.NDArray[Any]],
    epochs: tuple[npt.NDArray[Any], npt.NDArray[Any]],
    gap_ms: npt.NDArray[Any],
) -> npt.NDArray[np.bool_]:
    """Which commits may be more than progress: (before, after) of each, and the time between the two.

    Every decrease, and every increase that is too slow, or looks too different, for a consumer at work. Consumers
    write the leader epoch of what they have read; Kafka's tools and the Admin API write none.
    """
    (old, new), (old_epoch, epoch) = offsets, epochs
    by_tool = (epoch < 0) & ((old_epoch >= 0) | (gap_ms >= _STEP_MS))
    steps: npt.NDArray[np.bool_] = (new < old) | ((new > old) & (by_tool | (gap_ms >= _SLOW_STEP_MS)))
    return steps


def first_steps(
    known: npt.NDArray[np.void], run: CommitRun, source: npt.NDArray[np.intp], place: int
) -> npt.NDArray[np.void]:
    """The rows of the run whose first commit is a step from the known row at the same place."""
    rows = run.rows[source]
    found = is_step(
        (known["offset"], rows["first_offset"]),
        (known["leader_epoch"], rows["first_leader_epoch"]),
        commit_intervals.gaps_ms(known["commit_timestamp_ms"], rows["first_commit_timestamp_ms"]),
    )
    found |= (known["offset"] != rows["first_offset"]) & (known["log_offset"] < place)
    known, rows = known[found], rows[found]
    steps = np.zeros(len(rows), STEPS)
    steps["row"] = source[found]
    steps["old_offset"], steps["new_offset"] = known["offset"], rows["first_offset"]
    steps["old_leader_epoch"], steps["leader_epoch"] = known["leader_epoch"], rows["first_leader_epoch"]
    steps["log_offset"], steps["timestamp_ms"] = rows["first_log_offset"], rows["first_timestamp_ms"]
    return steps
