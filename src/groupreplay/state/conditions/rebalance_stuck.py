"""``rebalance.stuck``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final

from msgspec import Meta

from groupreplay.state import phrases
from groupreplay.state.conditions.blockers import (
    Blocker,
    StuckReason,
    Wait,
    blame,
    culprits,
    current,
    next_step,
    rebalance_timeout_ms,
    session_timeout_ms,
    waits,
)
from groupreplay.state.conditions.condition import EXAMPLE_MEMBER, Alert, Condition, Example
from groupreplay.state.conditions.detection import QUIET, Detection, Evaluation, GroupDetector, GroupView
from groupreplay.state.conditions.rebalance_slow import (
    EXAMPLE_NOT_JOINED,
    RebalanceSlowDetector,
    elapsed_text,
)
from groupreplay.state.conditions.suspects import Candidates, Suspects, SuspectsNote
from groupreplay.state.events.event import Evidence, Severity
from groupreplay.state.phrases import Data
from groupreplay.state.snapshot import modern

#: Its second name in metrics and alerts, while it lasts longer than the protocol allows.
WEDGED: Final = "rebalance.wedged"


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceStuck(Condition):
    """A rebalance does not end; the members that block it, or the members to suspect."""

    NAME = "rebalance.stuck"
    DOC = (
        "A rebalance is in progress for most of the rebalance timeout: the group consumes little or nothing. "
        "`wedged` means that it lasts longer than the protocol allows."
    )
    SEVERITY = Severity.ERROR
    SHORT = "stuck"
    GROUPS_DID = "were stuck in a rebalance"
    MEANING = "stuck in a rebalance"
    STOPS_COMMITS = True
    ALERTS = (
        # It goes on while the rebalance is wedged, and Alertmanager silences it then: if it ended, a notification
        # between its end and the begin of the other one would say "resolved".
        Alert(
            fires="a rebalance does not end",
            summary="Rebalance of {group} is stuck",
            description=(
                "Group {group} of cluster {cluster} is in a rebalance that does not end, and consumes little or "
                "nothing. Take a thread dump of the members in `who`, then restart the first one."
            ),
        ),
        Alert(
            label=WEDGED,
            fires=(
                "a stuck rebalance lasts longer than the protocol allows (`wedged`); Alertmanager then silences "
                "`…Stuck`, which goes on"
            ),
            summary="Rebalance of {group} will not end without action",
            description=(
                "Group {group} of cluster {cluster} has been in a rebalance for longer than the protocol allows. "
                "Waiting does not help: restart the member that blocks it."
            ),
        ),
    )
    EXAMPLES = (
        Example(
            Evidence.LOG,
            {
                "rebalance_id": "era-1-3-100",
                "state": "Reconciling",
                "reason": "not_revoked",
                "blockers": (
                    Blocker(
                        **EXAMPLE_MEMBER,
                        revoking={"orders": "0-3"},
                        since_ms=100_000,
                        fenced_at_ms=400_000,
                        reason="not_revoked",
                    ),
                ),
                "suspects": None,
                "suspects_note": None,
                "wedged": False,
                "elapsed_ms": 180_000,
            },
        ),
        Example(
            Evidence.PROBE,
            {
                **EXAMPLE_NOT_JOINED,
                "wedged": True,
                "elapsed_ms": 180_000,
            },
        ),
    )
    rebalance_id: str | None
    state: str
    reason: StuckReason
    blockers: Annotated[
        tuple[Blocker, ...] | None,
        Meta(description="Members that block, proven by the log; null for classic."),
    ]
    suspects: Suspects
    suspects_note: SuspectsNote
    candidates: Candidates = None
    wedged: bool
    elapsed_ms: int

    @staticmethod
    def firing_text(data: Data) -> str:
        """See ``Condition``."""
        beyond = ", longer than the protocol allows" if data.get("wedged") else ""
        return (
            f"{elapsed_text(data)}, {phrases.spaced(data, 'reason')}{beyond}{culprits(data)}{next_step(data)}"
        )

    @staticmethod
    def named_text(names: str, count: int, *, proven: bool) -> str:
        """See ``Condition``."""
        if not proven:
            return f"it waited for {names} (inferred)"
        return f"{names} did not give up its partitions" if count == 1 else f"blocked by {names}"

    @staticmethod
    def who(data: Data) -> str:
        """See ``Condition``."""
        return culprits(data).removeprefix(", ") or phrases.subject(data)


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceStuckDetector(GroupDetector):
    """In progress for longer than ``of_timeout`` of the rebalance timeout, within bounds.

    The lower bound is that of a slow rebalance plus ``beyond_slow_ms``, the upper one ``most_ms``. A KIP-848, share or
    streams group may be without a target assignment for ``assigning_ms``. After twice the rebalance timeout plus the
    session timeout plus ``wedged_beyond_ms`` the protocol itself would have ended the rebalance.
    """

    CONDITION = RebalanceStuck
    DEPENDS_ON = RebalanceSlowDetector.DEPENDS_ON
    threshold_ms: int | None = None
    of_timeout: float = 0.6
    beyond_slow_ms: int = 30_000
    most_ms: int = 300_000
    assigning_ms: int = 60_000
    wedged_ms: int | None = None
    wedged_beyond_ms: int = 30_000
    slow: RebalanceSlowDetector = field(default_factory=RebalanceSlowDetector)

    def limit_ms(self, view: GroupView, timeout_ms: int) -> int:
        """The threshold for a rebalance timeout."""
        if self.threshold_ms is not None:
            return self.threshold_ms
        least_ms = self.slow.fixed_limit_ms(view) + self.beyond_slow_ms
        return max(least_ms, min(int(self.of_timeout * timeout_ms), self.most_ms))

    def _limit_ms(self, view: GroupView, wait: Wait) -> int:
        if wait.rebalance_timeout_ms is None:
            return self.threshold_ms or self.assigning_ms
        return self.limit_ms(view, wait.rebalance_timeout_ms)

    def evaluate(self, view: GroupView) -> Evaluation:
        """See ``GroupDetector``."""
        by_due_ms = [(wait.since_ms + self._limit_ms(view, wait), wait) for wait in waits(view)]
        by_due_ms.sort(key=lambda pair: pair[0])
        due = [wait for due_ms, wait in by_due_ms if due_ms <= view.now_ms]
        if not due:
            return Evaluation(next_ms=by_due_ms[0][0]) if by_due_ms else QUIET
        later = [due_ms for due_ms, _ in by_due_ms[len(due) :]]
        since_ms = min(wait.since_ms for wait in due)
        wedged_at_ms = since_ms + self._wedged_ms(view)
        wedged = view.now_ms >= wedged_at_ms
        if not wedged:
            later.append(wedged_at_ms)
        return Evaluation([self._stuck(view, due, since_ms, wedged)], min(later, default=None))

    def _stuck(self, view: GroupView, due: Sequence[Wait], since_ms: int, wedged: bool) -> Detection:
        now, is_modern = current(view), view.group.modern is not None
        member_ids = sorted(wait.blocker.member_id for wait in due if wait.blocker is not None)
        return self.detection(
            since_ms,
            self._limit_ms(view, due[0]),
            since=now.since if now and not is_modern else None,
            evidence=now.evidence if now else Evidence.LOG,
            dedup_key=("wedged" if wedged else "", *member_ids),
            # Each reason is reported once: a stuck group may go from joining to syncing and back without end.
            news=(due[0].reason,),
            rebalance_id=now.rebalance_id if now else None,
            state=now.state if now else _state(view),
            **blame(view, due),
            wedged=wedged,
            elapsed_ms=view.now_ms - since_ms,
        )

    def _wedged_ms(self, view: GroupView) -> int:
        if self.wedged_ms is not None:
            return self.wedged_ms
        timeout_ms = max(rebalance_timeout_ms(view), 0)
        return 2 * timeout_ms + session_timeout_ms(view) + self.wedged_beyond_ms


def _state(view: GroupView) -> str:
    group = view.group.modern
    return view.group.phase.value if group is None else modern.state_of(view.group.group_type, group)
