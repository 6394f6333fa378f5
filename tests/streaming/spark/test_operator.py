"""How long a timer waits that is due before the log is read so far. Packing in a task of the query."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupreplay.state import Context
from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.engine.wire import JOB_TAG, unpack_bad_records
from groupreplay.streaming.spark import operator
from groupreplay.streaming.spark.operator import Job, _trail_ms, pack_log
from support.histories.raw_records import batches, commit, log

NOW_MS = 1_700_000_000_000
JOB = Job(context=Context(cluster_id="c"), topics=TopicNames())


@pytest.mark.parametrize(
    ("run_for_ms", "behind_ms", "trail_ms"),
    [
        (1_000, NOW_MS, 10_000),
        (100_000, NOW_MS, 300_000),
        (100_000, 100_001, 100_001),
        (100_000, 100_000, 10_000),
        (100_000, 3_000, 3_000),
    ],
)
def test_a_timer_waits_for_the_backlog(run_for_ms: int, behind_ms: int, trail_ms: int) -> None:
    """While the log of before the start is read, it waits three times as long as that has taken; afterwards not."""
    started = replace(JOB, started_ms=NOW_MS - run_for_ms)
    assert _trail_ms(started, NOW_MS, NOW_MS - behind_ms) == trail_ms


def test_a_single_run_waits_for_nothing() -> None:
    """Its last batch must find every timer due."""
    assert _trail_ms(replace(JOB, started_ms=NOW_MS - 100_000, retry_ms=0), NOW_MS, 0) == 0


@pytest.mark.parametrize("batches", [5, 50, 500])
def test_calls_in_vain_stay_fewer_than_the_groups(batches: int) -> None:
    """However long the backlog is: 1 000 groups whose deadlines have passed, read in batches of 20 s."""
    groups, batch_ms, vain = 1_000, 20_000, 0
    started = replace(JOB, started_ms=NOW_MS)
    timers: list[int] = []
    for number in range(1, batches + 1):
        at_ms = NOW_MS + number * batch_ms
        due = sum(timer < at_ms for timer in timers)
        vain += due
        timers = [timer for timer in timers if timer >= at_ms]
        timers += [at_ms + _trail_ms(started, at_ms, 0)] * (due + groups // batches)
    assert vain < groups / 2
    assert max(timers) <= NOW_MS + 4 * batches * batch_ms


READ_MS = 1_800_000_000_000
DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("clock_ms", "correction_ms", "reported"),
    [
        (READ_MS, 0, False),
        (READ_MS - 1, 0, True),
        (READ_MS - 30 * DAY_MS, 30 * DAY_MS, False),
        (READ_MS + 1, -2, True),
        (5, 0, False),
    ],
)
def test_the_corrected_clock_is_the_caught_up_time(
    monkeypatch: pytest.MonkeyPatch, clock_ms: int, correction_ms: int, reported: bool
) -> None:
    """A commit a day after it can be; one millisecond more cannot, and is reported. A clock at 1970 decides nothing."""
    monkeypatch.setattr(operator, "now_ms", lambda: clock_ms)
    rows = log([commit("g", commit_timestamp_ms=READ_MS + DAY_MS)])
    (table,) = pack_log(batches(rows), correction_ms)
    packed = dict(zip(table["key"].to_pylist(), table["packed"].to_pylist(), strict=True))
    assert set(packed) - {JOB_TAG} == ({b"g:g", b"x:0"} if reported else {b"g:g"})
    if reported:
        (bad,) = unpack_bad_records([packed[b"x:0"]])
        assert (bad.record.kind, bad.record.field) == ("timestamp", "commitTimestamp")
