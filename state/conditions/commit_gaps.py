"""How often a group commits, for conditions about groups and members that have stopped committing.

Such a condition is an inference: the log shows commits, not the reason why there are none. A group that commits only
when offsets change has no usual gap. Commits are read in runs, so a silence that ended before its run was read is not
detected.
"""

from __future__ import annotations

from groupreplay.state.conditions.detection import GroupView
from groupreplay.state.kafka_terms import CONSUMER_PROTOCOL_TYPE, GroupType, Phase
from groupreplay.state.snapshot import modern
from groupreplay.state.snapshot.commit_intervals import usual


def commits_expected(view: GroupView) -> bool:
    """Whether the group has consumers that commit, and no known rebalance is in progress."""
    group = view.group
    if not len(view.offsets) or group.in_progress is not None:
        return False
    if group.modern is None:
        return group.phase is Phase.STABLE and group.classic.protocol_type == CONSUMER_PROTOCOL_TYPE
    living = modern.living(group.modern)
    return group.group_type is GroupType.CONSUMER and bool(living) and modern.settled(group.modern)


def usual_gap_ms(view: GroupView, commits: int, repeats: float) -> int | None:
    """95 % of the gaps between commits are shorter; None without ``commits`` commits and a share of ``repeats``.

    A repeat is a commit of an offset that was committed before.
    """
    found = usual(view.offsets.rhythm)
    # So many gaps have one commit more before the first of them.
    if found is None or found.gaps + 1 < commits or found.repeated < repeats:
        return None
    return found.gap_ms
