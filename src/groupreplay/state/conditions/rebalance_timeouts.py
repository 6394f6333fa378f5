"""``rebalance.timeouts``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Meta

from groupreplay.state import phrases
from groupreplay.state.conditions import windows
from groupreplay.state.conditions.condition import EXAMPLE_MEMBER, Alert, Example, MemberCondition
from groupreplay.state.conditions.detection import Dependency, Evaluation, GroupDetector, GroupView
from groupreplay.state.events.event import Evidence, Severity
from groupreplay.state.phrases import Data
from groupreplay.state.snapshot.members import Slot


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceTimeouts(MemberCondition):
    """A member exceeds its rebalance timeout again and again: the broker removes it, or its client gives up."""

    NAME = "rebalance.timeouts"
    DOC = "One slot was gone after about its rebalance timeout several times in an hour."
    SEVERITY = Severity.ERROR
    SHORT = "with rejoin timeouts"
    GROUPS_DID = "lost a member again and again"
    MEANING = "a member exceeded its rebalance timeout again and again"
    ALERTS = (
        Alert(
            fires="one member repeatedly exceeds its rebalance timeout",
            summary="A member of {group} repeatedly exceeds its rebalance timeout",
            description=(
                "One member of group {group} of cluster {cluster} takes longer to process the records of one poll "
                "than its max.poll.interval.ms. Lower max.poll.records or raise the interval."
            ),
        ),
    )
    EXAMPLES = (
        Example(
            Evidence.LOG,
            {
                **EXAMPLE_MEMBER,
                "dropped_ms": (200_000, 500_000, 800_000),
                "rebalance_timeout_ms": 300_000,
            },
        ),
    )
    dropped_ms: Annotated[tuple[int, ...], Meta(description="When it was gone.")]
    rebalance_timeout_ms: int

    @staticmethod
    def firing_text(data: Data) -> str:
        """See ``Condition``."""
        times = phrases.counted(len(data.get("dropped_ms") or ()), "time")
        timeout = phrases.milliseconds(data.get("rebalance_timeout_ms"))
        return f"{phrases.member(data)}, gone {times} after about its rebalance timeout of {timeout}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceTimeoutsDetector(GroupDetector):
    """A slot was gone after about the rebalance timeout ``times`` times in ``window_ms``.

    Where the rebalance timeout is short, this is the only sign of a member that is too slow: no rebalance lasts long
    enough to be stuck. With a prober that asks at least three times within the timeout, only what the prober has seen
    counts; without one, a member that leaves may have been silent for just as long.
    """

    CONDITION = RebalanceTimeouts
    DEPENDS_ON = frozenset({Dependency.MEMBERS})
    times: int = 3
    window_ms: int = windows.HOUR_MS

    def __post_init__(self) -> None:
        windows.check_window(self.name, self.window_ms, self.times)

    def evaluate(self, view: GroupView) -> Evaluation:
        """See ``GroupDetector``."""

        def dropped(slot: Slot) -> tuple[windows.Recurrence, dict[str, Any]] | None:
            often = windows.recurrence(slot.dropped_ms, self.window_ms, self.times, view.now_ms)
            if often is None:
                return None
            return often, {
                **windows.member_fields(slot),
                "dropped_ms": often.times_ms,
                "rebalance_timeout_ms": slot.rebalance_timeout_ms,
            }

        return windows.evaluate_slots(
            self, view, self.window_ms, lambda slot: slot.dropped_ms, self.times, dropped
        )
