"""The rhythm of a member's commits."""

from __future__ import annotations

from groupreplay.timeline.whatif.recorded import recorded
from groupreplay.timeline.whatif.rhythm import regular_commit_ms
from support.histories.builders import commit, generation, member
from support.histories.played import BEGIN, SECOND, commits, history_of


def test_a_commit_before_a_join_is_no_part_of_it() -> None:
    """B commits at 57.5 s, before the join phase that ends at 60 s; its first regular commit is that at 62 s."""
    a, b = member("a", (0,)), member("b", (1,))
    records = [
        generation(1, a, b, at=BEGIN + 54 * SECOND),
        *commits(0, 1 * SECOND, 90 * SECOND),
        commit("t", 1, 1, at=BEGIN + 57_500),
        generation(2, a, b, at=BEGIN + 60 * SECOND),
        *commits(1, 62 * SECOND, 90 * SECOND),
    ]
    known = recorded(history_of(records, 90 * SECOND))
    assert known is not None
    assert regular_commit_ms(known, "b", BEGIN + 54 * SECOND) == BEGIN + 62 * SECOND


def test_a_single_commit_where_there_is_no_pair() -> None:
    """The member was there for less than two usual times; without a commit there is no rhythm."""
    a, b = member("a", (0,)), member("b", (1,))
    records = [
        generation(1, a, b, at=BEGIN),
        *commits(0, 1 * SECOND, 90 * SECOND),
        commit("t", 1, 1, at=BEGIN + 3 * SECOND),
        generation(2, a, at=BEGIN + 9 * SECOND),
    ]
    known = recorded(history_of(records, 90 * SECOND))
    assert known is not None
    assert regular_commit_ms(known, "b", BEGIN) == BEGIN + 3 * SECOND
    assert regular_commit_ms(known, "b", BEGIN + 9 * SECOND) is None
