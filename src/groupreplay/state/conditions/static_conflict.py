"""``static.conflict``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from msgspec import Meta

from groupreplay.state import phrases
from groupreplay.state.conditions.condition import Alert, Condition, Example
from groupreplay.state.conditions.detection import Dependency, Evaluation, GroupDetector, GroupView
from groupreplay.state.conditions.windows import MINUTE_MS, Recurrence, check_window, evaluate_slots
from groupreplay.state.events.event import Evidence, Severity
from groupreplay.state.phrases import Data
from groupreplay.state.snapshot.members import Slot, Takeover


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticConflict(Condition):
    """Two processes use one instance id."""

    NAME = "static.conflict"
    DOC = (
        "An instance id went from one place to another, back, and away again: two processes have it. Once there and "
        "back may be one process that was moved twice."
    )
    SEVERITY = Severity.ERROR
    SHORT = "with an instance id used twice"
    GROUPS_DID = "had two processes with one instance id"
    MEANING = "two processes used one instance id"
    ALERTS = (
        Alert(
            fires="two processes use one `group.instance.id`",
            summary="Two processes of {group} use one group.instance.id",
            description=(
                "Two processes in group {group} of cluster {cluster} fence each other in turn, and both may "
                "process the same records. `who` has the client id and host of both: stop one."
            ),
        ),
    )
    EXAMPLES = (Example(Evidence.LOG, {"instance_id": "pod-7", "places": ("a@/10.0.0.7", "b@/10.0.0.8")}),)
    instance_id: str
    places: Annotated[tuple[str, ...], Meta(description="`client id@host` of the processes, in order.")]

    @staticmethod
    def firing_text(data: Data) -> str:
        """See ``Condition``."""
        return f"{phrases.subject(data)} is used by more than one process: {_places_text(data)}"

    @staticmethod
    def who(data: Data) -> str:
        """See ``Condition``."""
        return f"{phrases.subject(data)}: {_places_text(data)}"


def _places_text(data: Data) -> str:
    return " and ".join(sorted({phrases.at_place(place) for place in data.get("places") or ()}))


#: There, back, and there again: a process whose node is drained may go there and back.
_RETURNS: Final = 2
_TAKEOVERS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticConflictDetector(GroupDetector):
    """An instance id went from one place to another, back, and away again in ``window_ms``."""

    CONDITION = StaticConflict
    DEPENDS_ON = frozenset({Dependency.MEMBERS})
    window_ms: int = 10 * MINUTE_MS

    def __post_init__(self) -> None:
        check_window(self.name, self.window_ms)

    def evaluate(self, view: GroupView) -> Evaluation:
        """See ``GroupDetector``."""

        def conflict(slot: Slot) -> tuple[Recurrence, dict[str, Any]] | None:
            recent = [
                takeover for takeover in slot.takeovers if takeover.at_ms > view.now_ms - self.window_ms
            ]
            returns = list(_returns(recent))
            if len(returns) < _RETURNS:
                return None
            since_ms = sorted(back_ms for _, back_ms in returns)[_RETURNS - 1]
            until_ms = sorted(away_ms for away_ms, _ in returns)[-_RETURNS] + self.window_ms
            details = {"instance_id": slot.instance_id, "places": _places(recent)}
            return Recurrence((), since_ms, until_ms), details

        return evaluate_slots(self, view, self.window_ms, lambda slot: slot.takeovers, _TAKEOVERS, conflict)


def _returns(takeovers: Sequence[Takeover]) -> Iterator[tuple[int, int]]:
    """(when it left, when it came back) for each return to a place that the instance id had left for another one."""
    away_ms: dict[str, int] = {}
    for takeover in takeovers:
        if takeover.old_place != takeover.new_place:
            away_ms[takeover.old_place] = takeover.at_ms
            if takeover.new_place in away_ms:
                yield away_ms[takeover.new_place], takeover.at_ms


def _places(takeovers: Sequence[Takeover]) -> tuple[str, ...]:
    places = [takeovers[0].old_place]
    for takeover in takeovers:
        if takeover.new_place != places[-1]:
            places.append(takeover.new_place)
    return tuple(places)
