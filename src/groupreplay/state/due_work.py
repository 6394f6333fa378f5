"""Work on a group for which only time must pass: what is due next, and when."""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum, auto
from typing import Final

from groupreplay.state.policy.context import Context
from groupreplay.state.replay import classic, offset_losses, offset_sets
from groupreplay.state.snapshot.group_snapshot import Conditions, GroupSnapshot
from groupreplay.state.snapshot.observations import Extent
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
    due = list[tuple[int, Due]]()
    losses = snapshot.losses
    if snapshot.log.pending:
        due.append((snapshot.log.pending[-1].timestamp_ms + 1, Due.OPERATION))
    if snapshot.probes.waiting:
        due.append((snapshot.probes.waiting[-1].heard_ms, Due.PROBE))
    # This runs before every record; nearly always nothing waits.
    if losses.changes or losses.unclear or snapshot.sets.waiting:
        at_ms = offset_sets.due_ms(snapshot)
        if at_ms is not None:
            due.append((at_ms, Due.OFFSET_CHANGES))
    if losses.lost:
        due.append((losses.lost[0].at_ms + offset_losses.MEMORY_MS, Due.OLD_LOSSES))
    if not len(offsets) and (at_ms := classic.nothing_left_ms(snapshot, offsets, context)) is not None:
        due.append((at_ms, Due.NOTHING_LEFT))
    return min(due, default=None)


_MINUTE_MS: Final = 60_000


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
        or any(key.kind in ended for key in conditions.active)
    )
