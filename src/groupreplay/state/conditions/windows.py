"""Conditions that count in a window of time: when a count began to be too high, and when it will not be any more.

Such a condition ends without another change, when its window has moved on. The times come from the slot history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Final

from groupreplay.state.conditions.detection import QUIET, Evaluation, GroupDetector, GroupView
from groupreplay.state.replay.slot_history import KEPT_MS, MOST_TIMES
from groupreplay.state.snapshot.members import Slot, client_fields

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
#: The client ids of a Connect sink's tasks begin with this (``ConnectUtils.clientIdBase`` and ``Worker``).
_CONNECT_TASK: Final = "connector-consumer-"


def check_window(name: str, window_ms: int, times: int = 1) -> None:
    """Raises ValueError for thresholds beyond what the slot history keeps."""
    if not 0 < window_ms <= KEPT_MS:
        raise ValueError(f"{name}: a window of {window_ms} ms; it must be above 0 and at most {KEPT_MS} ms")
    if not 0 < times <= MOST_TIMES:
        raise ValueError(f"{name}: {times} times; it must be at least 1 and at most {MOST_TIMES}")


@dataclass(frozen=True, slots=True)
class Recurrence:
    """Something that happened often enough in the window that ends now.

    ``since_ms`` is when the count became high enough, ``until_ms`` when it is too low again if nothing more happens.
    """

    times_ms: tuple[int, ...]
    since_ms: int
    until_ms: int


def recurrence(times_ms: Sequence[int], window_ms: int, times: int, now_ms: int) -> Recurrence | None:
    """None when fewer than ``times`` of these times lie in the window."""
    recent = sorted(at_ms for at_ms in times_ms if at_ms > now_ms - window_ms)
    if len(recent) < times:
        return None
    return Recurrence(tuple(recent), recent[times - 1], recent[-times] + window_ms)


def is_connect_task(client_id: str) -> bool:
    """Whether it is the client of a Connect sink's task, which workers move at each of their own rebalances."""
    return client_id.startswith(_CONNECT_TASK)


def slots(view: GroupView) -> Iterator[tuple[str, Slot]]:
    """The slots that the slot history knows, by name."""
    return iter(view.snapshot.slot_history.slots.items() if view.snapshot.slot_history else ())


def member_fields(slot: Slot) -> dict[str, Any]:
    """The fields of a ``MemberCondition``."""
    return {"member_id": slot.member_id, **client_fields(slot)}


def evaluate_slots(
    detector: GroupDetector,
    view: GroupView,
    window_ms: int,
    times_of: Callable[[Slot], Sized],
    least: int,
    recurrence_of: Callable[[Slot], tuple[Recurrence, dict[str, Any]] | None],
) -> Evaluation:
    """Evaluates each slot: ``recurrence_of`` returns what recurs there and the condition's own fields.

    It is asked about slots that remember at least ``least`` times, which few do.
    """
    detections, ends = [], []
    for name, slot in view.recurring:
        if len(times_of(slot)) < least:
            continue
        recurring = recurrence_of(slot)
        if recurring is not None:
            times, details = recurring
            detections.append(detector.detection(times.since_ms, window_ms, subject=name, **details))
            ends.append(times.until_ms)
    return Evaluation(detections, min(ends)) if detections else QUIET
