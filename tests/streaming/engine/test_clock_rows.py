"""The row about the coordinators' clocks."""

from __future__ import annotations

from groupreplay.state.job.observations import LogObservation, LogRecord
from groupreplay.streaming.engine.wire import unpack_job
from support.histories.raw_records import Raw, commit
from support.job.packed import packed_by_key


def test_the_last_record_of_each_partition() -> None:
    """One row a chunk, with place and timestamp; whether that is wrong is decided where the heartbeats are known."""
    key, value = commit()
    rows = [Raw(7, 3, 1_000, key, value), Raw(7, 5, -4, b"junk", None), Raw(2, 9, 2**62, key, None)]
    (packed,) = packed_by_key(rows)[b"j:"]
    assert unpack_job([packed]) == [LogObservation((LogRecord(7, 5, -4), LogRecord(2, 9, 2**62)))]
