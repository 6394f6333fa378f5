"""``member.idle``."""

from __future__ import annotations

from dataclasses import dataclass

from groupreplay.state import phrases
from groupreplay.state.conditions.condition import EXAMPLE_MEMBER, Example, MemberCondition
from groupreplay.state.conditions.detection import Dependency, Evaluation, GroupDetector, GroupView
from groupreplay.state.conditions.windows import MINUTE_MS, member_fields, slots
from groupreplay.state.events.event import Evidence, Severity
from groupreplay.state.phrases import Data


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberIdle(MemberCondition):
    """A member has had no partition for several rebalances."""

    NAME = "member.idle"
    DOC = "A member got no partition in several completed rebalances, for at least a quarter of an hour."
    SEVERITY = Severity.INFO
    SHORT = "with an idle member"
    MEANING = "a member had no partition for several rebalances"
    EXAMPLES = (
        Example(
            Evidence.LOG,
            {
                **EXAMPLE_MEMBER,
                "rounds": 3,
            },
        ),
    )
    rounds: int

    @staticmethod
    def firing_text(data: Data) -> str:
        """See ``Condition``."""
        return (
            f"{phrases.member(data)}, no partition in {phrases.counted(data.get('rounds', 0), 'rebalance')}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberIdleDetector(GroupDetector):
    """A member got no partition in ``rounds`` completed rebalances, and for ``least_ms``.

    Workers of Kafka Connect have tasks instead of partitions: they are never idle, and neither is a member whose
    assignment cannot be read.
    """

    CONDITION = MemberIdle
    DEPENDS_ON = frozenset({Dependency.MEMBERS, Dependency.REBALANCE})
    rounds: int = 3
    least_ms: int = 15 * MINUTE_MS

    def evaluate(self, view: GroupView) -> Evaluation:
        """See ``GroupDetector``."""
        detections, later = [], []
        for name, slot in slots(view):
            if slot.idle_rounds < self.rounds:
                continue
            due_ms = slot.idle_since_ms + self.least_ms
            if due_ms > view.now_ms:
                later.append(due_ms)
                continue
            detections.append(
                self.detection(
                    slot.idle_since_ms,
                    self.least_ms,
                    subject=name,
                    **member_fields(slot),
                    rounds=slot.idle_rounds,
                )
            )
        return Evaluation(detections, min(later, default=None))
