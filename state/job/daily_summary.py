"""What the clean-up took from groups that nobody misses: added up for the whole job, told once a day.

Each group is a state of its own, so nobody in the query sees all of them. The job counts what it has written,
its heartbeats carry the count, and here it becomes a day's sum. Must not know groups or who counts.
"""

from __future__ import annotations

from typing import Final

import msgspec

from groupreplay.state.events.offset_events import OffsetsSummary

_DAY_MS: Final = 24 * 3_600_000


class Tally(msgspec.Struct, frozen=True, array_like=True):
    """The sum of a UTC day (its number since 1970); ``seen`` is what the run of the job had counted so far."""

    run_id: str = ""
    seen: int = 0
    day: int = -1
    count: int = 0


def taken(tally: Tally, run_id: str, total: int, at_ms: int) -> tuple[Tally, OffsetsSummary | None]:
    """The tally after a heartbeat with what its run has counted, and the summary of the day that is over.

    Every run counts from 0. A day without any has no summary.
    """
    new = total - tally.seen if run_id == tally.run_id else total
    count, day = tally.count + max(0, new), at_ms // _DAY_MS
    if tally.day in (-1, day) or not count:
        return Tally(run_id, total, day, count), None
    until_ms = (tally.day + 1) * _DAY_MS
    summary = OffsetsSummary(since_ms=until_ms - _DAY_MS, until_ms=until_ms, expired=count)
    return Tally(run_id, total, day, 0), summary
