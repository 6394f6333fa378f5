"""How long a group has lived and how often it came back: what tells one that somebody misses from the others.

Knows what is counted and when it is enough; must not know what is said of groups that matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from groupreplay.state.snapshot import modern
from groupreplay.state.snapshot.group_snapshot import GroupActivity

if TYPE_CHECKING:
    from groupreplay.state.policy.rules import Rules
    from groupreplay.state.snapshot.group_snapshot import GroupSnapshot
    from groupreplay.state.snapshot.group_state import GroupState

_GROWN_UP_MS: Final = 24 * 3_600_000
#: Commits for each partition, on the average, that tell a group without members from a single write.
_COMMITS: Final = 3


def has_members(group: GroupState) -> bool:
    """Whether somebody is in the group."""
    return bool(group.classic.members) or (group.modern is not None and bool(modern.living(group.modern)))


def note_members(snapshot: GroupSnapshot) -> None:
    """Called whenever the group's records may have changed who is in it."""
    life, peopled = snapshot.activity, has_members(snapshot.group)
    life.returns += peopled and life.empty
    life.empty = life.peopled and not peopled
    life.peopled = life.peopled or peopled


def note_commits(life: GroupActivity, commits: int, partitions: int) -> None:
    """Called for every run of commits, with the number of partitions that have an offset after it."""
    life.commits += commits
    life.widest = max(life.widest, partitions)


def matters(snapshot: GroupSnapshot, rules: Rules, now_ms: int) -> bool:
    """Whether somebody would miss the group: the policy says, else its history.

    A group with members must be a day old and have come back from Empty; of one without members commits must
    have come three times, whoever makes them.
    """
    if rules.matters is not None:
        return rules.matters
    life = snapshot.activity
    if snapshot.group.simple and not life.peopled:
        return life.commits >= _COMMITS * max(1, life.widest)
    return life.returns > 0 and now_ms - life.born_ms >= _GROWN_UP_MS
