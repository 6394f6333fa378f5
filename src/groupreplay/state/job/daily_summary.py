"""Expired offsets of groups that do not matter, added up for the whole job and reported once a day.

Each group is a state of its own, so no operator of the query sees all of them. The job counts the events that it has
written, its heartbeats carry the count, and this module adds the counts of one day.
"""

from __future__ import annotations

from typing import Final

import msgspec

from groupreplay.state.events.offset_events import OffsetsSummary

_DAY_MS: Final = 24 * 3_600_000


class DayTotal(msgspec.Struct, frozen=True, array_like=True):
    """The sum of a UTC day (its number since 1970); ``seen`` is what the run of the job had counted so far."""

    run_id: str = ""
    seen: int = 0
    day: int = -1
    count: int = 0


def add_count(
    former: DayTotal, run_id: str, total: int, at_ms: int
) -> tuple[DayTotal, OffsetsSummary | None]:
    """The total after a heartbeat with the count of its run, and the summary of a day that has ended.

    Every run counts from 0. A day without expired offsets has no summary.
    """
    new = total - former.seen if run_id == former.run_id else total
    count, day = former.count + max(0, new), at_ms // _DAY_MS
    # A day that is earlier than the former one: that heartbeat came from a clock that was ahead.
    if former.day == -1 or day <= former.day or not count:
        return DayTotal(run_id, total, day, count), None
    until_ms = (former.day + 1) * _DAY_MS
    summary = OffsetsSummary(since_ms=until_ms - _DAY_MS, until_ms=until_ms, expired=count)
    return DayTotal(run_id, total, day, 0), summary
