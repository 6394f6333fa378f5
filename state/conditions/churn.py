"""Conditions about members and rounds that come too often: storms, slots that flap, time out or are contested.

All count in windows of time over what ``habits`` remembers, so each ends by itself when its window has moved on.
Must not know records; a number of a rule that reaches further than the memory is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from groupreplay.state.conditions.conditions import (
    MemberFlapping,
    RebalanceStorm,
    RebalanceTimeouts,
    StaticConflict,
    StaticCrashLoop,
)
from groupreplay.state.conditions.tracker import QUIET, Detection, Evaluation, GroupView
from groupreplay.state.events.event import Severity
from groupreplay.state.replay.slot_history import KEPT_MS, MOST_TIMES, unsettled
from groupreplay.state.snapshot.slot_history import Mark, Slot, Takeover

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS
#: Client ids of the tasks of Connect's sinks begin so (``ConnectUtils.clientIdBase`` and ``Worker``).
_CONNECT_TASK: Final = "connector-consumer-"


def check_memory(name: str, window_ms: int, times: int = 1) -> None:
    """Raises ValueError for numbers beyond what is remembered of a group."""
    if not 0 < window_ms <= KEPT_MS:
        raise ValueError(f"{name}: a window of {window_ms} ms; it must be above 0 and at most {KEPT_MS} ms")
    if not 0 < times <= MOST_TIMES:
        raise ValueError(f"{name}: {times} times; it must be at least 1 and at most {MOST_TIMES}")


@dataclass(frozen=True, slots=True)
class _Often:
    """Enough of these times lie in the window that ends now: since when, and until when if no more come."""

    times_ms: tuple[int, ...]
    since_ms: int
    until_ms: int


def _often(times_ms: Sequence[int], window_ms: int, times: int, now_ms: int) -> _Often | None:
    recent = sorted(at_ms for at_ms in times_ms if at_ms > now_ms - window_ms)
    if len(recent) < times:
        return None
    return _Often(tuple(recent), recent[times - 1], recent[-times] + window_ms)


def _outlook(found: Sequence[tuple[Detection, int]]) -> Evaluation:
    if not found:
        return QUIET
    return Evaluation([raised for raised, _ in found], min(until_ms for _, until_ms in found))


def _slots(view: GroupView) -> Iterator[tuple[str, Slot]]:
    return iter(view.snapshot.slot_history.slots.items() if view.snapshot.slot_history else ())


def _member(slot: Slot) -> dict[str, Any]:
    return {
        "member_id": slot.member_id,
        "client_id": slot.client_id,
        "client_host": slot.client_host,
        "instance_id": slot.instance_id,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberFlappingDetector:
    """A slot returned under a new member id ``times`` times in ``window_ms``.

    The tasks of Connect's sinks do not count: the workers move them at each of their own rebalances. A worker that
    flaps is seen in the group of the workers.
    """

    NAME: ClassVar[str] = MemberFlapping.NAME
    ON_COMMITS: ClassVar[bool] = False
    times: int = 3
    window_ms: int = 15 * _MINUTE_MS

    def __post_init__(self) -> None:
        check_memory(self.NAME, self.window_ms, self.times)

    def evaluate(self, view: GroupView) -> Evaluation:
        """See ``alarms.Detector``."""
        found = []
        for name, slot in _slots(view):
            if slot.client_id.startswith(_CONNECT_TASK):
                continue
            often = _often(slot.returned_ms, self.window_ms, self.times, view.now_ms)
            if often is not None:
                details = {**_member(slot), "returned_ms": often.times_ms}
                found.append((_raised(MemberFlapping, name, often, self.window_ms, details), often.until_ms))
        return _outlook(found)


def _raised(kind: Any, subject: str, often: _Often, window_ms: int, details: dict[str, Any]) -> Detection:
    return Detection(
        kind=kind, subject=subject, since_ms=often.since_ms, threshold_ms=window_ms, details=details
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceTimeoutsDetector:
    """A slot was dropped at about the rebalance timeout ``times`` times in ``window_ms``.

    Where the rebalance timeout is short this is the only sign of a member that is too slow: no rebalance
    lasts long enough to be called stuck. With a prober that asks at least three times in it, only what the
    prober has seen counts; without one, a member that leaves may have been silent for just as long.
    """

    NAME: ClassVar[str] = RebalanceTimeouts.NAME
    ON_COMMITS: ClassVar[bool] = False
    times: int = 3
    window_ms: int = _HOUR_MS

    def __post_init__(self) -> None:
        check_memory(self.NAME, self.window_ms, self.times)

    def evaluate(self, view: GroupView) -> Evaluation:
        """See ``alarms.Detector``."""
        found = []
        for name, slot in _slots(view):
            often = _often(slot.dropped_ms, self.window_ms, self.times, view.now_ms)
            if often is not None:
                details = {
                    **_member(slot),
                    "dropped_ms": often.times_ms,
                    "rebalance_timeout_ms": slot.rebalance_timeout_ms,
                }
                found.append(
                    (_raised(RebalanceTimeouts, name, often, self.window_ms, details), often.until_ms)
                )
        return _outlook(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticCrashLoopDetector:
    """A static member came back at its own place ``times`` times in ``window_ms``."""

    NAME: ClassVar[str] = StaticCrashLoop.NAME
    ON_COMMITS: ClassVar[bool] = False
    times: int = 3
    window_ms: int = 10 * _MINUTE_MS

    def __post_init__(self) -> None:
        check_memory(self.NAME, self.window_ms, self.times)

    def evaluate(self, view: GroupView) -> Evaluation:
        """See ``alarms.Detector``."""
        found = []
        for name, slot in _slots(view):
            at_home = [one for one in slot.takeovers if one.old_place == one.new_place]
            often = _often([one.at_ms for one in at_home], self.window_ms, self.times, view.now_ms)
            if often is not None:
                details = {
                    "instance_id": slot.instance_id,
                    "place": at_home[-1].new_place,
                    "restarted_ms": often.times_ms,
                }
                found.append((_raised(StaticCrashLoop, name, often, self.window_ms, details), often.until_ms))
        return _outlook(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticConflictDetector:
    """An instance id went from one place to another and back in ``window_ms``."""

    NAME: ClassVar[str] = StaticConflict.NAME
    ON_COMMITS: ClassVar[bool] = False
    window_ms: int = 10 * _MINUTE_MS

    def __post_init__(self) -> None:
        check_memory(self.NAME, self.window_ms)

    def evaluate(self, view: GroupView) -> Evaluation:
        """See ``alarms.Detector``."""
        found = []
        for name, slot in _slots(view):
            recent = [one for one in slot.takeovers if one.at_ms > view.now_ms - self.window_ms]
            backs = list(_backs(recent))
            if backs:
                details = {"instance_id": slot.instance_id, "places": _walk(recent)}
                until_ms = max(away_ms for away_ms, _ in backs) + self.window_ms
                often = _Often((), min(back_ms for _, back_ms in backs), until_ms)
                found.append((_raised(StaticConflict, name, often, self.window_ms, details), often.until_ms))
        return _outlook(found)


def _backs(takeovers: Sequence[Takeover]) -> Iterator[tuple[int, int]]:
    """(when it went away, when it was back) for each return to a place that it had left for another one."""
    away_ms: dict[str, int] = {}
    for one in takeovers:
        if one.old_place != one.new_place:
            away_ms[one.old_place] = one.at_ms
            if one.new_place in away_ms:
                yield away_ms[one.new_place], one.at_ms


def _walk(takeovers: Sequence[Takeover]) -> tuple[str, ...]:
    places = [takeovers[0].old_place]
    for one in takeovers:
        if one.new_place != places[-1]:
            places.append(one.new_place)
    return tuple(places)


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceStormDetector:
    """More generations in ``window_ms`` than max(``least``, ``per_slot`` · slots that changed + ``beyond``).

    It is over when there are no more than half of ``least``: one that goes on must not end and begin all the time.
    An error when it has been so for ``windows`` windows, and the group does nothing else: more than half of the
    prober's rounds found it rebalancing, or no committed offset has moved.
    """

    NAME: ClassVar[str] = RebalanceStorm.NAME
    ON_COMMITS: ClassVar[bool] = False
    window_ms: int = 10 * _MINUTE_MS
    least: int = 10
    per_slot: int = 4
    beyond: int = 4
    windows: int = 3

    def __post_init__(self) -> None:
        check_memory(self.NAME, self.window_ms * self.windows)

    def evaluate(self, view: GroupView) -> Evaluation:
        """See ``alarms.Detector``."""
        marks = view.snapshot.slot_history.marks if view.snapshot.slot_history else []
        recent = [mark for mark in marks if mark.at_ms > view.now_ms - self.window_ms]
        generations = sum(mark.generations for mark in recent)
        firing = RebalanceStorm.NAME in view.snapshot.conditions.active
        if generations <= (self.least // 2 if firing else self.least):
            return QUIET
        slots = len({slot for mark in recent for slot in mark.slots})
        # It begins with a generation, not because slots that explain the others have left the window.
        begins = generations > self._limit(slots) and self._stormy(marks, marks[-1].at_ms)
        if not firing and not begins:
            return QUIET
        next_ms = min(mark.at_ms for mark in recent) + self.window_ms
        details = {"generations": generations, "slots_changed": slots, "window_ms": self.window_ms}
        raised = Detection(
            kind=RebalanceStorm,
            since_ms=self._since_ms(marks, view),
            threshold_ms=self.window_ms,
            details=details,
            severity=Severity.ERROR if self._stands_still(marks, view) else Severity.WARN,
        )
        return Evaluation([raised], next_ms)

    def _limit(self, slots: int) -> int:
        return max(self.least, self.per_slot * slots + self.beyond)

    def _stormy(self, marks: Sequence[Mark], at_ms: int) -> bool:
        """Whether there are too many generations in the window that ends at a moment."""
        inside = [mark for mark in marks if at_ms - self.window_ms < mark.at_ms <= at_ms]
        slots = {slot for mark in inside for slot in mark.slots}
        return sum(mark.generations for mark in inside) > self._limit(len(slots))

    def _since_ms(self, marks: Sequence[Mark], view: GroupView) -> int:
        """When the storm began: with the first of the latest generations that were too many."""
        if RebalanceStorm.NAME in view.snapshot.conditions.active:
            return view.now_ms  # What was said first counts.
        since_ms = view.now_ms
        for mark in reversed(marks):
            if not self._stormy(marks, mark.at_ms):
                break
            since_ms = mark.at_ms
        return since_ms

    def _stands_still(self, marks: Sequence[Mark], view: GroupView) -> bool:
        # Between two generations, commits may have been read already that were made after this moment.
        if marks[-1].at_ms != view.now_ms:
            return False
        windows = range(self.windows)
        if not all(self._stormy(marks, view.now_ms - number * self.window_ms) for number in windows):
            return False
        span_ms = self.windows * self.window_ms
        rounds = span_ms // view.snapshot.probes.interval_ms if view.context.probing else 0
        habits = view.snapshot.slot_history
        if rounds and habits and 2 * unsettled(habits, view.now_ms - span_ms) > rounds:
            return True
        moved_ms = view.offsets.last_move_ms()
        return moved_ms is not None and moved_ms <= view.now_ms - span_ms
