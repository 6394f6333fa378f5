"""The driver's pulse: how far the log has been read for certain, told to every group and to the world.

A group's function cannot know how far its partition has been read. So the ends of the log are taken at a
moment T, and once the query has passed all of them, T is published: everything written before T has been
applied. Knows that rule and the two topics it writes; must not know groups. Never fails: a broker that does
not answer is asked again, later.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.contract.probe_messages import HeartbeatMessage, encode_message
from groupreplay.streaming.engine.json_messages import job_row
from groupreplay.streaming.job.job_status import JobReport

log = logging.getLogger(__name__)

_TICK_SECONDS: Final = 0.25
#: A batch that ends has passed the latest beat from before it began: the more beats, the less time is given away.
_BEATS_A_TRIGGER: Final = 8
_MOST_BEATS: Final = 64
_LONGEST_PAUSE_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class _Beat:
    """The ends of the log at one moment, which the query has yet to pass."""

    taken_ms: int
    ends: Mapping[int, int]


class Heartbeat:
    """One beat after the other; ``tick`` is called often and does what is due.

    ``ends`` asks the broker for the end of each partition (read committed), ``progress`` gives the batches
    finished since it was last asked, ``publish`` takes topic, key and value and raises when the broker has
    not taken the message.
    """

    def __init__(
        self,
        report: JobReport,
        topics: TopicNames,
        *,
        ends: Callable[[], Mapping[int, int]],
        progress: Callable[[], list[Mapping[str, Any]]],
        publish: Callable[[str, bytes, bytes], None],
        clock: Callable[[], int],
    ) -> None:
        self._report = report
        self._topics = topics
        self._ends = ends
        self._progress = progress
        self._publish = publish
        self._clock = clock
        self._beats: list[_Beat] = []
        self._passed_ends: Mapping[int, int] = {}
        self._next_beat_ms = 0
        self._next_message_ms = 0
        self._next_document_ms = 0

    def wake(self) -> None:
        """Says again what was said last: without data Spark runs no batch, and so no timer."""
        self._say()

    def tick(self) -> None:
        """Takes in progress, takes a beat, publishes the latest that was passed, renews the document.

        A batch that has ended may have passed beats: they are said at once, so that the next one reads them. While
        none is passed, the last one is said again, once a trigger: so one sees how far behind the job is.
        """
        interval_ms = round(self._report.identity.trigger_seconds * 1000)
        known_batch = self._report.last_batch_id
        self._report.take(self._progress())
        if self._clock() >= self._next_beat_ms:
            self._next_beat_ms = self._take_beat() + interval_ms // _BEATS_A_TRIGGER
        news = self._pass_beats() and self._report.last_batch_id != known_batch
        if news or self._clock() >= self._next_message_ms:
            self._say()
        if self._clock() >= self._next_document_ms:
            self.publish_document()
            self._next_document_ms = self._clock() + interval_ms

    def _take_beat(self) -> int:
        # The time first: what is written while the broker answers must not be claimed.
        taken_ms = self._clock()
        self._report.ends = self._ends()
        self._beats.append(_Beat(taken_ms, self._report.ends))
        if len(self._beats) > _MOST_BEATS:
            # A job that is far behind: coarser steps will do.
            del self._beats[1::2]
        return taken_ms

    def _pass_beats(self) -> bool:
        """Whether the query has passed a beat since it was last asked."""
        read = self._report.read()
        passed = [beat for beat in self._beats if _passed(beat.ends, read)]
        if passed:
            self._report.caught_up_ms, self._passed_ends = passed[-1].taken_ms, passed[-1].ends
            self._beats = [beat for beat in self._beats if beat.taken_ms > passed[-1].taken_ms]
        return bool(passed)

    def publish_document(self) -> None:
        """Writes the job's document as it is now."""
        row = job_row(self._report.document(self._clock()))
        self._publish(self._topics.job, row.key, row.value or b"")

    def _say(self) -> None:
        identity, now_ms = self._report.identity, self._clock()
        key, value = encode_message(
            HeartbeatMessage(
                cluster_id=identity.cluster_id,
                era=identity.era,
                job_id=identity.job_id,
                run_id=identity.run_id,
                at_ms=now_ms,
                caught_up_ms=self._report.caught_up_ms,
                offsets=dict(sorted(self._passed_ends.items())),
                unmissed_expired=self._report.unmissed_expired,
                dead_letters=self._report.dead_letters,
            )
        )
        self._publish(self._topics.probes, key, value)
        self._next_message_ms = now_ms + round(identity.trigger_seconds * 1000)


def _passed(ends: Mapping[int, int], read: Mapping[int, int]) -> bool:
    return bool(read) and all(read.get(partition, 0) >= end for partition, end in ends.items())


class HeartbeatThread:
    """Ticks a ``Heartbeat`` in the background until it is closed; what failed is done again after a pause."""

    def __init__(self, heartbeat: Heartbeat) -> None:
        self._heartbeat = heartbeat
        self._closed = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="groupreplay-heartbeat", daemon=True)

    def start(self) -> None:
        """Starts ticking."""
        self._thread.start()

    def wake_query(self) -> None:
        """Asks for a message that makes Spark run a batch; call it when a query was started."""
        self._wake.set()

    def close(self, seconds: float = 5.0) -> None:
        """Stops ticking and writes the document a last time, within these seconds."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _run(self) -> None:
        pause = _TICK_SECONDS
        while not self._closed.wait(pause):
            error = _failure(self._tick)
            if error is not None:
                # Once for each outage, however often it is tried.
                level = logging.WARNING if pause == _TICK_SECONDS else logging.DEBUG
                log.log(level, "no heartbeat for now: %s", error)
            pause = _TICK_SECONDS if error is None else min(2 * pause, _LONGEST_PAUSE_SECONDS)
        _failure(self._heartbeat.publish_document)

    def _tick(self) -> None:
        if self._wake.is_set():
            self._heartbeat.wake()
            self._wake.clear()
        self._heartbeat.tick()


def _failure(action: Callable[[], None]) -> Exception | None:
    try:
        action()
    except Exception as error:  # whatever it is, the next heartbeat is worth a try
        return error
    return None
