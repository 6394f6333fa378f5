"""What a stop cost: the backlog at its begin and end, its bounds, and when it was caught up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.state.events.lag_events import StopCost
from groupreplay.timeline.commit_rates import CommitLog
from groupreplay.timeline.lag import EndSpan
from groupreplay.timeline.stop_cost import Backlog, Place, rebalance_cost

T: Place = ("t", 0)


def log_of(moves: Sequence[tuple[Place, int, int]]) -> CommitLog:
    """Commits of a place at a time to an offset; -1: a tombstone."""
    places = tuple(dict.fromkeys(place for place, _, _ in moves))
    columns = [[places.index(place) for place, _, _ in moves], [m[1] for m in moves], [m[2] for m in moves]]
    number, at_ms, offset = (np.array(column, np.int64) for column in columns)
    is_commit = offset >= 0
    return CommitLog(
        places=places, place=number[is_commit], at_ms=at_ms[is_commit], moves=(number, at_ms, offset)
    )


def ends(*answers: tuple[int, int], topic_id: str = "id") -> list[EndSpan]:
    """An answer at each time."""
    return [
        EndSpan(topic_id=topic_id, first_ms=at_ms, last_ms=at_ms, end=end, stable=end)
        for at_ms, end in answers
    ]


#: Ten records a second, recorded each ten seconds.
STEADY = ends(*((10_000 * n, 100 * n) for n in range(13)))
#: A commit each second of all there is, but for the time from 30 s to 60 s; caught up at 70 s.
STOPPED = [(T, 1_000 * n, 10 * n) for n in range(1, 31)]
BACK = [(T, 60_000 + 1_000 * n, 300 + 40 * n) for n in range(10)] + [
    (T, 1_000 * n, 10 * n) for n in range(70, 120)
]


def test_a_stop_of_thirty_seconds() -> None:
    """300 records came in it; the group had caught up when its commit passed the last recorded end."""
    backlog = Backlog(log_of([*STOPPED, *BACK]), lambda *_: STEADY)
    assert backlog.cost(30_000, 59_999) == StopCost(
        since_ms=30_000,
        until_ms=59_999,
        partitions=1,
        added=300,
        added_least=200,
        added_most=300,
        lag_begin=0,
        lag_end=300,
        lag_peak=300,
        caught_up_ms=68_000,
        lag_unknown=0,
        text="+ 300 records on 1 partition, caught up 8.0 s later",
    )


def test_quiet_times_are_found_by_themselves() -> None:
    """The time from the last commit to the next one; a partition without new records has none."""
    still: Place = ("t", 1)
    moves = [*STOPPED[:-1], *((still, 1_000 * n, 5) for n in range(1, 31)), *BACK, (still, 119_000, 5)]
    by_place = {T: STEADY, still: ends(*((10_000 * n, 5) for n in range(13)))}
    (quiet,) = Backlog(log_of(moves), lambda *place: by_place[place]).quiet_times()
    assert (quiet.topics, quiet.cost.added, quiet.cost.partitions) == (("t",), 310, 1)
    assert (quiet.cost.since_ms, quiet.cost.caught_up_ms) == (29_000, 118_999)


@pytest.mark.parametrize(
    ("spans", "moves"),
    [
        ([], STOPPED),
        (ends((70_000, 700)), STOPPED),
        (STEADY, [(T, 61_000, 5)]),
        (STEADY, [*STOPPED, (T, 30_500, -1)]),
        # Deleted and created again in the stop: the commit is of the topic before.
        ([*STEADY[:5], *ends((50_000, 3), (60_000, 9), topic_id="new")], STOPPED),
    ],
    ids=["no ends", "recorded later", "no commit yet", "removed", "another topic"],
)
def test_what_is_not_known_is_no_cost(spans: list[EndSpan], moves: Sequence[tuple[Place, int, int]]) -> None:
    """Without both lags there is no cost: never 0."""
    assert Backlog(log_of(moves), lambda *_: spans).cost(31_000, 59_999) is None


def test_a_leader_that_lacks_records_is_elected_in_a_stop() -> None:
    """What came after the election waits, and not what was lost; also if there was no leader for a while."""
    away = EndSpan(topic_id="id", first_ms=41_000, last_ms=44_000, unknown="no leader")
    spans = [*STEADY[:4], away, *ends(*((10_000 * n, 200 + 100 * (n - 4)) for n in range(5, 13)))]
    moves = [*STOPPED[:-11], (T, 29_000, 190)]
    cost = Backlog(log_of(moves), lambda *_: spans).cost(50_000, 59_999)
    assert cost is not None
    assert (cost.added, cost.lag_begin, cost.lag_end) == (100, 110, 210)


def test_a_group_that_has_not_caught_up() -> None:
    """It says so; a partition of unknown lag is counted."""
    other: Place = ("other", 0)
    moves = [*STOPPED, (other, 1_000, 7)]
    cost = Backlog(log_of(moves), lambda topic, _: STEADY if topic == "t" else []).cost(30_000, 60_000)
    assert cost is not None
    assert (cost.caught_up_ms, cost.lag_unknown) == (None, 1)
    assert cost.text == (
        "+ 300 records on 1 partition, not caught up yet; the lag of 1 partition is not known"
    )


def test_a_rebalance_of_unknown_begin_has_no_upper_bound() -> None:
    """Its sync phase is known, and what was before is not."""
    backlog = Backlog(log_of(STOPPED), lambda *_: STEADY)
    bounded = {"duration_ms": 20_000, "sync_ms": 0}
    assert [
        (cost.since_ms, cost.added, cost.added_most)
        for data in (bounded, {"sync_ms": 10_000})
        if (cost := rebalance_cost(backlog, 60_000, data)) is not None
    ] == [(40_000, 200, 200), (50_000, 100, None)]


@pytest.mark.parametrize(
    ("added", "words"), [(1, "1 record"), (9_999, "9999 records"), (34_200, "34 k"), (1_234_000, "1.2 M")]
)
def test_amounts(added: int, words: str) -> None:
    """Amounts are as a person would say them."""
    backlog = Backlog(log_of([(T, 1, 0)]), lambda *_: ends((1, 0), (100, added), (200, added)))
    cost = backlog.cost(1, 100)
    assert cost is not None
    assert cost.text.startswith(f"+ {words}")


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 40)), min_size=2, max_size=12), st.data())
def test_the_truth_is_within_the_bounds(steps: list[tuple[int, int]], data: st.DataObject) -> None:
    """Whatever was written when, and whenever ends were asked: the records of a stop are within its bounds."""
    written, at_ms = [0], 0
    for pause, count in steps:
        at_ms += pause
        written += [at_ms] * count
    asked = data.draw(st.lists(st.integers(0, at_ms + 20), min_size=2, unique=True).map(sorted))
    since_ms, until_ms = sorted(data.draw(st.tuples(st.integers(0, at_ms), st.integers(0, at_ms))))

    def end(moment_ms: int) -> int:
        return sum(time_ms <= moment_ms for time_ms in written)

    spans = ends(*((moment_ms, end(moment_ms)) for moment_ms in asked))
    cost = Backlog(log_of([(T, 0, 0)]), lambda *_: spans).cost(since_ms, until_ms)
    if asked[0] > since_ms:
        assert cost is None
        return
    assert cost is not None
    truth = end(until_ms) - end(since_ms)
    assert cost.added_least <= truth
    assert cost.added_least <= cost.added
    assert cost.added_most is None or max(truth, cost.added) <= cost.added_most


def test_long_histories_give_the_same_as_all_of_them() -> None:
    """Only the ends near a moment are looked at; a topic that was created again long ago is still told apart."""
    old = ends(*((10_000 * n, 1_000 + n) for n in range(5)), topic_id="old")
    new = ends(*((10_000 * n, n) for n in range(5, 400)))
    backlog = Backlog(log_of([(T, 5_000, 3)]), lambda *_: [*old, *new])
    assert backlog.cost(3_000_000, 3_500_000) is None
    known = Backlog(log_of([(T, 60_000, 3)]), lambda *_: [*old, *new]).cost(3_000_000, 3_500_000)
    assert known is not None
    assert replace(known, text="") == replace(known, added=50, lag_begin=297, lag_end=347, text="")
