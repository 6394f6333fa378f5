"""``member.flapping``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from groupreplay.state import phrases
from groupreplay.state.conditions import windows
from groupreplay.state.conditions.condition import EXAMPLE_MEMBER, Alert, Example, MemberCondition
from groupreplay.state.conditions.detection import Dependency, Evaluation, GroupDetector, GroupView
from groupreplay.state.events.event import Evidence
from groupreplay.state.phrases import Data
from groupreplay.state.snapshot.members import Slot


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberFlapping(MemberCondition):
    """A member comes back under a new id again and again."""

    NAME = "member.flapping"
    DOC = "One slot returned under a new member id several times in a quarter of an hour."
    SHORT = "with a flapping member"
    GROUPS_DID = "had a member that came back again and again"
    MEANING = "a member came back under a new id again and again"
    ALERTS = (
        Alert(
            fires="one member leaves and returns again and again",
            summary="A member of {group} leaves and returns again and again",
            description=(
                "One member of group {group} of cluster {cluster} repeatedly returns under a new member id: its "
                "process restarts, or its client loses its session. Look at the restarts of the process in `who`."
            ),
        ),
    )
    EXAMPLES = (
        Example(
            Evidence.LOG,
            {
                **EXAMPLE_MEMBER,
                "returned_ms": (200_000, 300_000, 400_000),
            },
        ),
    )
    returned_ms: tuple[int, ...]

    @staticmethod
    def firing_text(data: Data) -> str:
        """See ``Condition``."""
        times = phrases.counted(len(data.get("returned_ms") or ()), "time")
        return f"{phrases.member(data)}, came back {times} under a new id"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberFlappingDetector(GroupDetector):
    """A slot returned under a new member id ``times`` times in ``window_ms``.

    The tasks of Connect's sinks do not count: the workers move them at each of their own rebalances. A worker that
    flaps is seen in the group of the workers.
    """

    CONDITION = MemberFlapping
    DEPENDS_ON = frozenset({Dependency.MEMBERS})
    times: int = 3
    window_ms: int = 15 * windows.MINUTE_MS

    def __post_init__(self) -> None:
        windows.check_window(self.name, self.window_ms, self.times)

    def evaluate(self, view: GroupView) -> Evaluation:
        """See ``GroupDetector``."""

        def flapping(slot: Slot) -> tuple[windows.Recurrence, dict[str, Any]] | None:
            often = windows.recurrence(slot.returned_ms, self.window_ms, self.times, view.now_ms)
            if often is None or windows.is_connect_task(slot.client_id):
                return None
            return often, {**windows.member_fields(slot), "returned_ms": often.times_ms}

        return windows.evaluate_slots(
            self, view, self.window_ms, lambda slot: slot.returned_ms, self.times, flapping
        )
