"""Which groups are significant."""

from __future__ import annotations

import pytest

from groupreplay.state import Group
from groupreplay.state.policy.rules import Rules
from groupreplay.state.replay.group_summary import is_significant
from support.histories.builders import GROUP, Raw, asked_for, commit, emptied, generation, member, replay
from support.histories.modern_builders import described, first_join, left, operation

DAY = 24 * 3_600_000


def missed(history: list[Raw], at: int, rules: Rules | None = None) -> bool:
    """Whether the group is significant at a moment after its history."""
    group, _ = replay(history)
    return is_significant(group._snapshot, rules or Rules(), at)


BACK = [asked_for(at=0), generation(1, member("a"), at=1), emptied(2, at=2), generation(3, member("b"), at=3)]


@pytest.mark.parametrize(
    ("history", "at", "expected"),
    [
        (BACK, DAY, True),
        (BACK, DAY - 1, False),
        (BACK[:3], DAY, False),
        (BACK[:2], 9 * DAY, False),
        ([*BACK, emptied(4, at=9)], DAY, True),
    ],
)
def test_a_day_old_and_back_from_empty(history: list[Raw], at: int, expected: bool) -> None:
    """Both are needed: a group that only exists for long was never used again, a group that only returns is a test."""
    assert missed(history, at) is expected


def test_groups_of_the_newer_kinds_alike() -> None:
    """A return is a member that joins after the last one left."""
    history = [*first_join(at=0), *operation(10, left("a"))]
    assert not missed(history, DAY)
    assert missed([*history, *operation(20, described("b"))], DAY)


@pytest.mark.parametrize(("times", "expected"), [(2, False), (3, True)])
def test_commits_without_members(times: int, expected: bool) -> None:
    """Three for each partition: one write of many partitions is one time."""
    history = [commit("t", number, 1, at=at) for at in range(times) for number in range(4)]
    assert missed(history, 10) is expected


def test_the_policy_has_the_last_word() -> None:
    """The policy overrides the history, in both directions."""
    assert missed([commit("t", 0, 1, at=1)], 2, Rules(matters=True))
    assert not missed(BACK, DAY, Rules(matters=False))


def test_a_life_survives_a_restart() -> None:
    """The activity is part of the snapshot."""
    from support.histories.builders import CONTEXT

    group, _ = replay(BACK)
    again = Group.from_snapshot(GROUP, CONTEXT, group.snapshot())
    assert again._snapshot.activity == group._snapshot.activity
