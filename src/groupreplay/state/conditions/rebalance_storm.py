"""``rebalance.storm``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from groupreplay.state.conditions.condition import Alert, Condition, Example
from groupreplay.state.conditions.detection import QUIET, Dependency, Evaluation, GroupDetector, GroupView
from groupreplay.state.conditions.windows import MINUTE_MS, check_window
from groupreplay.state.events.event import Evidence, Severity
from groupreplay.state.phrases import Data, counted, milliseconds
from groupreplay.state.replay.slot_history import unsettled
from groupreplay.state.snapshot.members import Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceStorm(Condition):
    """A group has more generations than the members that joined and left explain."""

    NAME = "rebalance.storm"
    DOC = "A group has more generations in ten minutes than the slots that changed can explain."
    SHORT = "in a storm of rebalances"
    GROUPS_DID = "began to rebalance again and again"
    MEANING = "rebalance storm: more generations than joins and leaves explain"
    ALERTS = (
        Alert(
            fires="there are more rebalances than the members that joined and left explain",
            summary="{group} is in a rebalance storm",
            description=(
                "Group {group} of cluster {cluster} rebalances more often than the members that joined and left "
                "explain. Look for a crash loop, an autoscaler or a deployment that restarts everything at once."
            ),
        ),
    )
    EXAMPLES = (Example(Evidence.LOG, {"generations": 14, "slots_changed": 2, "window_ms": 600_000}),)
    generations: int
    slots_changed: int
    window_ms: int

    @staticmethod
    def firing_text(data: Data) -> str:
        """See ``Condition``."""
        generations = counted(data.get("generations", 0), "generation")
        slots = counted(data.get("slots_changed", 0), "slot")
        return f"{generations} in {milliseconds(data.get('window_ms'))}, {slots} changed"


_at_ms: Final = attrgetter("at_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceStormDetector(GroupDetector):
    """More generations in ``window_ms`` than max(``least``, ``per_slot`` · slots that changed + ``beyond``).

    It ends when the window has at most half of ``least``, so that a storm that continues does not end and begin again.
    It is an error when it has lasted for ``windows`` windows and the group does nothing else: more than half of the
    prober's rounds found it rebalancing, or no committed offset has moved.
    """

    CONDITION = RebalanceStorm
    DEPENDS_ON = frozenset({Dependency.MEMBERS, Dependency.REBALANCE})
    window_ms: int = 10 * MINUTE_MS
    least: int = 10
    per_slot: int = 4
    beyond: int = 4
    windows: int = 3

    def __post_init__(self) -> None:
        check_window(self.name, self.window_ms * self.windows)

    def evaluate(self, view: GroupView) -> Evaluation:
        """See ``GroupDetector``."""
        marks = view.snapshot.slot_history.marks if view.snapshot.slot_history else []
        from_ms = view.now_ms - self.window_ms
        recent = [mark for mark in marks if mark.at_ms > from_ms]
        generations = sum([mark.generations for mark in recent])
        active = view.active(RebalanceStorm) is not None
        if generations <= (self.least // 2 if active else self.least):
            return QUIET
        slots = len({slot for mark in recent for slot in mark.slots})
        # A storm begins with a generation, not because slots that explain the others have left the window.
        if not active and not (generations > self._limit(slots) and self._too_many(marks, marks[-1].at_ms)):
            return QUIET
        detection = self.detection(
            # The start of a storm that is active stays as it was reported.
            view.now_ms if active else self._since_ms(marks, view.now_ms),
            self.window_ms,
            severity=Severity.ERROR if self._no_progress(marks, view) else Severity.WARN,
            generations=generations,
            slots_changed=slots,
            window_ms=self.window_ms,
        )
        return Evaluation([detection], self._ends_ms(recent, generations))

    def _ends_ms(self, recent: Sequence[Mark], generations: int) -> int | None:
        """When the window has so few of these generations left that the storm is over, if none follows."""
        ends_ms = None
        for mark in sorted(recent, key=_at_ms):
            if generations <= self.least // 2:
                break
            ends_ms = mark.at_ms + self.window_ms
            generations -= mark.generations
        return ends_ms

    def _limit(self, slots: int) -> int:
        return max(self.least, self.per_slot * slots + self.beyond)

    def _too_many(self, marks: Sequence[Mark], at_ms: int) -> bool:
        """Whether there are too many generations in the window that ends at a moment."""
        from_ms = at_ms - self.window_ms
        inside = [mark for mark in marks if from_ms < mark.at_ms <= at_ms]
        generations = sum([mark.generations for mark in inside])
        if generations <= self.least:
            return False
        return generations > self._limit(len({slot for mark in inside for slot in mark.slots}))

    def _since_ms(self, marks: Sequence[Mark], now_ms: int) -> int:
        """When the storm began: at the first of the latest generations that were too many."""
        since_ms = now_ms
        for mark in reversed(marks):
            if not self._too_many(marks, mark.at_ms):
                break
            since_ms = mark.at_ms
        return since_ms

    def _no_progress(self, marks: Sequence[Mark], view: GroupView) -> bool:
        # Between two generations, commits may have been read already that were made after this moment.
        if marks[-1].at_ms != view.now_ms:
            return False
        span_ms = self.windows * self.window_ms
        # An interval of 0 is what anybody may write to the probes topic.
        rounds = span_ms // max(1, view.snapshot.probes.interval_ms) if view.context.probing else 0
        habits = view.snapshot.slot_history
        is_probed = rounds and habits and 2 * unsettled(habits, view.now_ms - span_ms) > rounds
        moves = view.offsets.moves()
        if not is_probed and (moves is None or moves[0] > view.now_ms - span_ms):
            return False
        # Last, because it takes longest.
        windows = range(self.windows)
        return all(self._too_many(marks, view.now_ms - number * self.window_ms) for number in windows)
