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
    offset of those that answered. ``partition_count`` None: no broker returned it.
    """

    taken_ms: int
    place: ObservationPlace
    brokers: dict[int, str | None]
    rights: str
    partitions: dict[int, tuple[int, int]]
    partition_count: int | None


class HeartbeatObservation(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """One heartbeat of the job: at ``taken_ms`` everything written before ``caught_up_ms`` was applied.

    ``unmissed_expired`` is the number of events that the run has counted for the daily summary: offsets that expired
    in groups that do not matter. ``dead_letters`` is the number of records that the run could not read,
    ``quarantined`` the number of groups that it has set aside; it tries those of another ``release`` again, and
    with ``retries`` all.
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


JobObservation: TypeAlias = RoundObservation | HeartbeatObservation
