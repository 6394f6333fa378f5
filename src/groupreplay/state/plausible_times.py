"""Which times in records can be: one rule for the job and for a replay.

A record was written before it was read. Beside most records the log's own readers recorded by when: the *caught-up
time* of a record is that of the first heartbeat whose end offsets are behind it, and in the running job the time of
the batch. A time more than a day later cannot be, whatever clock wrote it; neither can a time below zero. Such a time
does not move the clock of a group: the record is reported and applied with another time.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

#: How far clocks of brokers may be ahead of the caught-up time.
TOLERANCE_MS: Final = 24 * 3_600_000
#: A replay knows caught-up times to this precision: of the heartbeats of five minutes it keeps the last.
STEP_MS: Final = 300_000
#: The year 2100: the limit where no caught-up time is known.
LATEST_MS: Final = 4_102_444_800_000
#: The caught-up time of records after the last heartbeat, and of a log without heartbeats.
UNKNOWN_MS: Final = 0
#: Kafka's word for "none", which is no error; also the time of an observation whose own time cannot be.
NO_TIMESTAMP: Final = -1
#: The time of a commit in such an observation, where -1 already means that there is no such commit.
UNDATED_COMMIT_MS: Final = -2
#: A record that is earlier than the record of its group before it by more than this was written by another clock, or
#: by a clock that was set back. The log's order is the truth.
SETBACK_MS: Final = 60_000

Times = npt.NDArray[np.int64]


def limits_ms(caught_up_ms: Times) -> Times:
    """The latest time that can be in each of some records."""
    known = np.minimum(caught_up_ms, LATEST_MS - TOLERANCE_MS) + TOLERANCE_MS
    limits: Times = np.where(caught_up_ms > UNKNOWN_MS, known, LATEST_MS)
    return limits


def limit_ms(caught_up_ms: int) -> int:
    """The same for one record."""
    return min(caught_up_ms + TOLERANCE_MS, LATEST_MS) if caught_up_ms > UNKNOWN_MS else LATEST_MS


def implausible(at_ms: int, caught_up_ms: int) -> str:
    """Why a time beyond the limit, or below zero, cannot be."""
    if at_ms < 0:
        return "is below zero"
    if caught_up_ms <= UNKNOWN_MS:
        return "is after the year 2100"
    # Without that time, which a replay does not know exactly.
    return "is more than a day after the record had been read"


def written_ms(inside_ms: int, record_ms: int) -> int | None:
    """A time inside a record, which is never later than the record's own; None: the record has no such time."""
    return None if inside_ms < 0 else min(inside_ms, record_ms)
