"""One sentence a day about what nobody misses."""

from __future__ import annotations

from collections import Counter
from itertools import count

import pytest

from groupreplay.state.events.event import Severity
from groupreplay.state.events.offset_events import OffsetsSummary
from groupreplay.state.job.daily_summary import DayTotal, add_count
from groupreplay.state.job.observations import HeartbeatObservation, ObservationPlace
from groupreplay.state.job_watch import JobWatch
from groupreplay.state.policy.context import DEFAULT_RETENTION_MS
from support.histories import builders

DAY = 86_400_000


def test_a_day_is_summed_when_it_is_over() -> None:
    """By the first heartbeat of another day; the next day begins with nothing."""
    tally, said = DayTotal(), []
    beats = [("r", 0, DAY), ("r", 3, DAY + 9), ("r", 5, 2 * DAY - 1), ("r", 6, 2 * DAY), ("r", 6, 3 * DAY)]
    for run_id, total, at_ms in beats:
        tally, summary = add_count(tally, run_id, total, at_ms)
        said.append(summary)
    told = OffsetsSummary(since_ms=DAY, until_ms=2 * DAY, expired=6)
    assert said == [None, None, None, told, None]


def test_a_new_run_counts_from_nothing() -> None:
    """What the one before had counted stays counted."""
    tally, _ = add_count(DayTotal(), "first", 5, DAY)
    tally, _ = add_count(tally, "second", 2, DAY + 1)
    tally, _ = add_count(tally, "second", 3, DAY + 2)
    assert tally == DayTotal("second", 3, 1, 8)


def test_five_thousand_groups_are_one_event() -> None:
    """However often the job was written down and taken up meanwhile."""
    blob, events, offset = JobWatch(builders.CONTEXT).snapshot(), [], count()
    for hour in range(49):
        watch = JobWatch.from_snapshot(builders.CONTEXT, blob)
        at_ms = DAY + hour * 3_600_000
        beat = HeartbeatObservation(
            at_ms, ObservationPlace("p", 0, next(offset)), at_ms, "run", min(5_000, 300 * hour)
        )
        events += watch.apply([beat, beat])
        blob = watch.snapshot()
    assert [(event.fact, event.time_ms, event.group_id) for event in events] == [
        (OffsetsSummary(since_ms=DAY, until_ms=2 * DAY, expired=5_000), 2 * DAY, None)
    ]


def one_day_of_work(number: int) -> list[builders.Raw]:
    """A group of a console or a test run: joins, commits, ends, and is cleaned up after the retention."""
    at = DAY + 17_000 * number
    swept = at + 3_000 + DEFAULT_RETENTION_MS + 300_000
    return [
        builders.generation(1, builders.member("a", [0]), at=at),
        builders.commit("t", 0, 5, at=at + 2_000),
        builders.emptied(2, at=at + 3_000),
        builders.no_offset("t", 0, at=swept),
        builders.gone(at=swept),
    ]


@pytest.mark.parametrize("groups", [100, pytest.param(5_000, marks=pytest.mark.long)])
def test_groups_that_expire_on_one_day(groups: int) -> None:
    """Warned of, swept and forgotten without a word of WARN; what the job has counted of them is one event."""
    events = [event for number in range(groups) for event in builders.replay(one_day_of_work(number))[1]]
    names = Counter(event.fact.NAME for event in events)
    assert (names["offsets.expired"], names["offsets.expiring"]) == (groups, 2 * groups)
    assert {event.severity or event.fact.severity for event in events} == {Severity.INFO}
    watch = JobWatch(builders.CONTEXT)
    beats = [
        HeartbeatObservation(at, ObservationPlace("p", 0, at), at, "run", names["offsets.expired"])
        for at in (9 * DAY - 1, 9 * DAY)
    ]
    (summary,) = watch.apply(beats)
    assert summary.fact == OffsetsSummary(since_ms=8 * DAY, until_ms=9 * DAY, expired=groups)
