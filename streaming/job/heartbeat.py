"""The driver's heartbeat: up to which time the log has been applied, written to Kafka for the groups and for users.

A group's function does not know how far its partition has been read. So the driver takes the ends of the log at a
time T, and when the query has read to all of them it publishes T: every record written before T has been applied.
A broker that does not answer is asked again later.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from groupreplay import __version__
from groupreplay.streaming.base.broker_clock import BrokerClock
from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.contract.probe_messages import HeartbeatMessage, encode_message
from groupreplay.streaming.engine.json_messages import job_row
from groupreplay.streaming.job.job_status import JobReport
from groupreplay.streaming.kafka.publisher import publish_smaller

log = logging.getLogger(__name__)

_TICK_SECONDS: Final = 0.25
#: A batch that ends has read to the latest ends taken before it began: the more often they are taken, the later T is.
_ENDS_PER_TRIGGER: Final = 8
_MOST_ENDS: Final = 64
_LONGEST_PAUSE_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class _LogEnds:
    """The ends of the log at one time, which the query has not read to yet."""

    taken_ms: int
    ends: Mapping[int, int]


@dataclass(slots=True, kw_only=True)
class HeartbeatWriter:
    """Writes heartbeats and the job's document; ``tick`` is called often and does what is due.

    ``ends`` returns the end of each partition (read committed), ``high_watermarks`` the end behind the records of open
    transactions, too; ``progress`` the batches that finished since its last
    call; ``publish`` takes topic, key and value and raises when the broker has not taken the message. The times
    that are written are those of ``clock``; what is due goes by ``seconds``, which no one can set.
    """

    report: JobReport
    topics: TopicNames
    ends: Callable[[], Mapping[int, int]]
    high_watermarks: Callable[[], Mapping[int, int]]
    progress: Callable[[], list[Mapping[str, Any]]]
    publish: Callable[[str, bytes, bytes], None]
    clock: BrokerClock
    seconds: Callable[[], float] = time.monotonic
    _unread: list[_LogEnds] = field(default_factory=list, init=False)
    _passed_ends: Mapping[int, int] = field(default_factory=dict, init=False)
    _next_ends: float = field(default=-math.inf, init=False)
    _next_message: float = field(default=-math.inf, init=False)
    _next_document: float = field(default=-math.inf, init=False)

    def tick(self) -> None:
        """Records the progress, takes the ends of the log, writes the heartbeat and the document when they are due.

        When a batch has read to ends that were taken before it, the heartbeat follows at once, so that the next batch
        reads it. Otherwise the last heartbeat is repeated once per trigger: it shows how far behind the job is.
        """
        trigger_seconds = self.report.identity.trigger_seconds
        known_batch = self.report.last_batch_id
        self.report.take(self.progress())
        if self.seconds() >= self._next_ends:
            asked = self.seconds()
            self._take_ends()
            self._next_ends = asked + trigger_seconds / _ENDS_PER_TRIGGER
        advanced = self._update_caught_up() and self.report.last_batch_id != known_batch
        if advanced or self.seconds() >= self._next_message:
            self.write_heartbeat()
        if self.seconds() >= self._next_document:
            self.publish_document()
            self._next_document = self.seconds() + trigger_seconds

    def _take_ends(self) -> None:
        # The time first: records written while the broker answers are not covered by these ends.
        taken_ms = self.clock.now_ms()
        self.report.ends = self.ends()
        self._unread.append(_LogEnds(taken_ms, self.report.ends))
        if len(self._unread) > _MOST_ENDS:
            # A job that is far behind: coarser steps are enough.
            del self._unread[1::2]

    def _update_caught_up(self) -> bool:
        """Whether the query has read to any of the ends that were taken."""
        read = self.report.read()
        # By place, not by time: the clock may have been set back in between.
        passed = max(
            (place for place, one in enumerate(self._unread, 1) if _passed(one.ends, read)), default=0
        )
        if passed:
            last = self._unread[passed - 1]
            self.report.caught_up_ms, self._passed_ends = last.taken_ms, last.ends
            del self._unread[:passed]
        return passed > 0

    def publish_document(self) -> None:
        """Writes the job's document as it is now."""
        document = self.report.document(self.clock.now_ms(), self.clock.off_ms)

        def encode(limit: int | None) -> tuple[bytes, bytes]:
            row = job_row(document, limit)
            return row.key, row.value or b""

        publish_smaller(partial(self.publish, self.topics.job), encode)

    def _known_high_watermarks(self) -> dict[int, int]:
        """Empty if a broker does not answer: the heartbeat is needed all the same."""
        try:
            return dict(sorted(self.high_watermarks().items()))
        except Exception as error:  # whatever it is, only the check of the brokers' clocks is put off
            log.debug("no high watermarks for now: %s", error)
            return {}

    def write_heartbeat(self) -> None:
        """Writes the heartbeat as it is now, also to wake Spark: without data it runs no batch and no timer."""
        identity, now_ms = self.report.identity, self.clock.now_ms()
        message = HeartbeatMessage(
            cluster_id=identity.cluster_id,
            era=identity.era,
            job_id=identity.job_id,
            run_id=identity.run_id,
            at_ms=now_ms,
            caught_up_ms=self.report.caught_up_ms,
            offsets=dict(sorted(self._passed_ends.items())),
            unmissed_expired=self.report.unmissed_expired,
            dead_letters=self.report.dead_letters,
            quarantined=self.report.quarantined,
            release=__version__,
            retries=self.report.retries_quarantined,
            high_watermarks=self._known_high_watermarks(),
            clock_off_ms=self.clock.off_ms,
        )
        publish_smaller(partial(self.publish, self.topics.probes), partial(encode_message, message))
        self.report.announced_ms = self.report.caught_up_ms
        self._next_message = self.seconds() + identity.trigger_seconds


def _passed(ends: Mapping[int, int], read: Mapping[int, int]) -> bool:
    return bool(read) and all(read.get(partition, 0) >= end for partition, end in ends.items())


class HeartbeatThread:
    """Calls ``HeartbeatWriter.tick`` in the background until it is closed; retries failures after a pause."""

    def __init__(self, writer: HeartbeatWriter) -> None:
        self._writer = writer
        self._closed = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="groupreplay-heartbeat", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def wake_query(self) -> None:
        """Makes Spark run a batch by a message; call it when a query was started."""
        self._wake.set()

    def close(self, seconds: float = 5.0) -> None:
        """Stops, and writes the document a last time, within these seconds."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _run(self) -> None:
        pause = _TICK_SECONDS
        while not self._closed.wait(pause):
            error = _failure(self._tick)
            if error is not None:
                # One warning for each outage.
                level = logging.WARNING if pause == _TICK_SECONDS else logging.DEBUG
                log.log(level, "no heartbeat for now: %s", error)
            pause = _TICK_SECONDS if error is None else min(2 * pause, _LONGEST_PAUSE_SECONDS)
        _failure(self._writer.publish_document)

    def _tick(self) -> None:
        if self._wake.is_set():
            self._writer.write_heartbeat()
            self._wake.clear()
        self._writer.tick()


def _failure(action: Callable[[], None]) -> Exception | None:
    try:
        action()
    except Exception as error:  # whatever it is, the next attempt may succeed
        return error
    return None
