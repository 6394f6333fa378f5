"""The thread of the exporter that reads the job's topics."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Final, TypeVar

from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.topic_reader import consume
from groupreplay.streaming.sinks.day_counts import DAY_MS
from groupreplay.streaming.sinks.topics_snapshot import TopicsSnapshot

if TYPE_CHECKING:
    from confluent_kafka import Message, TopicPartition

log = logging.getLogger(__name__)

#: Between two attempts to read topics that do not exist, or from a cluster that does not answer.
_PAUSE_SECONDS: Final = 3.0
#: How often the partitions of the topics are compared with those that are read.
_CHECK_SECONDS: Final = 300.0
_POLL_SECONDS: Final = 0.2

_Result = TypeVar("_Result")


class SinkFeed:
    """Keeps a snapshot of the topics up to date in a thread of its own; failures are retried for ever.

    When reading has to start again, the former snapshot stays until the new one is complete.
    """

    def __init__(
        self,
        cluster: Cluster,
        topics: TopicNames,
        clock: Callable[[], int],
        *,
        check_seconds: float = _CHECK_SECONDS,
    ) -> None:
        #: Why the topics cannot be read at this moment; empty when they can.
        self.trouble = ""
        self._connection = Connection(cluster)
        self._check_seconds = check_seconds
        self._topics = topics
        self._clock = clock
        self._snapshot: TopicsSnapshot | None = None
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="groupreplay-feed", daemon=True)

    def start(self) -> None:
        """Starts reading."""
        self._thread.start()

    def close(self, seconds: float = 5.0) -> None:
        """Stops reading, within these seconds."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def evaluate(self, function: Callable[[TopicsSnapshot | None], _Result]) -> _Result:
        """The result of the function on the snapshot, which does not change meanwhile."""
        with self._lock:
            return function(self._snapshot)

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._read()
            except Exception as error:  # whatever it is, it may be over at the next attempt
                level = logging.DEBUG if str(error) == self.trouble else logging.WARNING
                log.log(level, "the job's topics cannot be read now, retrying: %s", error)
                self.trouble = str(error)
                self._closed.wait(_PAUSE_SECONDS)

    def _read(self) -> None:
        """Reads from the beginning and then new messages, as long as the topics have the same partitions.

        Raises:
            GroupReplayError: a topic is missing, was recreated, or may not be read.
        """
        fresh = TopicsSnapshot()
        with closing(self._connection.consumer()) as consumer:
            partitions = self._partitions()
            unfinished = set(partitions)
            consumer.assign(self._starts(partitions))
            checked = time.monotonic()
            while not self._closed.is_set():
                messages = consume(consumer, self._connection, _POLL_SECONDS)
                with self._lock:
                    for message in messages:
                        if message.error() is None:
                            self._take(fresh, message)
                unfinished -= {
                    (str(one.topic()), one.partition()) for one in messages if one.error() is not None
                }
                if not unfinished:
                    self._snapshot, self.trouble = fresh, ""
                if time.monotonic() - checked > self._check_seconds:
                    checked = time.monotonic()
                    if self._partitions() != partitions:
                        return

    def _take(self, snapshot: TopicsSnapshot, message: Message) -> None:
        from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME

        topic, key, value = message.topic(), message.key() or b"", message.value()
        try:
            if topic == self._topics.states:
                snapshot.take_state(key, value)
            elif topic == self._topics.job:
                kind, written_ms = message.timestamp()
                snapshot.take_job(key, value, written_ms if kind == TIMESTAMP_LOG_APPEND_TIME else None)
            else:
                snapshot.take_event(value, message.timestamp()[1], self._clock())
        except Exception:  # one message must not make the feed start over, for ever
            snapshot.unreadable += 1
            log.warning("a message of %s is not used", topic, exc_info=True)

    def _partitions(self) -> list[tuple[str, int]]:
        topics = (self._topics.states, self._topics.job, self._topics.events)
        counts = {topic: self._connection.identify(topic).partitions for topic in topics}
        return [(topic, number) for topic, count in counts.items() for number in range(count)]

    def _starts(self, partitions: Sequence[tuple[str, int]]) -> list[TopicPartition]:
        """Documents from the beginning, events from the last midnight."""
        from confluent_kafka import OFFSET_BEGINNING, TopicPartition

        events = self._topics.events
        count = sum(topic == events for topic, _ in partitions)
        documents = [TopicPartition(*place, OFFSET_BEGINNING) for place in partitions if place[0] != events]
        # Before the question where they begin, so that no message in between is skipped.
        ends = self._connection.end_offsets(events, count)
        found = self._connection.offsets_since(events, count, self._clock() // DAY_MS * DAY_MS)
        starts = {number: end if found[number] < 0 else found[number] for number, end in ends.items()}
        return [*documents, *(TopicPartition(events, number, at) for number, at in starts.items())]
