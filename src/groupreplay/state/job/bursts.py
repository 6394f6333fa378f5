"""How many records could not be read lately: the job counts them, its heartbeats carry the count."""

from __future__ import annotations

import msgspec


class Burst(msgspec.Struct, frozen=True, array_like=True):
    """What a run has counted so far (``seen``), and when the count rose: (time, by how many).

    ``since_ms`` is when they became too many; None while they are not.
    """

    run_id: str = ""
    seen: int = 0
    marks: tuple[tuple[int, int], ...] = ()
    since_ms: int | None = None


def count_burst(burst: Burst, run_id: str, total: int, at_ms: int, window_ms: int, limit: int) -> Burst:
    """The burst after a heartbeat with the count of its run; every run counts from 0."""
    new = max(0, total - burst.seen) if run_id == burst.run_id else total
    marks = (*burst.marks, (at_ms, new)) if new else burst.marks
    # Without those of a clock that was ahead: they would never be old.
    marks = tuple(mark for mark in marks if at_ms - window_ms < mark[0] <= at_ms + window_ms)
    many = sum(count for _, count in marks) >= limit
    since_ms = (at_ms if burst.since_ms is None else burst.since_ms) if many else None
    return Burst(run_id, total, marks, since_ms)
