"""The brokers' time as ``watch`` learns it: it writes nothing that a broker would date, so it goes by what it reads.

A coordinator dates each record of the log. It dated one that is behind the high watermark of its partition after that
was asked for, and before the record was read; but followers may have taken half a minute to copy it. Without a question
before it, a record proves only that the brokers' time is not earlier. What is certain is corrected.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import pyarrow as pa

from groupreplay.streaming.base.clock import LEAST_CORRECTION_MS, BrokerClock
from groupreplay.streaming.contract.log import numbers
from groupreplay.streaming.contract.partition_ends import EndsRound, TopicEnds

log = logging.getLogger(__name__)

#: A record is behind the high watermark until all replicas in sync have it: ``replica.lag.time.max.ms``, by default.
REPLICATION_MS: Final = 30_000
#: No coordinator that is further off is believed: such records were written by a test, or copied.
MOST_MS: Final = 86_400_000
#: The last questions: one may have been answered after a record was written, and before it was read.
_QUESTIONS: Final = 2
#: A change of the correction that is logged.
_NEWS_MS: Final = 60_000

_Message = TypeVar("_Message", bound=msgspec.Struct)


class _Bounds(NamedTuple):
    """The brokers' time minus the monotonic clock."""

    least_ms: float
    most_ms: float


class LogClock(BrokerClock):
    """This machine's clock, corrected by what the records of most partitions prove. Thread-safe.

    Each partition has a leader with a clock of its own; one that is wrong must not move the times of all groups.
    """

    def __init__(self, *clocks: Callable[[], Any]) -> None:
        super().__init__(*clocks)
        self._questions: deque[tuple[float, Mapping[int, int]]] = deque(maxlen=_QUESTIONS)
        self._by_partition: dict[int, _Bounds] = {}
        self._said_ms = 0
        self._writer, self._writer_ms = "", 0

    def ask(self, high_watermarks: Callable[[], Mapping[int, int]]) -> Mapping[int, int]:
        """The high watermarks of the log, whose later records are dated later than now."""
        asked = self._seconds()
        ends = high_watermarks()
        with self._lock:
            self._questions.appendleft((asked, ends))
        return ends

    def learn(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Learns from records that were read by now; each batch has those of one partition in their order."""
        read = self._seconds()
        for batch in batches:
            if batch.num_rows:
                self._learn(batch, read)
        self._say()

    def _learn(self, batch: pa.RecordBatch, read: float) -> None:
        partition, offsets, times_ms = (
            batch["partition"][0].as_py(),
            numbers(batch["offset"]),
            batch["timestamp"],
        )
        least_ms, most_ms = int(numbers(times_ms).max()) - 1_000 * read, math.inf
        with self._lock:
            questions = [(asked, ends[partition]) for asked, ends in self._questions if partition in ends]
        for asked, end in questions:
            if offsets[-1] >= end:
                after = int(numbers(times_ms)[offsets.searchsorted(end) :].min())
                most_ms = after + REPLICATION_MS - 1_000 * asked
                break
        base_ms = self._base_ms()
        if least_ms - base_ms > MOST_MS or base_ms - most_ms > MOST_MS:
            return
        with self._lock:
            known = self._by_partition.get(partition, _Bounds(-math.inf, math.inf))
            both = _Bounds(max(least_ms, known.least_ms), min(most_ms, known.most_ms))
            # Another broker leads the partition, or its clock was set.
            self._by_partition[partition] = (
                both if both.least_ms <= both.most_ms else _Bounds(least_ms, most_ms)
            )

    def _off_bounds(self) -> tuple[float, float] | None:
        """How far this machine's clock is ahead at least and at most, as more than half of the partitions prove.

        Those whose records were all written before a question prove nothing of this kind.
        """
        base_ms = self._base_ms()
        with self._lock:
            bounds = [one for one in self._by_partition.values() if one.most_ms < math.inf]
        if not bounds:
            return None
        place = len(bounds) // 2
        least = sorted((base_ms - one.most_ms for one in bounds), reverse=True)[place]
        return least, sorted(base_ms - one.least_ms for one in bounds)[place]

    @property
    def correction_ms(self) -> int:
        """What must be added to this machine's clock to get the brokers' time; 0 while they may agree.

        That a clock is ahead is only said if that is certain. By how much follows from followers that copy at once: the
        corrected clock is behind by what they took, which makes deadlines late, and not early.
        """
        bounds = self._off_bounds()
        if bounds is None or (bounds[0] <= LEAST_CORRECTION_MS and bounds[1] >= -LEAST_CORRECTION_MS):
            return 0
        return -math.floor(bounds[0] + REPLICATION_MS) if bounds[0] > 0 else -math.ceil(bounds[1])

    @property
    def off_ms(self) -> int | None:
        """By how much this machine's clock is ahead (negative: behind), if that is certain; None: nothing is known."""
        return None if self._off_bounds() is None else -self.correction_ms

    def dated(self, message: _Message) -> _Message:
        """What the prober has found, with the brokers' time: its process is on this machine, and corrects nothing.

        The ends that one writer has found all get one correction: they are coded by those of the rounds before.
        """
        by_ms = self.correction_ms
        if isinstance(message, TopicEnds | EndsRound):
            if message.writer != self._writer:
                self._writer, self._writer_ms = message.writer, by_ms
            by_ms = self._writer_ms
        if not by_ms:
            return message
        moments = {name: getattr(message, name, None) for name in ("taken_ms", "answered_ms")}
        changed = {name: max(0, at_ms + by_ms) for name, at_ms in moments.items() if at_ms is not None}
        return msgspec.structs.replace(message, **changed)

    def _say(self) -> None:
        by_ms = self.correction_ms
        if abs(by_ms - self._said_ms) < _NEWS_MS:
            return
        self._said_ms = by_ms
        if not by_ms:
            log.warning("this machine's clock agrees with the brokers' again")
            return
        log.warning(
            "this machine's clock is %s the brokers' by %d s: times are corrected by that; chronyc tracking",
            "ahead of" if by_ms < 0 else "behind",
            abs(by_ms) // 1_000,
        )
