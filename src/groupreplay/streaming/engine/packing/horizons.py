"""The caught-up time that is recorded beside each record, from the heartbeats in ``group-probes``."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from groupreplay.state.plausible_times import LATEST_MS, STEP_MS, UNKNOWN_MS, Times, limit_ms
from groupreplay.streaming.contract.messages import RESERVED
from groupreplay.streaming.contract.probe_messages import HeartbeatMessage, decode_message


@dataclass(slots=True)
class _Ends:
    """Of one partition: the end offsets of heartbeats, rising, and their times."""

    offsets: array[int] = field(default_factory=lambda: array("q"))
    times_ms: array[int] = field(default_factory=lambda: array("q"))

    def note(self, end: int, at_ms: int) -> None:
        """One more heartbeat; of each ``STEP_MS`` the last is kept: a year has a hundred thousand for each partition.

        One that goes back in time or in the log was written by another clock, or forged.
        """
        if self.offsets and (end < self.offsets[-1] or at_ms < self.times_ms[-1]):
            return
        if self.offsets and self.times_ms[-1] // STEP_MS == at_ms // STEP_MS:
            self.offsets[-1], self.times_ms[-1] = end, at_ms
        elif not self.offsets or end > self.offsets[-1]:
            self.offsets.append(end)
            self.times_ms.append(at_ms)


@dataclass(slots=True)
class Horizons:
    """The caught-up time of each record of the log.

    It is that of the first heartbeat whose end offset is behind the record, to five minutes; ``otherwise_ms`` where
    there is none. In the running job a record is read when it is about to be passed: there it is the time of the batch.
    """

    otherwise_ms: int = UNKNOWN_MS
    _ends: dict[int, _Ends] = field(default_factory=dict)

    def note(self, heartbeat: HeartbeatMessage) -> None:
        """Adds a heartbeat; they come in the order of their topic."""
        if heartbeat.caught_up_ms is None:
            return
        for partition, end in heartbeat.offsets.items():
            # Whoever wrote a larger number, it is no offset.
            if end < 1 << 63:
                self._ends.setdefault(partition, _Ends()).note(end, heartbeat.caught_up_ms)

    def reading(
        self, batches: Iterable[pa.RecordBatch], cluster_id: str, era: str
    ) -> Iterator[pa.RecordBatch]:
        """The same batches of messages; adds the heartbeats among them that are about this log."""
        for batch in batches:
            for key, value in zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True):
                # The keys of all other messages are group ids, which are many.
                message = decode_message(key, value) if key == RESERVED else None
                if not isinstance(message, HeartbeatMessage):
                    continue
                if (message.cluster_id, message.era) == (cluster_id, era):
                    self.note(message)
            yield batch

    def last_limit_ms(self) -> int:
        """The latest time that can be in any message written before the last heartbeat."""
        return limit_ms(max((ends.times_ms[-1] for ends in self._ends.values()), default=self.otherwise_ms))

    def first_ms(self, partition: int, offset: int) -> int:
        """The caught-up time of one record; that of later records of the partition is not earlier, unless unknown."""
        ends = self._ends.get(partition)
        place = bisect_right(ends.offsets, offset) if ends else 0
        return ends.times_ms[place] if ends and place < len(ends.offsets) else self.otherwise_ms

    def latest_ms(self, partition: int, offsets: Times, times_ms: Times) -> int:
        """The latest of the times of records of one partition, none of which is after its caught-up time."""
        caught_up_ms = self.caught_up_ms(partition, offsets)
        known = np.where(caught_up_ms > UNKNOWN_MS, np.minimum(times_ms, caught_up_ms), times_ms)
        return int(known[known <= LATEST_MS].max(initial=UNKNOWN_MS))

    def caught_up_ms(self, partition: int, offsets: Times) -> Times:
        """The caught-up times of records of one partition."""
        ends = self._ends.get(partition)
        if ends is None:
            return np.full(len(offsets), self.otherwise_ms, np.int64)
        times = np.append(np.frombuffer(ends.times_ms, np.int64), self.otherwise_ms)
        return times[np.searchsorted(np.frombuffer(ends.offsets, np.int64), offsets, side="right")]
