"""``offsets.expiring``."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import numpy as np
from msgspec import Meta

from groupreplay.state import phrases
from groupreplay.state.conditions.condition import Alert, Condition, Example
from groupreplay.state.conditions.detection import (
    QUIET,
    RECORD,
    Detection,
    Evaluation,
    GroupDetector,
    GroupView,
)
from groupreplay.state.events.event import Assumed, AssumedRelease, Evidence, Partitions, Severity
from groupreplay.state.events.offset_events import ExpiryRule, RuleBase, Unclear
from groupreplay.state.phrases import Data
from groupreplay.state.replay import retention
from groupreplay.state.replay.group_summary import is_significant, significant_ms
from groupreplay.state.snapshot.partitions import by_topic

_DAY_MS: Final = 24 * 3_600_000
#: The retention may be made shorter meanwhile: it is evaluated this often within one retention.
_EVALUATIONS: Final = 14
#: After so many clean-ups an offset that is still there is not one that they remove.
_CLEAN_UPS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsExpiring(Condition):
    """Committed offsets will be removed soon, because their retention ends."""

    NAME = "offsets.expiring"
    DOC = "Committed offsets will reach the end of their retention soon: the group would lose its position."
    SHORT = "with offsets near expiry"
    MEANING = "committed offsets were near the end of their retention"
    ALERTS = (
        Alert(
            fires="committed offsets of a group that matters expire soon",
            summary="Committed offsets of {group} expire soon",
            description=(
                "The broker will soon remove committed offsets of group {group} of cluster {cluster}. Let a "
                "member join and leave (classic group) or commit the same offsets again (group.protocol=consumer, "
                "or a group that never has members); the runbook has both commands."
            ),
        ),
    )
    EXAMPLES = (
        Example(
            Evidence.LOG,
            {
                "partitions": {"orders": "0-3"},
                "partition_count": 4,
                "deadline_ms": 90_000_000,
                "remaining_ms": 86_000_000,
                "matters": True,
                "rule": "classic, Empty",
                "base": "emptied",
            },
        ),
        Example(
            Evidence.INFERRED,
            {
                "partitions": {"orders": "0-3"},
                "partition_count": 4,
                "deadline_ms": 90_000_000,
                "remaining_ms": 86_000_000,
                "matters": False,
                "rule": "classic consumers, Stable",
                "base": "commit",
                "unclear": True,
                "assumed": {"retention_ms": 604_800_000},
                "assumed_release": "3.2 or later",
            },
        ),
    )
    partitions: Annotated[Partitions, Meta(description="Partitions concerned, by topic.")]
    partition_count: int
    deadline_ms: Annotated[int, Meta(description="When the first of them may be removed.")]
    remaining_ms: int
    matters: Annotated[bool, Meta(description="Whether the group matters by rules or by its history.")]
    rule: ExpiryRule = ""
    base: RuleBase = None
    unclear: Unclear = False
    assumed: Assumed = field(default_factory=dict)
    assumed_release: AssumedRelease = None

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
        places = phrases.partitions(data.get("partitions"))
        return f"offsets of {count} in {remaining}{on}: {places}{phrases.expiry(data)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsExpiringDetector(GroupDetector):
    """Less than max(``of_retention`` of the retention, ``least_ms`` where it is ``long_ms`` or more) is left."""

    CONDITION = OffsetsExpiring
    DEPENDS_ON = RECORD
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
        first_later = retention.first_deadline(view.group, view.offsets, view.context)
        detections: list[Detection] = []
        due = None
        if first_later is not None and first_later <= view.now_ms + limit_ms:
            due = retention.deadlines(view.group, view.offsets, view.context)
            soon = due <= view.now_ms + limit_ms
            first_later = retention.first(due[~soon])
            detections.append(self._expiring(view, due, soon, limit_ms))
        times = [] if first_later is None else [first_later - limit_ms]
        if detections:
            matters_ms = significant_ms(view.snapshot, view.context.policy.of(view.group_id))
            times += [] if matters_ms is None or matters_ms <= view.now_ms else [matters_ms]
        if retention.is_unclear(view.group, view.context.broker_release):
            unclear, next_ms = self._unclear(view, due, limit_ms)
            detections += unclear
            times += [] if next_ms is None else [next_ms]
        if not times and not detections:
            return QUIET
        # Commits move the deadline without an evaluation; one that comes too early costs little. What holds ends
        # when the retention was made longer.
        pause_ms = _pause_ms(view.group_id, max(_DAY_MS, retention_ms // _EVALUATIONS))
        return Evaluation(tuple(detections), min(times, default=None), pause_ms)

    def _unclear(
        self, view: GroupView, sure: retention.Times | None, limit_ms: int
    ) -> tuple[list[Detection], int | None]:
        """What may expire although it is not sure, and when to look again.

        An offset that two clean-ups have left in its place is protected.
        """
        possible = retention.possible_deadlines(view.group, view.offsets, view.context)
        if sure is None:
            sure = retention.deadlines(view.group, view.offsets, view.context)
        over_ms = _CLEAN_UPS * view.context.assumed_check_interval_ms
        rebalance = view.group.in_progress
        since_ms = max(view.group.record_timestamp_ms or 0, rebalance.since_ms if rebalance else 0)
        ends = np.maximum(np.minimum(possible, retention.NEVER - over_ms), since_ms) + over_ms
        is_open = (possible < sure) & (ends > view.now_ms)
        soon = is_open & (possible <= view.now_ms + limit_ms)
        later = retention.first(possible[is_open & ~soon])
        times = [*ends[soon].tolist(), *([] if later is None else [later - limit_ms])]
        detections = [self._expiring(view, possible, soon, limit_ms, unclear=True)] if soon.any() else []
        return detections, min(times, default=None)

    def _expiring(
        self,
        view: GroupView,
        due: retention.Times,
        soon: np.ndarray[Any, np.dtype[np.bool_]],
        limit_ms: int,
        *,
        unclear: bool = False,
    ) -> Detection:
        places = np.flatnonzero(soon)
        first = int(due[places].min())
        missed = is_significant(view.snapshot, view.context.policy.of(view.group_id), view.now_ms)
        basis = retention.grounds(view.group, view.offsets, places, due[places], view.context)
        earlier = view.group.classic.earlier
        doubtful = unclear or (earlier is not None and earlier.unknown)
        return self.detection(
            # An offset whose retention began late had no deadline before.
            max(first - limit_ms, view.group.record_timestamp_ms or first - limit_ms),
            limit_ms,
            subject="unclear" if unclear else "",
            severity=Severity.WARN if missed and not unclear else Severity.INFO,
            evidence=Evidence.INFERRED if doubtful else basis.evidence,
            # More partitions may come near their deadline: reported again, at most once for each day of deadlines.
            dedup_key=(str(int(due[places].max()) // _DAY_MS),),
            partitions=by_topic(view.offsets.names(places)),
            partition_count=len(places),
            deadline_ms=first,
            remaining_ms=max(0, first - view.now_ms),
            matters=missed,
            rule=basis.rule,
            base=basis.base,
            unclear=unclear,
            assumed=basis.assumed,
            assumed_release=basis.assumed_release,
        )


def _pause_ms(group_id: str, most_ms: int) -> int:
    """Between half of ``most_ms`` and all of it, by the group's id.

    A first start evaluates all groups within minutes. With one pause for all they would wake together every day.
    """
    half_ms = most_ms // 2
    return half_ms + (half_ms * zlib.crc32(group_id.encode()) >> 32)
