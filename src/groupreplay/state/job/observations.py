"""Observations about the job itself, as its topics record them: rounds of the prober and heartbeats."""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class ObservationPlace(msgspec.Struct, frozen=True, array_like=True):
    """Where an observation is recorded."""

    topic: str
    partition: int
    offset: int


class RoundObservation(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """One round of the prober.

    ``brokers``: error by broker id, None for brokers that answered. ``partitions``: high watermark and last stable
    offset of those that answered. ``partition_count`` None: no broker returned it. ``leaders``: broker by partition.
    """

    taken_ms: int
    place: ObservationPlace
    brokers: dict[int, str | None]
    rights: str
    partitions: dict[int, tuple[int, int]]
    partition_count: int | None
    leaders: dict[int, int] = {}


class HeartbeatObservation(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """One heartbeat of the job: at ``taken_ms`` everything written before ``caught_up_ms`` was applied.

    ``unmissed_expired`` is the number of events that the run has counted for the daily summary: offsets that expired
    in groups that do not matter. ``dead_letters`` is the number of records that the run could not read,
    ``quarantined`` the number of groups that it has set aside; it tries those of another ``release`` again, and
    with ``retries`` all.

    ``append_ms`` is when the broker appended the message (None: unknown). ``clock_off_ms`` is by how much the driver's
    clock was ahead of the brokers' before it was corrected (None: unknown). ``high_watermarks`` are the ends of the
    log's partitions, in this ``era`` of the topic, read after ``taken_ms``.

    ``unanswered`` are the partitions of the log whose end no broker returned. ``query_stopped_ms``: since when no query
    has read the log (None: it is read), for the reason ``query_error``. ``told_to``: the driver has published the
    events of all observations below this offset of the topic itself.
    """

    taken_ms: int
    place: ObservationPlace
    caught_up_ms: int | None
    run_id: str = ""
    unmissed_expired: int = 0
    dead_letters: int = 0
    quarantined: int = 0
    release: str = ""
    retries: bool = False
    append_ms: int | None = None
    clock_off_ms: int | None = None
    era: str = ""
    high_watermarks: dict[int, int] = {}
    unanswered: tuple[int, ...] = ()
    query_stopped_ms: int | None = None
    query_error: str = ""
    told_to: int = 0


class LogRecord(msgspec.Struct, frozen=True, array_like=True):
    """A record of the offsets topic: its place and its timestamp."""

    partition: int
    offset: int
    timestamp_ms: int


class LogObservation(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The last record of each Kafka partition in one chunk of the log."""

    records: tuple[LogRecord, ...]


#: Observations that the job's topic records.
JobObservation: TypeAlias = RoundObservation | HeartbeatObservation
