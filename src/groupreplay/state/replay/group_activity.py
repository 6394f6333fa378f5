"""How long a group has existed and how often it came back, and whether that makes it significant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from groupreplay.state.snapshot import modern
from groupreplay.state.snapshot.group_snapshot import GroupActivity

if TYPE_CHECKING:
    from groupreplay.state.policy.rules import Rules
    from groupreplay.state.snapshot.group_snapshot import GroupSnapshot
    from groupreplay.state.snapshot.group_state import GroupState

_LONG_LIVED_MS: Final = 24 * 3_600_000
#: Commits for each partition, on the average, that distinguish a group without members from a single write.
_COMMITS: Final = 3


def has_members(group: GroupState) -> bool:
    """Whether the group has a member."""
    return bool(group.classic.members) or (group.modern is not None and bool(modern.living(group.modern)))


def note_record(activity: GroupActivity, at_ms: int) -> None:
    """Call this for every record."""
    if activity.born_ms < 0:
        activity.born_ms = at_ms


def note_members(snapshot: GroupSnapshot, at_ms: int) -> None:
    """Call this whenever records may have changed the members, with the time of the last one."""
    activity, peopled = snapshot.activity, has_members(snapshot.group)
    if peopled and (activity.empty or not activity.peopled):
        activity.staffed_ms = at_ms
    activity.returns += peopled and activity.empty
    activity.empty = activity.peopled and not peopled
    activity.peopled = activity.peopled or peopled


def note_commits(activity: GroupActivity, commits: int, partitions: int) -> None:
    """Call this for every run of commits, with the number of partitions that have an offset after it."""
    activity.commits += commits
    activity.widest = max(activity.widest, partitions)


def is_significant(snapshot: GroupSnapshot, rules: Rules, now_ms: int) -> bool:
    """Whether the loss of the group would be noticed: by its policy, else by its history.

    A group with members must be a day old and have come back from Empty; a group without members must have three
    commits for each partition.
    """
    if rules.matters is not None:
        return rules.matters
    activity = snapshot.activity
    if snapshot.group.simple and not activity.peopled:
        return activity.commits >= _COMMITS * max(1, activity.widest)
    return activity.returns > 0 and now_ms - activity.born_ms >= _LONG_LIVED_MS
