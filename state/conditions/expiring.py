"""Warns before the broker removes committed offsets.

Knows how long before and for whom it is a warning; must not know when the broker removes what (retention).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from groupreplay.state.conditions.conditions import OffsetsExpiring
from groupreplay.state.conditions.tracker import Detection, Evaluation, GroupView
from groupreplay.state.events.event import Severity
from groupreplay.state.replay import retention
from groupreplay.state.replay.group_activity import is_significant
from groupreplay.state.snapshot.partitions import by_topic

_DAY_MS: Final = 24 * 3_600_000
#: The retention may be made shorter meanwhile: a group whose offsets expire looks again this often.
_LOOKS: Final = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsExpiringDetector:
    """Less than max(``of_retention`` of the retention, ``least_ms`` where it is ``long_ms`` or more) is left."""

    NAME: ClassVar[str] = OffsetsExpiring.NAME
    ON_COMMITS: ClassVar[bool] = True
    threshold_ms: int | None = None
    of_retention: float = 0.1
    least_ms: int = _DAY_MS
    long_ms: int = 3 * _DAY_MS

    def limit_ms(self, retention_ms: int) -> int:
        """How long before the deadline it is said."""
        if self.threshold_ms is not None:
            return self.threshold_ms
        return max(
            int(self.of_retention * retention_ms), self.least_ms if retention_ms >= self.long_ms else 0
        )

    def evaluate(self, view: GroupView) -> Evaluation:
        """See ``alarms.Detector``."""
        retention_ms = view.context.assumed_retention_ms
        limit_ms = self.limit_ms(retention_ms)
        if not len(view.offsets):
            return Evaluation()
        first_later = retention.first_deadline(view.group, view.offsets, retention_ms)
        raised: tuple[Detection, ...] = ()
        if first_later is not None and first_later <= view.now_ms + limit_ms:
            due = retention.deadlines(view.group, view.offsets, retention_ms)
            soon = due <= view.now_ms + limit_ms
            first_later, raised = retention.first(due[~soon]), (self._raised(view, due, soon, limit_ms),)
        if first_later is None:
            return Evaluation(raised)
        # Commits move the deadline without a look; a look that comes too early costs little.
        again_ms = view.now_ms + max(_DAY_MS, retention_ms // _LOOKS)
        return Evaluation(raised, min(first_later - limit_ms, again_ms))

    def _raised(
        self, view: GroupView, due: retention.Times, soon: np.ndarray[Any, np.dtype[np.bool_]], limit_ms: int
    ) -> Detection:
        first = int(due[soon].min())
        partitions = by_topic(view.offsets.names(np.flatnonzero(soon)))
        missed = is_significant(view.snapshot, view.context.policy.of(view.group_id), view.now_ms)
        return Detection(
            kind=OffsetsExpiring,
            # An offset that was let go of late had no deadline before.
            since_ms=max(first - limit_ms, view.group.record_timestamp_ms or first - limit_ms),
            threshold_ms=limit_ms,
            details={
                "partitions": partitions,
                "partition_count": int(soon.sum()),
                "deadline_ms": first,
                "remaining_ms": max(0, first - view.now_ms),
                "matters": missed,
            },
            severity=Severity.WARN if missed else Severity.INFO,
            evidence=view.context.retention_evidence,
            # More partitions may come near their end: said again, at most once for each day of deadlines.
            dedup_key=str(int(due[soon].max()) // _DAY_MS),
        )
