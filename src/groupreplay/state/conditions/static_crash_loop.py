"""``static.crash_loop``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from groupreplay.state import phrases
from groupreplay.state.conditions import windows
from groupreplay.state.conditions.condition import Alert, Condition, Example
from groupreplay.state.conditions.detection import Dependency, Evaluation, GroupDetector, GroupView
from groupreplay.state.events.event import Evidence
from groupreplay.state.phrases import Data
from groupreplay.state.snapshot.members import Slot


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticCrashLoop(Condition):
    """A static member starts again and again."""

    NAME = "static.crash_loop"
    DOC = (
        "An instance id was taken over several times in ten minutes, always at one place. The broker keeps the place "
        "of the first process of a classic group's static member, so two processes that fence each other look "
        "the same."
    )
    SHORT = "in a crash loop"
    GROUPS_DID = "had a member that started again and again"
    MEANING = "a static member started again and again"
    ALERTS = (
        Alert(
            fires="a static member restarts again and again",
            summary="A static member of {group} restarts again and again",
            description=(
                "A static member of group {group} of cluster {cluster} restarts repeatedly, or two processes use "
                "its group.instance.id. The group does not rebalance, and most of the time nobody consumes the "
                "member's partitions."
            ),
        ),
    )
    EXAMPLES = (
        Example(
            Evidence.LOG,
            {"instance_id": "pod-7", "place": "a@/10.0.0.7", "restarted_ms": (200_000, 300_000, 400_000)},
        ),
    )
    instance_id: str
    place: str
    restarted_ms: tuple[int, ...]

    @staticmethod
    def firing_text(data: Data) -> str:
        """See ``Condition``."""
        times = phrases.counted(len(data.get("restarted_ms") or ()), "time")
        return f"{phrases.subject(data)} of {phrases.at_place(data.get('place'))}, restarted {times}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticCrashLoopDetector(GroupDetector):
    """A static member came back at its own place ``times`` times in ``window_ms``."""

    CONDITION = StaticCrashLoop
    DEPENDS_ON = frozenset({Dependency.MEMBERS})
    times: int = 3
    window_ms: int = 10 * windows.MINUTE_MS

    def __post_init__(self) -> None:
        windows.check_window(self.name, self.window_ms, self.times)

    def evaluate(self, view: GroupView) -> Evaluation:
        """See ``GroupDetector``."""

        def crash_loop(slot: Slot) -> tuple[windows.Recurrence, dict[str, Any]] | None:
            at_home = [takeover for takeover in slot.takeovers if takeover.old_place == takeover.new_place]
            often = windows.recurrence(
                [takeover.at_ms for takeover in at_home], self.window_ms, self.times, view.now_ms
            )
            if often is None:
                return None
            return often, {
                "instance_id": slot.instance_id,
                "place": at_home[-1].new_place,
                "restarted_ms": often.times_ms,
            }

        return windows.evaluate_slots(
            self, view, self.window_ms, lambda slot: slot.takeovers, self.times, crash_loop
        )
