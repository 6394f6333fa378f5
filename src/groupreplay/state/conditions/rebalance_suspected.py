"""``rebalance.suspected``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from groupreplay.codecs.kafka_terms import DEFAULT_SESSION_TIMEOUT_MS
from groupreplay.state import phrases
from groupreplay.state.conditions.commit_gaps import commits_expected, usual_gap_ms
from groupreplay.state.conditions.condition import Condition, Example
from groupreplay.state.conditions.detection import (
    QUIET,
    RECORD,
    Dependency,
    Evaluation,
    GroupDetector,
    GroupView,
)
from groupreplay.state.conditions.windows import MINUTE_MS
from groupreplay.state.events.event import Evidence, Severity
from groupreplay.state.phrases import Data
from groupreplay.state.replay.slot_history import timeouts


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceSuspected(Condition):
    """A group has stopped committing, and no prober asks the brokers for the reason."""

    NAME = "rebalance.suspected"
    DOC = "Without the prober: a group with members that used to commit has stopped committing."
    SEVERITY = Severity.INFO
    SHORT = "stopped, reason unknown"
    GROUPS_DID = "stopped committing, in a rebalance it seems"
    MEANING = "the group stopped committing, and no prober asked for the reason"
    IMPLIED_BY = "rebalance.stuck"
    EXAMPLES = (Example(Evidence.INFERRED, {"silent_ms": 400_000, "usual_gap_ms": 5_000}),)
    silent_ms: int
    usual_gap_ms: Annotated[int, Meta(description="95 % of the group's gaps between commits are shorter.")]

    @staticmethod
    def firing_text(data: Data) -> str:
        """See ``Condition``."""
        return phrases.silence(data)


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceSuspectedDetector(GroupDetector):
    """Without a prober: no commit for max(``of_gap`` · usual gap, rebalance and session timeout, ``least_ms``).

    Only for groups that commit whether offsets have changed or not: at least the share ``repeats`` of ``commits`` or
    more commits repeated an offset. Rebalances of KIP-848, share and streams groups are in the log.
    """

    CONDITION = RebalanceSuspected
    ENDED_BY_ANY_COMMIT: ClassVar[bool] = True
    DEPENDS_ON = RECORD | {Dependency.PROBES}
    threshold_ms: int | None = None
    of_gap: int = 5
    least_ms: int = 2 * MINUTE_MS
    commits: int = 5
    repeats: float = 0.05

    def evaluate(self, view: GroupView) -> Evaluation:
        """See ``GroupDetector``."""
        if view.context.probing or view.group.modern is not None or not commits_expected(view):
            return QUIET
        gap_ms = usual_gap_ms(view, self.commits, self.repeats)
        last_ms = max(view.offsets.newest_commit_ms() or 0, view.group.since_ms or 0)
        limit_ms = self._limit_ms(view, gap_ms or 0)
        if view.now_ms <= last_ms + limit_ms:
            return Evaluation(next_ms=last_ms + limit_ms + 1)
        if gap_ms is None:
            return QUIET
        detection = self.detection(
            last_ms,
            limit_ms,
            evidence=Evidence.INFERRED,
            silent_ms=view.now_ms - last_ms,
            usual_gap_ms=gap_ms,
        )
        return Evaluation([detection])

    def _limit_ms(self, view: GroupView, gap_ms: int) -> int:
        if self.threshold_ms is not None:
            return self.threshold_ms
        rebalance_ms, session_ms = timeouts(view.group)
        timeouts_ms = max(rebalance_ms, 0) + (session_ms or DEFAULT_SESSION_TIMEOUT_MS)
        return max(self.of_gap * gap_ms, timeouts_ms, self.least_ms)
