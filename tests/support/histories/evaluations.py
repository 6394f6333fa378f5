"""The reference for detectors that are evaluated when they are due: all of them, always.

Every detector in every evaluation, and evaluations also at moments at which nothing has happened. Such a moment shows
what only the passing of time has changed, and no detector has announced.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from groupreplay.state import due_work
from groupreplay.state.conditions import agenda
from groupreplay.state.conditions.agenda import Agenda
from groupreplay.state.conditions.detection import GroupDetector, GroupView


@contextmanager
def all_always(step_ms: int | None = None) -> Iterator[None]:
    """Every detector is due in every evaluation, and the next one is at most ``step_ms`` later (None: as usual)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Agenda, "_due", _every_detector)
        patch.setattr(Agenda, "_idle_moments", _this_moment)
        # The reference needs hundreds of times as many, and must not be the one that gives up.
        patch.setattr(agenda, "_MOST_EVALUATIONS", 1 << 40)
        if step_ms is not None:
            # Inside a run of commits that is read at once, such an evaluation would see what its end does not show.
            patch.setattr(due_work, "is_due_with_probe", _always)
            patch.setattr(Agenda, "evaluate", _noting_the_time(Agenda.evaluate))
            patch.setattr(Agenda, "next_ms", _within(Agenda.next_ms, step_ms))
        yield


def _every_detector(of_group: Agenda, _now_ms: int) -> list[GroupDetector]:
    """In place of ``Agenda._due``."""
    return list(of_group._detectors.detectors)


def _always(*_conditions: object) -> bool:
    """In place of ``due_work.is_due_with_probe``: an answer that shows what is known is no reason to wait."""
    return True


def _this_moment(_agenda: Agenda, due_ms: int, _until_ms: int) -> range:
    """In place of ``Agenda._idle_moments``: no evaluation is left out."""
    return range(due_ms, due_ms + 1)


def _noting_the_time(evaluate: Callable[..., Any]) -> Callable[..., Any]:
    """In place of ``Agenda.evaluate``."""

    def evaluated(of_group: Agenda, view: GroupView, only: Collection[str] | None) -> Any:
        of_group.evaluated_ms = view.now_ms  # type: ignore[attr-defined]
        return evaluate(of_group, view, only)

    return evaluated


def _within(next_ms: Callable[[Agenda], int | None], step_ms: int) -> Callable[[Agenda], int]:
    """In place of ``Agenda.next_ms``."""

    def sooner(of_group: Agenda) -> int:
        latest_ms: int = of_group.evaluated_ms + step_ms  # type: ignore[attr-defined]
        due_ms = next_ms(of_group)
        return latest_ms if due_ms is None else min(due_ms, latest_ms)

    return sooner
