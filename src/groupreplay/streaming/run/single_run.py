"""When a single run has ended: a heartbeat from after its start has passed the query, and no timer of before is left.

A heartbeat says up to which time the log has been applied. The batch that reads it takes that time over as the
watermark of the next batches. Only they evaluate the deadlines up to it, in the calls whose timers are due.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from groupreplay.state.phrases import timestamp
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.run.interface import Batch

#: How long a run that has read everything waits for the prober's first round: a broker may not answer it.
PROBER_SECONDS: Final = 60.0


@dataclass(slots=True, kw_only=True)
class SingleRun:
    """Follows the batches of a run, and knows when it has done its work.

    ``clock`` is the brokers' time, ``machine_ms`` that of this machine, by which batches and timers are dated.
    ``settle_seconds``: a timer that an ordinary run has set may be as late as its trigger. ``is_probing``: the run also
    ends only when the answers of one round of the prober were applied; ``is_synced``: the documents need no request.
    """

    clock: Callable[[], int]
    settle_seconds: float
    is_probing: bool
    is_synced: Callable[[], bool]
    machine_ms: Callable[[], int] = now_ms
    seconds: Callable[[], float] = time.monotonic
    #: The caught-up time that must pass.
    _target_ms: int = field(init=False)
    #: Timers of before may be due until this time of the machine.
    _settled_ms: int = field(default=0, init=False)
    #: The latest caught-up time that a batch of the query has read.
    _read_ms: int = field(default=-1, init=False)
    _last_end_ms: int = field(default=0, init=False)
    _passed_ms: int | None = field(default=None, init=False)
    _passed_at: float | None = field(default=None, init=False)
    _has_round: bool = field(default=False, init=False)
    #: Batches, rounds and the question come from three threads.
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        self._target_ms = self.clock()

    def query_started(self) -> None:
        """A query was started: its first batch may be an earlier one that is repeated, with the time of then."""
        with self._lock:
            # A clock that was set, or corrected, starts the query again.
            self._target_ms = min(self._target_ms, self.clock())
            self._read_ms = -1
            self._settled_ms = self.machine_ms() + round(1_000 * self.settle_seconds)

    def round_reported(self) -> None:
        """The prober has written a round: heartbeats from now on lie behind its answers."""
        with self._lock:
            if not self._has_round:
                self._has_round, self._passed_ms = True, None
                self._target_ms = self.clock()
                self._settled_ms = max(self._settled_ms, self._last_end_ms)

    def take(self, batch: Batch) -> None:
        """Takes a finished batch."""
        with self._lock:
            self._last_end_ms = batch.started_ms + round(1_000 * batch.seconds)
            if batch.evaluated_to_ms < self._target_ms:
                # Deadlines that wait for a later watermark have got timers in this batch.
                self._settled_ms = max(self._settled_ms, self._last_end_ms)
            elif self._read_ms >= self._target_ms and batch.started_ms >= self._settled_ms:
                self._passed_ms = min(batch.evaluated_to_ms, self._read_ms)
                if self._passed_at is None:
                    self._passed_at = self.seconds()
            self._read_ms = max(self._read_ms, batch.caught_up_ms)

    def has_ended(self) -> bool:
        """Whether everything was read and evaluated, as far as it is known at this moment."""
        with self._lock:
            if self._passed_ms is None or self._passed_at is None:
                return False
            is_late = self.seconds() - self._passed_at >= PROBER_SECONDS
            if self.is_probing and not self._has_round and not is_late:
                return False
        return self.is_synced()

    def last_words(self, records: int, events: int) -> str:
        """What was done, and what nobody knows until the next run."""
        to = "" if self._passed_ms is None else f" up to {timestamp(self._passed_ms)}"
        asked = "" if self._has_round or not self.is_probing else " (the prober has not answered)"
        return (
            f"single run: everything{to} is read and evaluated{asked}, {records:,} records, {events:,} events; "
            "until the next run nobody sees classic groups that hang in a rebalance, and all events come late"
        )
