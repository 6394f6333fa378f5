"""Lags as the exporter measures them."""

from __future__ import annotations

from groupreplay.app.exporter.lag_watch import MeasuredLags, MeasuredPartition
from groupreplay.timeline.lag import Lag, Range


def measured_lags(at_ms: int) -> MeasuredLags:
    """Of the group ``calm``: two partitions of known lag, and one of unknown lag."""
    known = [
        MeasuredPartition(
            "orders", number, 100, Lag(records=Range(lag, lag, lag), time_ms=Range(1_000 * lag, 0, None))
        )
        for number, lag in enumerate((7, 30))
    ]
    unknown = MeasuredPartition("orders", 2, 5, Lag(notes=("the ends of the partition were not recorded",)))
    return MeasuredLags(at_ms, at_ms - 1_000, {"calm": [*known, unknown], "without a document": known})
