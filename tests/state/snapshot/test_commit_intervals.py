"""The histogram of gaps: buckets, spans, forgotten spans, and independence of batches."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.state.snapshot import commit_intervals
from groupreplay.state.snapshot.offsets import Offsets
from support.histories.builders import Raw, commit, observed, placed, rhythm_of


@pytest.mark.parametrize(
    ("gap_ms", "bucket"),
    [(-5, 0), (0, 0), (63, 0), (64, 1), (127, 1), (128, 2), (5_000, 7), (64 << 18, 19), (1 << 62, 19)],
)
def test_buckets_double(gap_ms: int, bucket: int) -> None:
    """Exact at every edge; a clock that went back counts as no gap, the last bucket has no end."""
    assert commit_intervals.bucket_of(np.array([gap_ms])).tolist() == [bucket]


def test_what_is_usual() -> None:
    """19 gaps of 5 s and one of an hour: 95 % are below the edge above 5 s; a quarter repeated."""
    rhythm = rhythm_of([(1_000, 5_000)] * 19 + [(2_000, 3_600_000)], [True] * 5 + [False] * 15)
    assert commit_intervals.usual(rhythm) == (20, 0.25, 8_192)
    assert commit_intervals.usual(rhythm, 0.96) == (20, 0.25, 64 << 16)
    assert commit_intervals.usual(commit_intervals.nothing()) is None


def test_old_habits_fade() -> None:
    """Only the two newest spans with commits count, in whatever order they are added."""
    spans = [
        rhythm_of([(number * commit_intervals.SPAN_MS, 100)] * (number + 1), [False] * (number + 1))
        for number in (0, 3, 5)
    ]
    for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2)):
        total = commit_intervals.nothing()
        for place in order:
            total = commit_intervals.added(total, spans[place])
        assert (total["span"].tolist(), total["gaps"].sum(axis=1).tolist()) == ([3, 5], [4, 6])


gaps = st.tuples(st.integers(0, 3), st.integers(-(2**60), 2**60), st.integers(0, 2**62), st.booleans())


@given(st.lists(gaps, max_size=30))
def test_counted_as_one_by_one(drawn: list[tuple[int, int, int, bool]]) -> None:
    """For each owner the same rows as a simple count, also for clocks that jump."""
    of, ended, lengths, repeated = (
        (np.array(column) for column in zip(*drawn, strict=True))
        if drawn
        else (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, bool))
    )
    owners, rows = commit_intervals.counted(of, ended, lengths, repeated)
    for owner in range(4):
        mine = [(end, length, again) for who, end, length, again in drawn if who == owner]
        expected = rhythm_of([one[:2] for one in mine], [one[2] for one in mine])
        assert rows[owners == owner].tobytes() == expected.tobytes()


@st.composite
def commits(draw: st.DrawFn) -> list[Raw]:
    """Commits of few partitions with gaps from nothing to hours, many of them of an unchanged offset."""
    at, history = 1_000, []
    for _ in range(draw(st.integers(1, 25))):
        at += draw(st.sampled_from([0, 1, 5_000, 70_000, 2 * 3_600_000]))
        history.append(commit("t", draw(st.integers(0, 2)), draw(st.integers(0, 3)), at=at))
    return placed(history)


@given(commits(), st.data())
def test_the_cut_into_runs_does_not_matter(history: list[Raw], data: st.DataObject) -> None:
    """Rhythm, and since when each offset is the same, are those of one commit after the other."""
    whole, cut, slow = Offsets(), Offsets(), Offsets()
    for item in observed(history).items:
        whole.apply(item, 7)
    places = sorted(data.draw(st.sets(st.integers(0, len(history)))) | {0, len(history)})
    for low, high in pairwise(places):
        for item in observed(history[low:high]).items:
            cut.apply(item, 7)
        cut = Offsets.from_snapshot(cut.snapshot())
    for raw in history:
        slow.apply(observed([raw]).items[0], 7)
    assert whole.snapshot() == cut.snapshot() == slow.snapshot()
    assert int(whole.rhythm["gaps"].sum()) <= len(history) - len(whole)
    assert whole.rhythm["gaps"].shape[1:] == (commit_intervals.BUCKETS,)
