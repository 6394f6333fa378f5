"""When rebalances began, by the last commits of the members that stayed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from groupreplay.timeline.commit_times import CommitTimes
from groupreplay.timeline.likely.begins import HEARTBEAT_MS, Joins, begins, last_commits

#: How members' heartbeats are: each one by itself, all together, two and two.
PHASES: dict[str, Callable[[random.Random, int], list[float]]] = {
    "each": lambda numbers, count: [numbers.random() for _ in range(count)],
    "together": lambda numbers, count: [numbers.random()] * count,
    "pairs": lambda numbers, count: [each for _ in range(count) for each in [numbers.random()] * 2][:count],
}


def joins(*stayed_ms: int, early: bool = True, least_ms: int | None = None, most_ms: int = 10**9) -> Joins:
    """What shows the begin of a rebalance of members that joined at these times."""
    return Joins(stayed_ms=stayed_ms, early=[early] * len(stayed_ms), bounds_ms=(least_ms, most_ms))


def rebalances(
    numbers: random.Random, phases: Callable[[random.Random, int], list[float]], interval_ms: int, count: int
) -> list[tuple[int, Joins]]:
    """Rebalances that begin at known times, of members that learn of them with their heartbeats."""
    made = []
    for number in range(count):
        began_ms = number * 100_000
        notices_ms = [int(each * interval_ms) for each in phases(numbers, numbers.randint(1, 6))]
        made.append((began_ms, joins(*(began_ms + each for each in notices_ms))))
    return made


def test_between_the_last_join_less_a_heartbeat_and_the_first_one() -> None:
    """The bounds by records narrow that; joins that are further apart than heartbeats show nothing."""
    assert begins([joins(10_000, 12_000), joins(10_000)]) == [(9_000, 10_000), (7_000, 10_000)]
    assert begins([joins(10_000, least_ms=8_000, most_ms=9_000)]) == [(8_000, 9_000)]
    assert begins([joins(10_000, 14_000), joins(10_000), joins(10_000)])[0] is None
    # Requests take time: as many members as leave no room.
    assert begins([joins(10_000, 13_100)]) == [(10_000, 10_000)]
    # Records that contradict the commits.
    assert begins([joins(10_000, least_ms=11_000)]) == [None]


def test_the_one_member_that_left_was_there_until_its_last_commit() -> None:
    """Where members commit when they close that is the begin itself."""
    regular = Joins(
        stayed_ms=[10_000], early=[True], left_ms=8_500, left_early=False, bounds_ms=(None, 10_000)
    )
    closed = Joins(stayed_ms=[10_000], early=[True], left_ms=8_500, left_early=True, bounds_ms=(None, 10_000))
    crashed = Joins(stayed_ms=[10_000], early=[True], left_ms=8_500, bounds_ms=(None, 10_000))
    assert begins([regular, regular, closed]) == [(8_500, 10_000)] * 3
    assert begins([closed, closed, regular, crashed]) == [(8_500, 8_500)] * 2 + [(8_500, 10_000)] * 2
    earlier = Joins(
        stayed_ms=[10_000], early=[True], left_ms=2_000, left_early=True, bounds_ms=(None, 10_000)
    )
    assert begins([closed, earlier]) == [(8_500, 8_500), (7_000, 10_000)]


@pytest.mark.parametrize("phases", PHASES)
def test_any_moment_between_is_as_likely_as_another(phases: str) -> None:
    """Whether members send their heartbeats together or not: the begin is always inside, and evenly spread."""
    made = rebalances(random.Random(1), PHASES[phases], HEARTBEAT_MS, 2_000)
    parts = [0] * 4
    for (began_ms, _), span in zip(made, begins([each for _, each in made]), strict=True):
        assert span is not None
        assert span[0] <= began_ms <= span[1]
        parts[min(int(4 * (began_ms - span[0]) / (span[1] - span[0] + 1)), 3)] += 1
    assert all(400 <= each <= 600 for each in parts), parts


def test_commits_that_are_regular_show_no_joins() -> None:
    """Members that commit by themselves, and not before they join: nothing is inferred."""
    assert begins([joins(10_000, early=False), joins(10_000)]) == [None, None]
    assert begins([]) == []
    assert begins([None, joins(10_000)]) == [None, (7_000, 10_000)]


def test_a_longer_interval_is_seen() -> None:
    """Joins that are often further apart than the assumed interval contradict it."""
    made = rebalances(random.Random(2), PHASES["each"], 10_000, 40)
    assert set(begins([each for _, each in made])) == {None}


def left(numbers: random.Random, interval_ms: int, count: int) -> Sequence[Joins]:
    """Rebalances that began with the leave of a member that committed then."""
    made = []
    for began_ms in range(0, count * 100_000, 100_000):
        times = [began_ms + numbers.randrange(interval_ms) for _ in range(3)]
        made.append(
            Joins(
                stayed_ms=times,
                early=[True] * 3,
                left_ms=began_ms,
                left_early=True,
                bounds_ms=(None, max(times)),
            )
        )
    return made


def test_a_shorter_interval_is_seen_after_leaves() -> None:
    """Where all join too soon after the last commit of the one that left, again and again."""
    assert set(begins(left(random.Random(3), 1_000, 20))) == {None}
    spans = begins(left(random.Random(3), HEARTBEAT_MS, 20))
    assert spans == [(began_ms, began_ms) for began_ms in range(0, 2_000_000, 100_000)]


def test_the_last_commit_of_a_member() -> None:
    """Early: sooner after the one before than usual. One that it had before its partitions is none of its own."""
    commits = CommitTimes(5_000, {("t", 0): [1_000, 6_000, 7_500], ("t", 1): [1_000, 6_000]})
    places = [("t", 0), ("t", 1)]
    assert last_commits(commits, places, 0, 8_000) == (7_500, True)
    assert last_commits(commits, places, 0, 7_000) == (6_000, False)
    assert last_commits(commits, places, 0, 1_000) == (1_000, False)
    assert last_commits(commits, places, 8_000, 9_000) is None
