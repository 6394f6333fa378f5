"""How far a group is known: in its log, and by the prober."""

from __future__ import annotations

import msgspec

from groupreplay.state.snapshot.observations import Probe


class PendingRecord(msgspec.Struct, frozen=True, array_like=True):
    """A record of an operation whose end has not been read yet, as its bytes."""

    offset: int
    timestamp_ms: int
    key: bytes
    value: bytes | None


class LogPosition(msgspec.Struct, array_like=True):
    """The place in the log. ``last_offset`` is that of the last record applied or pending, -1 for none.

    ``clock_ms`` is the latest time of the log up to which everything that was due has been done. ``setbacks`` counts
    how often the clock of the log went back by more than a minute.
    """

    era: str = "0"
    partition: int = -1
    last_offset: int = -1
    last_timestamp_ms: int = -1
    clock_ms: int = -1
    pending: tuple[PendingRecord, ...] = ()
    setbacks: int = 0


class ProbeQueue(msgspec.Struct, array_like=True):
    """Probes ``waiting`` until the log has been read up to their time; ``applied_ms`` is the time of the last applied.

    ``interval_ms`` is the interval at which the prober asks, according to its last answer.
    """

    waiting: tuple[Probe, ...] = ()
    applied_ms: int = -1
    interval_ms: int = 10_000
