"""``rebalance.slow``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

from msgspec import Meta

from groupreplay.state import phrases
from groupreplay.state.conditions.blockers import (
    Blocker,
    StuckReason,
    Wait,
    blame,
    culprits,
    current,
    session_timeout_ms,
    waits,
)
from groupreplay.state.conditions.condition import EXAMPLE_MEMBER, Alert, Condition, Example
from groupreplay.state.conditions.detection import QUIET, Dependency, Evaluation, GroupDetector, GroupView
from groupreplay.state.conditions.suspects import Candidates, Suspect, Suspects, SuspectsNote
from groupreplay.state.events.event import Evidence, Severity
from groupreplay.state.phrases import Data, milliseconds, safe_text
from groupreplay.state.snapshot.members import usual_duration_ms

#: For ``EXAMPLES``: what a prober sees of a classic group that waits for a member.
EXAMPLE_NOT_JOINED: Final[dict[str, Any]] = {
    "rebalance_id": "era-1-3-100",
    "state": "PreparingRebalance",
    "reason": "not_joined",
    "blockers": None,
    "suspects": (Suspect(**EXAMPLE_MEMBER, reason="no_commit_since_start", last_commit_ms=99_000),),
    "suspects_note": None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceSlow(Condition):
    """A rebalance takes longer than is usual for the group, or than a session timeout and half a minute."""

    NAME = "rebalance.slow"
    DOC = (
        "A rebalance is in progress for longer than three times what is usual for the group, or than a session timeout "
        "and a half minute. INFO as long as it may only wait for the session of a member that has died, WARN after "
        "that."
    )
    SHORT = "in a slow rebalance"
    GROUPS_DID = "had a slow rebalance"
    MEANING = "a rebalance was slow"
    IMPLIED_BY = "rebalance.stuck"
    ALERTS = (
        Alert(
            fires="a rebalance takes longer than a healthy one of this group",
            summary="Rebalance of {group} takes longer than usual",
            description=(
                "Group {group} of cluster {cluster} is in a rebalance that takes longer than a healthy one, and "
                "may consume little. Look for a deployment in progress, else at the members in `who`."
            ),
        ),
    )
    EXAMPLES = (
        Example(
            Evidence.PROBE,
            {
                **EXAMPLE_NOT_JOINED,
                "usual_ms": 10_000,
                "elapsed_ms": 75_000,
            },
        ),
    )
    rebalance_id: str | None
    state: Annotated[str, Meta(description="The group's state when it was reported.")]
    reason: Annotated[
        StuckReason | None,
        Meta(
            description="What it waits for, for half of the time or longer; null when the log does not show that."
        ),
    ] = None
    blockers: Annotated[
        tuple[Blocker, ...] | None,
        Meta(description="Members that block, proven by the log; null for classic."),
    ] = None
    suspects: Suspects = None
    suspects_note: SuspectsNote = None
    candidates: Candidates = None
    usual_ms: Annotated[
        int | None,
        Meta(
            description="95 % of the group's rebalances took no longer, by their upper bounds; null before there were "
            "enough of them."
        ),
    ] = None
    elapsed_ms: int

    @staticmethod
    def firing_text(data: Data) -> str:
        """See ``Condition``."""
        usual = data.get("usual_ms")
        reason = f", {phrases.spaced(data, 'reason')}" if data.get("reason") else ""
        seldom = "" if usual is None else f", usually {milliseconds(usual)} at most"
        return f"{elapsed_text(data)}{seldom}{reason}{culprits(data)}"

    @staticmethod
    def who(data: Data) -> str:
        """See ``Condition``."""
        return culprits(data).removeprefix(", ") or phrases.subject(data)


def elapsed_text(data: Data) -> str:
    """How long the rebalance has lasted, and the state of the moment, in which the group may be for a second only."""
    return f"{milliseconds(data.get('elapsed_ms'))} so far, in {safe_text(str(data.get('state')))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceSlowDetector(GroupDetector):
    """In progress for longer than max(``least_ms``, session timeout + ``beyond_session_ms``).

    After ``rebalances`` of the group: for longer than ``of_usual`` times their 95th percentile, within that limit and
    ``learned_least_ms``. Then it is INFO up to the session timeout + ``beyond_dead_ms``: a rebalance in which a member
    has died lasts as long. ``threshold_ms`` takes the place of all of this.
    """

    CONDITION = RebalanceSlow
    DEPENDS_ON = frozenset({Dependency.MEMBERS, Dependency.REBALANCE, Dependency.PROBES})
    threshold_ms: int | None = None
    least_ms: int = 60_000
    beyond_session_ms: int = 30_000
    rebalances: int = 20
    of_usual: float = 3.0
    learned_least_ms: int = 30_000
    beyond_dead_ms: int = 15_000

    def fixed_limit_ms(self, view: GroupView) -> int:
        """The threshold for this group, whatever is usual for it."""
        if self.threshold_ms is not None:
            return self.threshold_ms
        return max(self.least_ms, session_timeout_ms(view) + self.beyond_session_ms)

    def limit_ms(self, view: GroupView, usual_ms: int | None) -> int:
        """The threshold for this group; ``usual_ms`` None: not known."""
        fixed_ms = self.fixed_limit_ms(view)
        if self.threshold_ms is not None or usual_ms is None:
            return fixed_ms
        return min(max(int(self.of_usual * usual_ms), self.learned_least_ms), fixed_ms)

    def evaluate(self, view: GroupView) -> Evaluation:
        """See ``GroupDetector``."""
        now = current(view)
        if now is None:
            return QUIET
        usual_ms = usual_duration_ms(view.snapshot.slot_history, self.rebalances)
        limit_ms = self.limit_ms(view, usual_ms)
        if view.now_ms < now.since_ms + limit_ms:
            return Evaluation(next_ms=now.since_ms + limit_ms)
        serious_ms = now.since_ms + limit_ms
        if self.threshold_ms is None:
            serious_ms = max(serious_ms, now.since_ms + session_timeout_ms(view) + self.beyond_dead_ms)
        is_serious = view.now_ms >= serious_ms
        detection = self.detection(
            now.since_ms,
            limit_ms,
            since=now.since,
            severity=Severity.WARN if is_serious else Severity.INFO,
            evidence=now.evidence,
            rebalance_id=now.rebalance_id,
            state=now.state,
            **blame(view, _lasting(view, now.since_ms)),
            usual_ms=usual_ms,
            elapsed_ms=view.now_ms - now.since_ms,
        )
        return Evaluation([detection], None if is_serious else serious_ms)


def _lasting(view: GroupView, since_ms: int) -> list[Wait]:
    """What explains that the rebalance is slow: it waits for that for most of its time, first what has lasted longest.

    In a storm it waits for one thing after another, each for a moment. A member that sends no heartbeat is there until
    its session ends.
    """
    least_ms = {"not_heartbeating": session_timeout_ms(view)}
    half_ms = (view.now_ms - since_ms) // 2
    lasting = [
        wait
        for wait in waits(view)
        if view.now_ms - wait.since_ms >= max(half_ms, least_ms.get(wait.reason, 0))
    ]
    return sorted(lasting, key=lambda wait: wait.since_ms)
