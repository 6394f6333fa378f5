"""Work on a group for which only time must pass: what is due next, and when."""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum, auto
from typing import Final

from groupreplay.state.conditions.agenda import Agenda, GroupDetectors
from groupreplay.state.conditions.detection import GroupView
from groupreplay.state.policy.context import Context
from groupreplay.state.replay import offset_losses, offset_sets, simple_groups
from groupreplay.state.snapshot.group_snapshot import Conditions, GroupSnapshot
from groupreplay.state.snapshot.observations import Extent, Probe
from groupreplay.state.snapshot.offsets import Offsets


class Due(IntEnum):
    """Work that is due at the same moment is done in this order."""

    OPERATION = auto()
    PROBE = auto()
    OFFSET_CHANGES = auto()
    OLD_LOSSES = auto()
    NOTHING_LEFT = auto()
    CONDITIONS = auto()


def next_due(snapshot: GroupSnapshot, offsets: Offsets, context: Context) -> tuple[int, Due] | None:
    """The time and kind of what is due next. An open operation ends when time is past its timestamp."""
    due = next_besides_conditions(snapshot, offsets, context)
    at_ms = snapshot.conditions.next_evaluation_ms
    return due if at_ms is None or (due is not None and due[0] <= at_ms) else (at_ms, Due.CONDITIONS)


def next_besides_conditions(
    snapshot: GroupSnapshot, offsets: Offsets, context: Context
) -> tuple[int, Due] | None:
    """The same without the evaluation of conditions."""
    losses, pending, answers = snapshot.losses, snapshot.log.pending, snapshot.probes.waiting
    is_changing = losses.changes or losses.unclear or snapshot.sets.waiting
    # This runs before every record; nearly always nothing waits.
    if len(offsets) and not (pending or answers or is_changing or losses.lost):
        return None
    due = list[tuple[int, Due]]()
    if pending:
        due.append((pending[-1].timestamp_ms + 1, Due.OPERATION))
    if answers:
        due.append((answers[-1].heard_ms, Due.PROBE))
    if is_changing:
        at_ms = offset_sets.due_ms(snapshot)
        if at_ms is not None:
            due.append((at_ms, Due.OFFSET_CHANGES))
    if losses.lost:
        due.append((losses.lost[0].at_ms + offset_losses.MEMORY_MS, Due.OLD_LOSSES))
    if not len(offsets) and (at_ms := simple_groups.nothing_left_ms(snapshot, offsets, context)) is not None:
        due.append((at_ms, Due.NOTHING_LEFT))
    return min(due, default=None)


_MINUTE_MS: Final = 60_000


def is_evaluated_inside(snapshot: GroupSnapshot, commits: Extent, moments: Collection[int]) -> bool:
    """Whether conditions may be evaluated before the last of these commits, and then without what follows.

    ``moments`` are those at which a commit among them can begin or end a condition.
    """
    if commits.last_ms == commits.first_ms:
        return False
    due_ms = snapshot.conditions.next_evaluation_ms
    is_due = due_ms is not None and due_ms <= commits.last_ms
    return is_due or bool(moments or snapshot.probes.waiting or snapshot.conditions.active)


def is_due_after_commits(
    conditions: Conditions, commits: Extent, before_ms: int, ended: Collection[str], *, nearer: bool
) -> bool:
    """Whether conditions are evaluated after commits. Detectors use their intervals, and are not asked each time.

    ``before_ms`` is the time of the record before them; ``ended`` are names of conditions that commits can end;
    ``nearer``: a deadline may be earlier than before. A batch may end between the commits of one request: what follows
    the evaluated ones at the same moment is evaluated with them.
    """
    return (
        before_ms // _MINUTE_MS != commits.last_ms // _MINUTE_MS
        or (conditions.after_commits and before_ms == commits.first_ms)
        or nearer
        or commits.expires
        or conditions.next_evaluation_ms is None
        or _any_of(conditions, ended)
    )


def is_due_with_probe(conditions: Conditions, probe: Probe, ended: Collection[str]) -> bool:
    """Whether conditions are evaluated with an answer that shows what is known; ``ended`` as above.

    What is due at its moment has it as the cause, and so has the end of a condition by commits before it.
    """
    next_ms = conditions.next_evaluation_ms
    return (next_ms is not None and next_ms <= probe.heard_ms + 1) or _any_of(conditions, ended)


def _any_of(conditions: Conditions, names: Collection[str]) -> bool:
    return any(key.kind in names for key in conditions.active)


def skip_end_of_past(
    group_id: str, snapshot: GroupSnapshot, offsets: Offsets, context: Context, detectors: GroupDetectors
) -> bool:
    """Leave out the evaluation at the moment from which events are emitted, if it would find nothing.

    Nothing is evaluated before that moment. So each group would need a call at it, although nearly all are at rest.
    Returns whether it is left out.
    """
    conditions, past_ms = snapshot.conditions, context.emit_since_ms
    if conditions.next_evaluation_ms != past_ms or conditions.active:
        return False
    other = next_besides_conditions(snapshot, offsets, context)
    if other is not None and other[0] <= past_ms:
        return False
    agenda = Agenda(detectors)
    detections, _ = agenda.evaluate(GroupView(group_id, snapshot, offsets, context, past_ms), None)
    next_ms = agenda.next_ms()
    if not detections:
        conditions.next_evaluation_ms = None if next_ms is None else max(next_ms, past_ms + 1)
    return not detections


def expect_end_of_past(snapshot: GroupSnapshot, at_ms: int, past_ms: int) -> None:
    """A record of this time comes next: if it is of the past, the evaluation at the end of the past is due again."""
    if 0 <= snapshot.log.clock_ms < past_ms and at_ms < past_ms:
        snapshot.conditions.next_evaluation_ms = past_ms
