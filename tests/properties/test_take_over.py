"""The events after a take-over are those of a job that was never killed."""

from __future__ import annotations

from dataclasses import replace

from groupreplay.state import Context
from groupreplay.streaming.engine.advance import advance
from groupreplay.streaming.engine.wire import GROUP_TAG
from support.histories.builders import commit
from support.job.captures import raw
from support.job.packed import packed_by_key
from support.job.replays import events_of

CONTEXT = Context(cluster_id="c")
NOW_MS = 10_000_000


def test_what_another_job_has_told_counts_and_is_not_written() -> None:
    """After a take-over the events are those that the other job would have emitted, from a time on.

    A group has the same event once a minute: the one before the take-over counts, although it is not written.
    """
    commits = [
        commit("t", 0, offset, at=at)
        for at, offset in [
            (1_000, 9_000),
            (10_000, 500),
            (20_000, 9_000),
            (30_000, 400),
            (90_000, 9_000),
            (95_000, 3),
        ]
    ]
    ((key, blobs),) = (one for one in packed_by_key(raw(commits)).items() if one[0].startswith(GROUP_TAG))
    whole = advance(key, None, blobs, now_ms=NOW_MS, recorded_ms=NOW_MS, context=CONTEXT)
    taken = advance(
        key, None, blobs, now_ms=NOW_MS, recorded_ms=NOW_MS, context=replace(CONTEXT, told_until_ms=25_000)
    )
    events, told = events_of(whole.rows), events_of(taken.rows)
    later = [one for one in events if one["time"] >= "1970-01-01T00:00:25"]
    assert len(later) < len(events)
    assert told == later
    assert taken.blob == whole.blob
