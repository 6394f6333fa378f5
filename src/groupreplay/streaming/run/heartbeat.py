"""The driver's heartbeat: up to which time the log has been applied, written to Kafka for the groups and for users.

A group's function does not know how far its partition has been read. So the driver takes the ends of the log at a
time T, and when the query has read to all of them it publishes T: every record written before T has been applied.
Heartbeats and the job's document are written whatever the log and the query do: they also say what does not answer.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from groupreplay.streaming.base.background import Background
from groupreplay.streaming.base.clock import BrokerClock
from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.contract.probe_messages import HeartbeatMessage, encode_message
from groupreplay.streaming.engine.json_messages import job_row
from groupreplay.streaming.kafka.publisher import publish_smaller
from groupreplay.streaming.run.interface import Batch
from groupreplay.streaming.run.status import JobReport
from groupreplay.version import __version__

log = logging.getLogger(__name__)

_TICK_SECONDS: Final = 0.25
#: A batch that ends has read to the latest ends taken before it began: the more often they are taken, the later T is.
_ENDS_PER_TRIGGER: Final = 8
_MOST_ENDS: Final = 64
_LONGEST_PAUSE_SECONDS: Final = 5.0
#: Heartbeats are at most this far apart while something is wrong, however long the trigger is.
#: One that failed is repeated after the second time.
_TROUBLE_SECONDS: Final = 10.0
_RETRY_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class _LogEnds:
    """The ends of the log at one time, which the query has not read to yet."""

    taken_ms: int
    ends: Mapping[int, int]


@dataclass(slots=True, kw_only=True)
class HeartbeatWriter:
    """Writes heartbeats and the job's document; ``tick`` is called often and does what is due.

    ``ends`` returns the end of each of the ``partitions`` (read committed), ``high_watermarks`` the end behind the
    records of open transactions, too; both without the partitions that do not answer. ``progress`` returns the batches
    that finished since its last call; ``publish`` takes topic, key and value and raises when the broker has not taken
    the message. The times that are written are those of ``clock``; what is due goes by ``seconds``, which no one can
    set.
    """

    report: JobReport
    topics: TopicNames
    partitions: int
    ends: Callable[[], Mapping[int, int]]
    high_watermarks: Callable[[], Mapping[int, int]]
    progress: Callable[[], Sequence[Batch]]
    publish: Callable[[str, bytes, bytes], None]
    clock: BrokerClock
    seconds: Callable[[], float] = time.monotonic
    _unread: list[_LogEnds] = field(default_factory=list, init=False)
    _passed_ends: Mapping[int, int] = field(default_factory=dict, init=False)
    _next_ends: float = field(default=-math.inf, init=False)
    _next_message: float = field(default=-math.inf, init=False)
    _next_document: float = field(default=-math.inf, init=False)
    _unanswered: tuple[int, ...] = field(default=(), init=False)
    _is_running: bool = field(default=True, init=False)
    _is_wanted: threading.Event = field(default_factory=threading.Event, init=False)

    def tick(self) -> None:
        """Records the progress, takes the ends of the log, writes the heartbeat and the document when they are due.

        When a batch has read to ends that were taken before it, the heartbeat follows at once, so that the next batch
        reads it. Otherwise the last heartbeat is repeated once per trigger: it shows how far behind the job is.
        """
        if self._is_wanted.is_set():
            self._is_wanted.clear()
            self.make_due()
        known_batch = self.report.last_batch_id
        failures = [_failure(self._take_progress)]
        if self.seconds() >= self._next_ends:
            failures.append(_failure(self._take_ends))
        advanced = self._update_caught_up() and self.report.last_batch_id != known_batch
        if self._is_news() or advanced or self.seconds() >= self._next_message:
            failures.append(_failure(self.write_heartbeat))
        if self.seconds() >= self._next_document:
            failures.append(_failure(self.publish_document))
        # All were tried: one topic may be writable although another one is not.
        for failure in failures:
            if failure is not None:
                raise failure

    def background(self) -> Background:
        """The thread that calls ``tick``, and in the end writes the document a last time."""
        return Background(
            name="heartbeat",
            tick=self.tick,
            pause_seconds=_TICK_SECONDS,
            retry_seconds=2 * _TICK_SECONDS,
            longest_seconds=_LONGEST_PAUSE_SECONDS,
            failing="no heartbeat for now",
            at_end=lambda _: self.publish_document(),
        )

    def wake_query(self) -> None:
        """Has the next ``tick`` write a heartbeat, from any thread: without data Spark runs no batch and no timer."""
        self._is_wanted.set()

    def make_due(self) -> None:
        """The heartbeat is due now; call it in the thread of ``tick``."""
        self._next_message = -math.inf

    def _is_news(self) -> bool:
        """Whether the query has stopped, or goes on, since the last call."""
        was_running, self._is_running = (
            self._is_running,
            self.report.query.status(self.clock.now_ms()).running,
        )
        return was_running != self._is_running

    def _take_progress(self) -> None:
        self.report.take(self.progress())

    def _take_ends(self) -> None:
        asked = self.seconds()
        # The time first: records written while the broker answers are not covered by these ends.
        taken_ms = self.clock.now_ms()
        ends: Mapping[int, int] = {}
        try:
            ends = self.ends()
        finally:
            # What did not answer may hold anything: only the ends of all partitions together prove a time.
            before = self._unanswered
            self._unanswered = tuple(number for number in range(self.partitions) if number not in ends)
            if self._unanswered != before:
                self.make_due()
            self.report.ends = {**self.report.ends, **ends}
            self._next_ends = asked + self.report.identity.trigger_seconds / _ENDS_PER_TRIGGER
        if self._unanswered:
            return
        self._unread.append(_LogEnds(taken_ms, ends))
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
        self._next_document = self.seconds() + self.report.identity.trigger_seconds
        document = self.report.document(self.clock.now_ms(), self.clock.off_ms)

        def encode(limit: int | None) -> tuple[bytes, bytes]:
            row = job_row(document, limit)
            return row.key, row.value or b""

        publish_smaller(partial(self.publish, self.topics.job), encode)

    def _known_high_watermarks(self) -> dict[int, int]:
        """Empty if a broker does not answer: the heartbeat is needed all the same."""
        if self._unanswered:
            return {}
        try:
            return dict(sorted(self.high_watermarks().items()))
        except Exception as error:  # whatever it is, only the check of the brokers' clocks is put off
            log.debug("no high watermarks for now: %s", error)
            return {}

    def write_heartbeat(self) -> None:
        """Writes the heartbeat as it is now."""
        identity, now_ms = self.report.identity, self.clock.now_ms()
        query = self.report.query.status(now_ms)
        # Also when it fails: the document must not wait for a topic that cannot be written.
        self._next_message = self.seconds() + _RETRY_SECONDS
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
            unanswered=self._unanswered,
            query_stopped_ms=None if query.running else query.since_ms,
            query_error=query.error or "",
            told_to=self.report.told_to,
        )
        publish_smaller(partial(self.publish, self.topics.probes), partial(encode_message, message))
        self.report.announced_ms = self.report.caught_up_ms
        is_well = query.running and not self._unanswered
        pause = identity.trigger_seconds if is_well else min(identity.trigger_seconds, _TROUBLE_SECONDS)
        self._next_message = self.seconds() + pause


def _passed(ends: Mapping[int, int], read: Mapping[int, int]) -> bool:
    return bool(read) and all(read.get(partition, 0) >= end for partition, end in ends.items())


def _failure(action: Callable[[], None]) -> Exception | None:
    try:
        action()
    except Exception as error:  # whatever it is, the next attempt may succeed
        return error
    return None
