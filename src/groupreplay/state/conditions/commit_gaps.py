"""How often a group commits, for conditions about groups and members that have stopped committing.

The log shows commits, not the reason why there are none. A group that commits only when offsets change has no usual
gap. Commits are read in runs, which end at each silence of ``SILENCE_MS``.
"""

from __future__ import annotations

from typing import Final

from groupreplay.codecs.kafka_terms import CONSUMER_PROTOCOL_TYPE, GroupType, Phase
from groupreplay.state.conditions.detection import GroupView
from groupreplay.state.snapshot import modern
from groupreplay.state.snapshot.commit_intervals import Usual

#: Commits at random moments have a ratio of 4.3 between these two gaps, which are powers of two.
_REGULAR: Final = 2


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
    return expected_gap_ms(known_gaps(view, commits), commits, repeats)


def expected_gap_ms(gaps: Usual | None, commits: int, repeats: float) -> int | None:
    """The same of gaps that were counted."""
    # So many gaps have one commit more before the first of them.
    if gaps is None or gaps.gaps + 1 < commits or gaps.repeated < repeats:
        return None
    return gaps.gap_ms


def known_gaps(view: GroupView, commits: int) -> Usual | None:
    """95 % of the gaps between commits are shorter; None if fewer than so many commits were counted lately."""
    return view.offsets.usual(least=commits - 1)


def are_regular(view: GroupView, gaps: Usual) -> bool:
    """Whether half of the gaps are nearly as long as that."""
    half = view.offsets.usual(0.5)
    return half is not None and gaps.gap_ms <= _REGULAR * half.gap_ms
