"""How many groups are set aside because the job failed on them, from the counts in its heartbeats."""

from __future__ import annotations

import msgspec


class Quarantines(msgspec.Struct, frozen=True, array_like=True):
    """``counted``: groups that the run ``run_id`` set aside; ``earlier``: by runs before it, not tried again."""

    run_id: str = ""
    release: str = ""
    earlier: int = 0
    counted: int = 0
    since_ms: int | None = None


def add_quarantined(
    former: Quarantines, run_id: str, release: str, retries: bool, counted: int, at_ms: int
) -> Quarantines:
    """The counts after a heartbeat. Every run counts from 0; another release tries all groups again."""
    earlier = former.earlier
    if run_id != former.run_id:
        tried_again = retries or release != former.release
        earlier = 0 if tried_again else former.earlier + former.counted
    since_ms = (former.since_ms or at_ms) if earlier + counted > 0 else None
    return Quarantines(run_id, release, earlier, counted, since_ms)
