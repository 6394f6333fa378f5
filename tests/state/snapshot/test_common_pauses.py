"""The pauses of a whole group."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from groupreplay.state.snapshot.common_pauses import Resumed, ended_by, noted, pauses, working_since_ms
from groupreplay.state.snapshot.observations import LULL_MS
from support.histories.builders import Raw, commit, observed, placed

_SECOND = 1_000
#: Of (seconds since the commit before, partition).
_COMMITS = st.lists(
    st.tuples(st.sampled_from((0, 1, 7, 19, 20, 33, 41, 70, 90)), st.integers(0, 2)), min_size=2
)


def _history(commits: list[tuple[int, int]]) -> list[Raw]:
    history, at = [], 1_000 * _SECOND
    for gap_s, partition in commits:
        at += gap_s * _SECOND
        history.append(commit("t", partition, 5, at=at))
    return placed(history)


def _read(history: list[Raw], newest_ms: int | None, resumed: Resumed) -> Resumed:
    for run in observed(history).items:
        resumed = noted(resumed, pauses(run, newest_ms))
        newest_ms = run.last_ms
    return resumed


@given(_COMMITS, st.sets(st.integers(1, 200), max_size=5))
def test_pauses_do_not_depend_on_runs(commits: list[tuple[int, int]], cuts: set[int]) -> None:
    """Read at once, in parts, or one commit after the other: the last pause of each length is the same."""
    history = _history(commits)
    times = [raw.at for raw in history]
    plain = [(after - before, after) for before, after in pairwise(times) if after - before >= LULL_MS]
    expected: list[int] = []
    for place in range(14):
        expected += [end for length, end in plain if length >= LULL_MS << place][-1:]
    bounds = sorted({0, len(history), *(cut for cut in cuts if cut < len(history))})
    resumed, newest_ms = Resumed(), None
    for begin, end in pairwise(bounds):
        resumed = _read(history[begin:end], newest_ms, resumed)
        newest_ms = history[end - 1].at
    assert _read(history, None, ()) == resumed == tuple(expected)


def test_since_when_a_group_works() -> None:
    """A pause counts where it is half the limit, rounded down to 20 s, 40 s, 80 s and so on."""
    resumed = (900, 700, 300)
    asked = {
        limit_s: working_since_ms(resumed, limit_s * _SECOND) for limit_s in (1, 45, 79, 80, 159, 160, 400)
    }
    assert asked == {1: 900, 45: 900, 79: 900, 80: 700, 159: 700, 160: 300, 400: -1}
    assert working_since_ms((), 45 * _SECOND) == -1


def test_a_clock_that_is_set_back() -> None:
    """No pause has ended later than now."""
    assert ended_by((900, 700, 300), 500) == (500, 500, 300)
