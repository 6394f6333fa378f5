"""Begins of rebalances by last commits, moves against the assignor of the model, and sums that hold what is drawn."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import pairwise, product

import pytest

from groupreplay.codecs import Subscription, TopicPartitions, encode_blob
from groupreplay.coordinator.simulation.consumer import assigned, owned
from groupreplay.timeline.commit_times import CommitTimes
from groupreplay.timeline.likely import (
    HEARTBEAT_MS,
    Joins,
    LikelySum,
    Part,
    begins,
    last_commits,
    likely_count,
    likely_sum,
    moves,
    together,
)


def test_only_the_surplus_moves() -> None:
    """A departure moves nothing of the others; an arrival takes what is above an even share."""
    # 2, 2, 2; 3, 3; 2, 2, 2 of which two moved; a successor takes what was left, or one if it came before.
    assert [*moves(["abc", "bc", "bcd", "cde"], 6)] == [(0, 0), (2, 2), (0, 1)]
    assert [*moves(["a", "", "b"], 6)] == [(0, 0), (0, 0)]


def _rebalanced(shares: dict[str, tuple[int, ...]], partitions: int) -> dict[str, tuple[int, ...]]:
    blobs = [
        (
            member,
            None,
            encode_blob(Subscription(version=1, topics=("t",), owned_partitions=_partitions(numbers))),
        )
        for member, numbers in shares.items()
    ]
    return {
        member: owned(assignment, "t")
        for member, assignment in assigned(blobs, "t", partitions, "cooperative-sticky")
    }


def _partitions(numbers: tuple[int, ...]) -> tuple[TopicPartitions, ...]:
    return (TopicPartitions(topic="t", partitions=numbers),) if numbers else ()


@pytest.mark.parametrize("seed", range(20))
def test_the_numbers_are_those_of_the_model(seed: int) -> None:
    """Random changes, each with its second rebalance."""
    numbers = random.Random(seed)
    partitions, names = numbers.randint(3, 20), [f"m{number}" for number in range(40)]
    members = [names.pop() for _ in range(numbers.randint(2, 6))]
    shares = _rebalanced(_rebalanced(dict.fromkeys(members, ()), partitions), partitions)
    generations, taken = [{*shares}], list[int]()
    for _ in range(8):
        went = {numbers.choice([*shares])} if len(shares) > 1 and numbers.random() < 1 / 2 else set[str]()
        came = {names.pop()} if not went or numbers.random() < 1 / 3 else set[str]()
        generations.append({*shares} - went | came)
        kept = {member: share for member, share in shares.items() if member not in went}
        after = _rebalanced(kept | dict.fromkeys(came, ()), partitions)
        taken.append(sum(len({*share} - {*after[member]}) for member, share in kept.items()))
        shares = _rebalanced(after, partitions)
    told = [*moves(generations, partitions)]
    assert [least for least, _ in told] == taken
    at_once = [bool(before - after and after - before) for before, after in pairwise(generations)]
    assert all(least == most or together for (least, most), together in zip(told, at_once, strict=True))


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


def test_a_sum_grows_with_the_root_of_its_parts() -> None:
    """Of 100 stops of 0 to 3 s the worst bounds are 300 s apart, the likely range is 40 s wide."""
    stops = [Part.evenly(0, 3_000)] * 100
    assert likely_sum(stops, [], (0, None)) == LikelySum(
        least=129_854, most=170_146, mean=150_000, deviation=8_660
    )
    assert likely_sum(stops[:1], [], (0, None)) == LikelySum(least=0, most=3_000, mean=1_500, deviation=866)


def test_what_has_bounds_only_counts_with_both() -> None:
    """A part without an upper bound leaves nothing to infer, as parts do of which none is known."""
    known = [Part.exactly(1_000)]
    assert likely_sum(known, [(0, 500), (-200, 0)], (0, 9_000)) == LikelySum(800, 1_500, 1_000, 0)
    assert likely_sum(known, [(0, None)], (0, None)) is None
    assert likely_sum([], [(0, 500)], (0, 500)) is None


def test_a_range_is_inside_of_the_proven_one() -> None:
    """Both ends, also where what is proven is elsewhere."""
    stops = [Part.evenly(0, 3_000)] * 4
    for proven in ((2_000, 8_000), (0, 1_000), (13_000, 14_000)):
        likely = likely_sum(stops, [], proven)
        assert likely is not None
        assert proven[0] <= likely.least <= likely.most <= proven[1]


def test_the_difference() -> None:
    """The variances of independent parts add up."""
    one, other = Part.evenly(0, 12), Part.evenly(0, 24)
    assert other - one == Part(mean=6, variance=60, least=-12, most=24)


@pytest.mark.parametrize(("limit", "chance"), [(-1, 0), (0, 0), (50, 0.5), (100, 0.9584), (101, 1)])
def test_how_likely_a_part_is_below_a_limit(limit: float, chance: float) -> None:
    """Surely outside of its bounds; by the normal distribution inside."""
    assert Part.evenly(0, 100).chance_below(limit) == pytest.approx(chance, abs=1e-4)


def test_a_sum_of_ranges() -> None:
    """The likely range of a sum is that of its parts' ranges, as if these had been one sum."""
    stops = [Part.evenly(0, 3_000)] * 64
    whole, half = likely_sum(stops, [], (0, None)), likely_sum(stops[:32], [], (0, None))
    assert whole is not None
    assert half is not None
    again = likely_sum([Part.of_range(half.least, half.most)] * 2, [], (0, None))
    assert again is not None
    assert (again.least, again.most) == pytest.approx((whole.least, whole.most), abs=2)


@pytest.mark.parametrize("seed", range(20))
def test_the_range_of_a_sum_is_that_of_draws(seed: int) -> None:
    """Random stops, of which some are there by chance: 98 of 100 sums are within, and at most one more."""
    numbers = random.Random(seed)
    units = [_unit(numbers) for _ in range(numbers.randint(8, 40))]
    parts = [together([Part.evenly(*bounds) for bounds in stops], chances) for stops, chances in units]
    least, most = sum(part.least for part in parts), sum(part.most for part in parts)
    likely = likely_sum(parts, [], (int(least), int(most) + 1))
    assert likely is not None
    assert int(least) <= likely.least <= likely.most <= int(most) + 1
    sums = [sum(_drawn(numbers, *unit) for unit in units) for _ in range(3_000)]
    inside = sum(likely.least <= each <= likely.most for each in sums) / len(sums)
    assert 0.965 <= inside <= 0.995
    assert sum(sums) / len(sums) == pytest.approx(likely.mean, rel=0.02)


def _unit(numbers: random.Random) -> tuple[list[tuple[float, float]], list[float]]:
    """One or two stops with their bounds, and the chances that they are there."""
    stops = [
        (low := numbers.uniform(0, 3_000), low + numbers.uniform(0, 3_000))
        for _ in range(numbers.randint(1, 2))
    ]
    return stops, [numbers.choice((1.0, 1.0, numbers.random())) for _ in stops]


def _drawn(numbers: random.Random, stops: list[tuple[float, float]], chances: list[float]) -> float:
    """One draw decides for all stops of a unit."""
    drawn = numbers.random()
    return sum(numbers.uniform(*stop) for stop, chance in zip(stops, chances, strict=True) if drawn < chance)


@pytest.mark.parametrize("seed", range(10))
def test_the_range_of_a_count_has_all_but_rare_counts(seed: int) -> None:
    """All ways in which restarts may have been, each with its chance: one in 100 is below, and one above at most."""
    numbers = random.Random(seed)
    units = [[numbers.random() for _ in range(numbers.randint(1, 2))] for _ in range(numbers.randint(1, 6))]
    least, most = likely_count(units, [], (0, 12))
    below = above = 0.0
    for way in product(*(range(len(unit) + 1) for unit in units)):
        chance, count = 1.0, sum(way)
        for there, unit in zip(way, units, strict=True):
            steps = [1.0, *sorted(unit, reverse=True), 0.0]
            chance *= steps[there] - steps[there + 1]
        below, above = below + chance * (count < least), above + chance * (count > most)
    assert below < 0.01
    assert above <= 0.01 + 1e-9


def test_a_count_of_what_is_not_known() -> None:
    """What is there for certain, what nobody knows, and what is not there."""
    assert likely_count([[1.0], [1.0, 1.0], [0.0]], [(0, 2)], (0, 9)) == (3, 5)
    assert likely_count([[1.0], [1.0, 1.0], [0.0]], [(0, 2)], (4, 4)) == (4, 4)
    # Two that depend: both or none.
    assert likely_count([[0.5, 0.5]], [], (0, 2)) == (0, 2)
