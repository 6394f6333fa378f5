"""Which detectors of a group must be evaluated now: those whose dependencies changed, and those whose time has come."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np

from groupreplay.state.conditions.detection import (
    QUIET,
    Dependency,
    Detection,
    Evaluation,
    GroupDetector,
    GroupView,
)
from groupreplay.state.conditions.registry import GROUP_DETECTORS, with_thresholds
from groupreplay.state.conditions.tracker import MOST_CONDITIONS
from groupreplay.state.policy.rules import Rules
from groupreplay.state.snapshot.commits_between import RunAhead
from groupreplay.state.snapshot.group_snapshot import GroupSnapshot
from groupreplay.state.snapshot.observations import CommitRun

#: Evaluations for which only time must pass: in one call, and in addition for each of its records. A record dated
#: centuries ahead makes hundreds of thousands due; beyond this number the conditions are evaluated once, at the end of
#: the time.
_MOST_EVALUATIONS: Final = 1_000
_MOST_EVALUATIONS_A_RECORD: Final = 50


@dataclass(frozen=True, slots=True)
class GroupDetectors:
    """The detectors of a group with the thresholds of its rules.

    ``on_commits``: names of conditions that commits can end, ``on_any_commit`` of those that each commit ends.
    ``learning``: those that remember something. ``turning``: those that a commit inside a run can begin or end.
    ``changes``: what any of them depends on. ``in_windows``: the group has planned windows.
    """

    detectors: tuple[GroupDetector, ...]
    on_commits: frozenset[str]
    on_any_commit: frozenset[str]
    learning: tuple[GroupDetector, ...]
    turning: tuple[GroupDetector, ...]
    changes: frozenset[Dependency]
    in_windows: bool
    _after: dict[frozenset[Dependency], tuple[GroupDetector, ...]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def after(self, changes: frozenset[Dependency]) -> tuple[GroupDetector, ...]:
        """Those that depend on one of these changes; after every record it is asked, for few different ones."""
        due = self._after.get(changes)
        if due is None:
            due = tuple(
                detector for detector in self.detectors if not changes.isdisjoint(detector.DEPENDS_ON)
            )
            self._after[changes] = due
        return due


@lru_cache(maxsize=1_000)
def group_detectors(rules: Rules) -> GroupDetectors:
    """The detectors of the groups that have these rules."""
    detectors = with_thresholds(GROUP_DETECTORS, rules.thresholds)
    return GroupDetectors(
        detectors=detectors,
        on_commits=frozenset(
            detector.name for detector in detectors if Dependency.COMMITS in detector.DEPENDS_ON
        ),
        on_any_commit=frozenset(detector.name for detector in detectors if detector.ENDED_BY_ANY_COMMIT),
        learning=tuple(detector for detector in detectors if type(detector).learn is not GroupDetector.learn),
        turning=tuple(detector for detector in detectors if type(detector).turns is not GroupDetector.turns),
        changes=frozenset().union(*(detector.DEPENDS_ON for detector in detectors)),
        in_windows=bool(rules.windows),
    )


def turns(detectors: Iterable[GroupDetector], view: GroupView, run: CommitRun) -> list[int]:
    """The moments of a run, which is not applied yet, whose commits can begin or end a condition; in order.

    Of the past there are none: nothing is evaluated before events are emitted.
    """
    if run.last_ms < view.context.emit_since_ms:
        return []
    ahead = RunAhead(view.offsets, run)
    flags = [flags for detector in detectors if (flags := detector.turns(view, ahead)) is not None]
    return sorted({*ahead.returns.at_ms[np.logical_or.reduce(flags)].tolist()}) if flags else []


class Agenda:
    """The detectors that are due, and when the others want to be evaluated.

    It is not stored: a group that was read from its snapshot evaluates all detectors first. ``evaluations_left`` are
    those for which only time must pass.
    """

    def __init__(self, detectors: GroupDetectors) -> None:
        self._detectors = detectors
        self.evaluations_left = _MOST_EVALUATIONS
        self._changed: set[Dependency] = {*detectors.changes}
        self._next_ms: dict[str, int] = {}
        #: Of detectors that pause: the pause, and when time changes what they find.
        self._pauses: dict[str, tuple[int, int | None]] = {}

    def note(self, changes: Collection[Dependency]) -> None:
        """Something changed: the detectors that depend on it are due."""
        self._changed.update(changes)

    def learn(self, snapshot: GroupSnapshot, at_ms: int) -> None:
        """An operation was applied: detectors remember what they need of it."""
        for detector in self._detectors.learning:
            detector.learn(snapshot, at_ms)

    def note_item(self) -> None:
        """A record, or a run of commits, is applied next."""
        self.evaluations_left += _MOST_EVALUATIONS_A_RECORD

    def note_all(self) -> None:
        """All detectors are due."""
        self._changed.update(self._detectors.changes)

    def evaluate(
        self, view: GroupView, only: Collection[str] | None
    ) -> tuple[list[Detection], Sequence[GroupDetector]]:
        """What holds at this moment, and the detectors that were evaluated: those that are due.

        ``only``: of these in place of them; they are due again, because more may have changed than they are asked for.
        """
        if self._detectors.in_windows:
            # The highest severity of every condition changes with a window.
            self.note_all()
        if only is not None:
            chosen = [detector for detector in self._detectors.detectors if detector.name in only]
            return self._detect(chosen, view), chosen
        due = self._due(view.now_ms)
        self._changed.clear()
        detections = self._detect(due, view)
        if len(detections) + len(view.snapshot.conditions.active) > MOST_CONDITIONS:
            # Which of too many are dropped is decided among all.
            due = self._detectors.detectors
            detections = self._detect(due, view)
        return detections, due

    def _due(self, now_ms: int) -> Sequence[GroupDetector]:
        changed = self._detectors.after(frozenset(self._changed))
        in_time = {name for name, at_ms in self._next_ms.items() if at_ms <= now_ms}
        if not in_time:
            return changed
        names = in_time.union(detector.name for detector in changed)
        return [detector for detector in self._detectors.detectors if detector.name in names]

    def _detect(self, detectors: Iterable[GroupDetector], view: GroupView) -> list[Detection]:
        detections: list[Detection] = []
        for detector in detectors:
            name, evaluation = detector.name, detector.evaluate(view)
            # Most find nothing, and have asked for no time.
            if evaluation is not QUIET or name in self._next_ms:
                detections += evaluation.detections
                self._note_time(name, evaluation, view.now_ms)
        return detections

    def _note_time(self, name: str, evaluation: Evaluation, now_ms: int) -> None:
        next_ms, pause_ms = evaluation.next_ms, evaluation.pause_ms
        if pause_ms is None:
            self._pauses.pop(name, None)
        else:
            self._pauses[name] = (pause_ms, next_ms)
            next_ms = now_ms + pause_ms if next_ms is None else min(next_ms, now_ms + pause_ms)
        if next_ms is None:
            self._next_ms.pop(name, None)
        else:
            self._next_ms[name] = next_ms

    def evaluation_ms(self, due_ms: int, until_ms: int) -> int:
        """When the evaluation that is due takes place: at once, or at the last moment until which nothing changes.

        Until ``until_ms`` only time passes. The evaluations before that moment would find what was found; they count.
        """
        moments = self._idle_moments(due_ms, until_ms)
        count = max(1, min(len(moments), self.evaluations_left))
        self.evaluations_left -= count
        return moments[count - 1]

    def _idle_moments(self, due_ms: int, until_ms: int) -> range:
        """The moments, from ``due_ms`` on, at which nothing but a detector that pauses is due."""
        due = [name for name, next_ms in self._next_ms.items() if next_ms <= due_ms]
        pause = self._pauses.get(due[0]) if len(due) == 1 and self._next_ms[due[0]] == due_ms else None
        if pause is None or self._changed or self._detectors.in_windows:
            return range(due_ms, due_ms + 1)
        pause_ms, changes_ms = pause
        times = [next_ms for name, next_ms in self._next_ms.items() if name != due[0]]
        last_ms = min([until_ms, *times, *([] if changes_ms is None else [changes_ms])])
        return range(due_ms, max(due_ms, last_ms) + 1, pause_ms)

    def next_ms(self) -> int | None:
        """When the first detector wants to be evaluated although nothing changes."""
        return min(self._next_ms.values(), default=None)
