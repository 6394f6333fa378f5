"""Packing in a task of the query."""

from __future__ import annotations

import pytest

from groupreplay.streaming.engine.wire import HEARTBEAT_TAG, JOB_TAG, unpack_bad_records
from groupreplay.streaming.spark import log_task
from groupreplay.streaming.spark.log_task import pack_log, pack_stream
from support.histories.raw_records import batches, commit, log

NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("clock_ms", "correction_ms", "reported"),
    [
        (NOW_MS, 0, False),
        (NOW_MS - 1, 0, True),
        (NOW_MS - 30 * DAY_MS, 30 * DAY_MS, False),
        (NOW_MS + 1, -2, True),
        (5, 0, False),
    ],
)
def test_the_corrected_clock_is_the_caught_up_time(
    monkeypatch: pytest.MonkeyPatch, clock_ms: int, correction_ms: int, reported: bool
) -> None:
    """A commit a day after it can be; one millisecond more cannot, and is reported. A clock at 1970 decides nothing."""
    monkeypatch.setattr(log_task, "now_ms", lambda: clock_ms)
    rows = log([commit("g", commit_timestamp_ms=NOW_MS + DAY_MS)])
    (table,) = pack_log(batches(rows), correction_ms)
    packed = dict(zip(table["key"].to_pylist(), table["packed"].to_pylist(), strict=True))
    assert set(packed) - {JOB_TAG} == ({b"g:g", b"x:0"} if reported else {b"g:g"})
    if reported:
        (bad,) = unpack_bad_records([packed[b"x:0"]])
        assert (bad.record.kind, bad.record.field) == ("timestamp", "commitTimestamp")


@pytest.mark.parametrize(("timed", "latest_ms"), [(True, [NOW_MS - 5]), (False, [])])
def test_the_newest_record_is_the_time_of_a_stream(
    monkeypatch: pytest.MonkeyPatch, timed: bool, latest_ms: list[int]
) -> None:
    """In a row of its own, if it is asked for; a record that is dated after now does not count."""
    monkeypatch.setattr(log_task, "now_ms", lambda: NOW_MS)
    rows = log([commit("g"), commit("g"), commit("g")])
    stamped = [
        row._replace(timestamp_ms=at_ms)
        for row, at_ms in zip(rows, (NOW_MS - 9, NOW_MS - 5, NOW_MS + 1), strict=True)
    ]
    packed = [row for batch in pack_stream(batches(stamped), timed=timed) for row in batch.to_pylist()]
    times = [row["caught_up"].timestamp() * 1_000 for row in packed if row["key"] == HEARTBEAT_TAG]
    assert times == latest_ms
    assert b"g:g" in {row["key"] for row in packed}
