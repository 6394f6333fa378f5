"""``offsets.expiring``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

import numpy as np
from msgspec import Meta

from groupreplay.state.conditions.condition import Condition, Example
from groupreplay.state.conditions.detection import (
    QUIET,
    Dependency,
    Detection,
    Evaluation,
    GroupDetector,
    GroupView,
)
from groupreplay.state.display import phrases
from groupreplay.state.display.phrases import Data
from groupreplay.state.events.event import Evidence, Partitions, Severity
from groupreplay.state.replay import retention
from groupreplay.state.replay.group_activity import is_significant
from groupreplay.state.snapshot.partitions import by_topic

_DAY_MS: Final = 24 * 3_600_000
#: The retention may be made shorter meanwhile: it is evaluated this often within one retention.
_EVALUATIONS: Final = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsExpiring(Condition):
    """Committed offsets will be removed soon, because their retention ends."""

    NAME = "offsets.expiring"
    DOC = "Committed offsets will reach the end of their retention soon: the group would lose its position."
    EXAMPLES = (
        Example(
            Evidence.LOG,
            {
                "partitions": {"orders": "0-3"},
                "partition_count": 4,
                "deadline_ms": 90_000_000,
                "remaining_ms": 86_000_000,
                "matters": True,
            },
        ),
    )
    partitions: Annotated[Partitions, Meta(description="Partitions concerned, by topic.")]
    partition_count: int
    deadline_ms: Annotated[int, Meta(description="When the first of them may be removed.")]
    remaining_ms: int
    matters: Annotated[bool, Meta(description="Whether the group matters by rules or by its history.")]

    @staticmethod
    def firing_text(data: Data) -> str:
        """See ``Condition``."""
        count = phrases.counted(data.get("partition_count", 0), "partition")
        remaining, deadline = phrases.milliseconds(data.get("remaining_ms")), data.get("deadline_ms")
        # The text is read later, too: pages show it as long as the condition holds.
        on = (
            f" ({phrases.timestamp(deadline)[:16].replace('T', ' ')} UTC)"
            if isinstance(deadline, int)
            else ""
        )
        return f"offsets of {count} in {remaining}{on}: {phrases.partitions(data.get('partitions'))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsExpiringDetector(GroupDetector):
    """Less than max(``of_retention`` of the retention, ``least_ms`` where it is ``long_ms`` or more) is left."""

    CONDITION = OffsetsExpiring
    DEPENDS_ON = frozenset(
        {
            Dependency.MEMBERS,
            Dependency.REBALANCE,
            Dependency.COMMITS,
            Dependency.OFFSETS,
            Dependency.TIME,
        }
    )
    threshold_ms: int | None = None
    of_retention: float = 0.1
    least_ms: int = _DAY_MS
    long_ms: int = 3 * _DAY_MS

    def limit_ms(self, retention_ms: int) -> int:
        """How long before the deadline it is reported."""
        if self.threshold_ms is not None:
            return self.threshold_ms
        return max(
            int(self.of_retention * retention_ms), self.least_ms if retention_ms >= self.long_ms else 0
        )

    def evaluate(self, view: GroupView) -> Evaluation:
        """See ``GroupDetector``."""
        retention_ms = view.context.assumed_retention_ms
        limit_ms = self.limit_ms(retention_ms)
        if not len(view.offsets):
            return QUIET
        first_later = retention.first_deadline(view.group, view.offsets, retention_ms)
        found: tuple[Detection, ...] = ()
        if first_later is not None and first_later <= view.now_ms + limit_ms:
            due = retention.deadlines(view.group, view.offsets, retention_ms)
            soon = due <= view.now_ms + limit_ms
            first_later, found = retention.first(due[~soon]), (self._expiring(view, due, soon, limit_ms),)
        if first_later is None:
            return Evaluation(found)
        # Commits move the deadline without an evaluation; one that comes too early costs little.
        again_ms = view.now_ms + max(_DAY_MS, retention_ms // _EVALUATIONS)
        return Evaluation(found, min(first_later - limit_ms, again_ms))

    def _expiring(
        self, view: GroupView, due: retention.Times, soon: np.ndarray[Any, np.dtype[np.bool_]], limit_ms: int
    ) -> Detection:
        first = int(due[soon].min())
        rules = view.context.policy.of(view.group_id)
        missed = is_significant(view.snapshot, rules, view.now_ms)
        return self.detection(
            # An offset whose retention began late had no deadline before.
            max(first - limit_ms, view.group.record_timestamp_ms or first - limit_ms),
            limit_ms,
            severity=Severity.INFO if rules.matters is False else Severity.WARN,
            evidence=view.context.retention_evidence,
            # More partitions may come near their deadline: reported again, at most once for each day of deadlines.
            dedup_key=(str(int(due[soon].max()) // _DAY_MS),),
            partitions=by_topic(view.offsets.names(np.flatnonzero(soon))),
            partition_count=int(soon.sum()),
            deadline_ms=first,
            remaining_ms=max(0, first - view.now_ms),
            matters=missed,
        )
