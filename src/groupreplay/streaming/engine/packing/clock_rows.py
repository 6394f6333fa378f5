"""The row that lets the job compare the coordinators' clocks with its heartbeats (``state.job.clocks``)."""

from __future__ import annotations

from collections.abc import Iterable

from groupreplay.state.job.observations import LogObservation, LogRecord
from groupreplay.streaming.engine.wire import JOB_TAG, to_wire


def add_clock_row(
    keys: list[bytes],
    packed: list[bytes],
    partition: Iterable[int],
    offset: Iterable[int],
    timestamp_ms: Iterable[int],
) -> None:
    """Adds one row with the last record of each Kafka partition of a chunk.

    No clock is read: a chunk of years ago gives the same row again.
    """
    last = tuple(
        LogRecord(int(number), int(at), int(dated))
        for number, at, dated in zip(partition, offset, timestamp_ms, strict=True)
    )
    keys.append(JOB_TAG)
    packed.append(to_wire(LogObservation(last)))
