"""Commits over time: widths of buckets, counts, usual gaps and pauses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from groupreplay.timeline.commit_rates import CommitLog, bucket_width_ms, commit_counts, pauses, usual_gap_ms

SECOND = 1_000


def log(**times_s: list[int]) -> CommitLog:
    """Commits at these seconds; ``a0`` is partition 0 of topic a."""
    places = tuple((name[0], int(name[1:])) for name in times_s)
    rows = sorted((at * SECOND, number) for number, times in enumerate(times_s.values()) for at in times)
    return CommitLog(
        places=places,
        place=np.array([number for _, number in rows], np.int64),
        at_ms=np.array([at_ms for at_ms, _ in rows], np.int64),
    )


def test_widths() -> None:
    """The smallest round width with which the buckets cover the span, and not below the least one."""
    found = [
        bucket_width_ms(span * SECOND, 100, least * SECOND)
        for span, least in ((50, 0), (100, 0), (101, 0), (50, 7))
    ]
    assert found == [1 * SECOND, 1 * SECOND, 2 * SECOND, 10 * SECOND]
    assert bucket_width_ms(10**12, 100) == 10**10


def test_counts() -> None:
    """By topic, from the begin of the time on; its end is excluded, and a topic without commits is left out."""
    found = commit_counts(log(a0=[0, 5, 10, 19, 20], a1=[5], b0=[30]), 0, 20 * SECOND, 10 * SECOND)
    assert found == {"a": [3, 2]}
    assert commit_counts(CommitLog(), 0, 20 * SECOND, 10 * SECOND) == {}


def test_the_usual_gap() -> None:
    """The median of the gaps of each partition; gaps between partitions do not count."""
    assert usual_gap_ms(log(a0=[0, 10, 20, 100], a1=[5, 15])) == 10 * SECOND
    assert usual_gap_ms(log(a0=[5])) == 0


def test_pauses() -> None:
    """A gap of five usual ones and at least half a minute, and the time to the end; never for a rare committer."""
    times = [*range(0, 100, 10), *range(200, 300, 10)]
    found = pauses(log(a0=times, a1=[0, 290], b0=list(range(0, 360, 10))), 0, 360 * SECOND)
    assert found == {("a", 0): [(90 * SECOND, 200 * SECOND), (290 * SECOND, 360 * SECOND)]}


def test_pauses_are_cut_at_the_window() -> None:
    """A pause that began before the window begins with it."""
    times = [*range(0, 100, 10), *range(200, 300, 10)]
    found = pauses(log(a0=times), 150 * SECOND, 250 * SECOND)
    assert found == {("a", 0): [(150 * SECOND, 200 * SECOND)]}


def test_which_partitions_committed() -> None:
    """Those with a commit in the time, its end excluded."""
    assert log(a0=[0], a1=[10], b7=[20]).partitions_committed(10 * SECOND, 20 * SECOND) == {("a", 1)}


def test_a_time_of_which_the_log_lacks_records_is_no_pause() -> None:
    """Only the parts that were read whole can be one; a part as short as is usual is none."""
    times = [*range(0, 100, 10), *range(300, 400, 10)]
    whole = log(a0=times)
    gaps = ((150 * SECOND, 160 * SECOND), (290 * SECOND, 300 * SECOND))
    parts = [(90 * SECOND, 150 * SECOND), (160 * SECOND, 290 * SECOND)]
    assert pauses(whole, 0, 390 * SECOND) == {("a", 0): [(90 * SECOND, 300 * SECOND)]}
    assert pauses(replace(whole, gaps=gaps), 0, 390 * SECOND) == {("a", 0): parts}
    assert pauses(replace(whole, gaps=((100 * SECOND, 280 * SECOND),)), 0, 390 * SECOND) == {}


def test_the_gaps_of_a_time() -> None:
    """Cut at its ends; those that are close are one."""
    found = CommitLog(gaps=((0, 10), (12, 20), (40, 50)))
    assert found.gaps_in(5, 45) == [(5, 10), (12, 20), (40, 45)]
    assert found.gaps_in(5, 45, within_ms=2) == [(5, 20), (40, 45)]
    assert found.gaps_in(21, 39) == []
