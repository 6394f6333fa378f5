"""How far a group is known: in its log, and by the prober."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from groupreplay.state.snapshot.observations import ProbeAnswer


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
    pending: list[PendingRecord] = []
    setbacks: int = 0


class ProbeQueue(msgspec.Struct, array_like=True):
    """Probes ``waiting`` until the log has been read up to the time at which they were known.

    The latest probe comes first: the next one is taken from the end, whatever the number of those that wait.
    ``applied_ms`` is that time of the last one that was applied, ``applied_offset`` its offset. ``interval_ms`` is the
    interval at which the prober asks, according to its last answer.
    """

    waiting: list[ProbeAnswer] = []
    applied_ms: int = -1
    interval_ms: int = 10_000
    applied_offset: int = -1

    def add(self, probes: Iterable[ProbeAnswer]) -> None:
        """Let more probes wait; those that wait already are not added again."""
        self.waiting = sorted({*self.waiting, *probes}, key=_by_time, reverse=True)


def _by_time(probe: ProbeAnswer) -> tuple[int, int]:
    return probe.heard_ms, probe.offset
