"""``rebalance.slow``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from groupreplay.state.conditions.condition import Condition, Example
from groupreplay.state.conditions.current_rebalance import current, session_timeout_ms
from groupreplay.state.conditions.detection import QUIET, Dependency, Evaluation, GroupDetector, GroupView
from groupreplay.state.display.phrases import Data, milliseconds
from groupreplay.state.display.safe_text import safe_text
from groupreplay.state.events.event import Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceSlow(Condition):
    """A rebalance takes longer than a session timeout and half a minute."""

    NAME = "rebalance.slow"
    DOC = "A rebalance is in progress for longer than a session timeout and a half minute."
    EXAMPLES = (
        Example(
            Evidence.PROBE,
            {"rebalance_id": "era-1-3-100", "state": "PreparingRebalance", "elapsed_ms": 75_000},
        ),
    )
    rebalance_id: str | None
    state: Annotated[str, Meta(description="The group's state when it was reported.")]
    elapsed_ms: int

    @staticmethod
    def firing_text(data: Data) -> str:
        """See ``Condition``."""
        return f"{safe_text(str(data.get('state')))} for {milliseconds(data.get('elapsed_ms'))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceSlowDetector(GroupDetector):
    """In progress for longer than max(``least_ms``, session timeout + ``beyond_session_ms``)."""

    CONDITION = RebalanceSlow
    DEPENDS_ON = frozenset({Dependency.MEMBERS, Dependency.REBALANCE, Dependency.PROBES, Dependency.TIME})
    threshold_ms: int | None = None
    least_ms: int = 60_000
    beyond_session_ms: int = 30_000

    def limit_ms(self, view: GroupView) -> int:
        """The threshold for this group."""
        if self.threshold_ms is not None:
            return self.threshold_ms
        return max(self.least_ms, session_timeout_ms(view) + self.beyond_session_ms)

    def evaluate(self, view: GroupView) -> Evaluation:
        """See ``GroupDetector``."""
        now = current(view)
        if now is None:
            return QUIET
        limit_ms = self.limit_ms(view)
        if view.now_ms < now.since_ms + limit_ms:
            return Evaluation(next_ms=now.since_ms + limit_ms)
        found = self.detection(
            now.since_ms,
            limit_ms,
            since=now.since,
            evidence=now.evidence,
            rebalance_id=now.rebalance_id,
            state=now.state,
            elapsed_ms=view.now_ms - now.since_ms,
        )
        return Evaluation([found])
