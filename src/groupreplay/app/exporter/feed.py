"""The thread of the exporter that reads the job's topics, and whether the job works by what it has read.

For the second the time is an argument.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar

from groupreplay.streaming.base.background import Background
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.contract.messages import STOPPED, JobDocument
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.topic_reader import consume, starts_since
from groupreplay.streaming.sinks.known_groups import DAY_MS
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
#: By name of a topic: its id and its number of partitions.
TopicIds: TypeAlias = Mapping[str, tuple[str, int]]


class Recorder(Protocol):
    """Stores the messages that the feed reads; called by its thread only. ``age_ms``: how far back it needs events."""

    age_ms: int

    @property
    def wants_again(self) -> bool:
        """Whether messages could not be stored, so that reading has to begin again."""

    def begin(self, topics: TopicIds) -> Mapping[tuple[str, int], int]:
        """Reading begins; returns the next offset that it needs, by topic and partition."""

    def take(self, messages: Sequence[Message]) -> None:
        """Messages without an error, of all topics."""

    def complete(self) -> None:
        """All topics were read to their ends once."""


class Feed(Protocol):
    """Keeps a snapshot of what a job writes. ``trouble``: why there is none now; ``places``: what is read."""

    trouble: str
    places: Sequence[tuple[str, int]]

    @property
    def alive(self) -> bool:
        """Whether it is kept up to date."""

    def start(self) -> None:
        """Starts reading."""

    def close(self, seconds: float = 5.0) -> None:
        """Stops reading, within these seconds."""

    def evaluate(self, function: Callable[[TopicsSnapshot | None], _Result]) -> _Result:
        """The result of the function on the snapshot, which does not change meanwhile."""


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
        recorder: Recorder | None = None,
    ) -> None:
        #: Why the topics cannot be read at this moment; empty when they can.
        self.trouble = ""
        #: Topics and partitions that are read; empty before they are known.
        self.places: Sequence[tuple[str, int]] = ()
        self._connection = Connection(cluster)
        self._check_seconds = check_seconds
        self._topics = topics
        self._clock = clock
        self._recorder = recorder
        self._snapshot: TopicsSnapshot | None = None
        self._lock = threading.Lock()
        self._thread = Background(name="feed", tick=self._follow, pause_seconds=0.0)

    def start(self) -> None:
        """Starts reading."""
        self._thread.start()

    def close(self, seconds: float = 5.0) -> None:
        """Stops reading, within these seconds."""
        self._thread.close(seconds)

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive

    def evaluate(self, function: Callable[[TopicsSnapshot | None], _Result]) -> _Result:
        """The result of the function on the snapshot, which does not change meanwhile."""
        with self._lock:
            return function(self._snapshot)

    def _follow(self) -> None:
        try:
            self._read()
        except Exception as error:  # whatever it is, it may be over at the next attempt
            level = logging.DEBUG if str(error) == self.trouble else logging.WARNING
            log.log(level, "the job's topics cannot be read now, retrying: %s", error)
            self.trouble = str(error)
            self._thread.wait(_PAUSE_SECONDS)

    def _read(self) -> None:
        """Reads from the beginning and then new messages, as long as the topics are the same.

        Raises:
            GroupReplayError: a topic is missing, was recreated, or may not be read.
        """
        fresh = TopicsSnapshot()
        with closing(self._connection.consumer()) as consumer:
            topics = self._topic_ids()
            recorded = {} if self._recorder is None else self._recorder.begin(topics)
            self.places = _partitions(topics)
            unfinished = set(self.places)
            consumer.assign(self._starts(topics, recorded))
            checked = time.monotonic()
            while not self._thread.is_closed:
                messages = consume(consumer, self._connection, _POLL_SECONDS)
                self._take_all(fresh, messages)
                ended = {
                    (str(message.topic()), message.partition())
                    for message in messages
                    if message.error() is not None
                }
                if unfinished and not (unfinished := unfinished - ended):
                    self._snapshot, self.trouble = fresh, ""
                    if self._recorder is not None:
                        self._recorder.complete()
                if time.monotonic() - checked > self._check_seconds:
                    checked = time.monotonic()
                    wants_again = self._recorder is not None and self._recorder.wants_again
                    if wants_again or self._topic_ids() != topics:
                        return

    def _take_all(self, snapshot: TopicsSnapshot, messages: Sequence[Message]) -> None:
        readable = [message for message in messages if message.error() is None]
        with self._lock:
            for message in readable:
                self._take(snapshot, message)
        if self._recorder is not None:
            self._recorder.take(readable)

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

    def _topic_ids(self) -> dict[str, tuple[str, int]]:
        """Id and number of partitions of the topics, by name."""
        names = (self._topics.states, self._topics.job, self._topics.events)
        identities = {name: self._connection.identify(name) for name in names}
        return {name: (identity.era, identity.partitions) for name, identity in identities.items()}

    def _starts(self, topics: TopicIds, recorded: Mapping[tuple[str, int], int]) -> list[TopicPartition]:
        """Documents from the beginning; events from the last midnight, or from where the recorder needs them."""
        from confluent_kafka import OFFSET_BEGINNING, TopicPartition

        events = self._topics.events
        count = topics[events][1]
        documents = [place for place in _partitions(topics) if place[0] != events]
        # Before the question where they begin, so that no message in between is skipped.
        ends = self._connection.end_offsets(events, count)
        midnight_ms = self._clock() // DAY_MS * DAY_MS
        starts = starts_since(self._connection, events, ends, midnight_ms)
        if self._recorder is not None:
            since_ms = min(self._clock() - self._recorder.age_ms, midnight_ms)
            kept = starts_since(self._connection, events, ends, max(since_ms, 0))
            first = self._connection.first_offsets(events, count)
            for number in range(count):
                at = recorded.get((events, number))
                # A position outside of the topic is one of another time: the broker would refuse it.
                is_inside = at is not None and first[number] <= at <= ends[number]
                starts[number] = min(starts[number], at if is_inside and at is not None else kept[number])
        assigned = [TopicPartition(*place, OFFSET_BEGINNING) for place in documents]
        return [*assigned, *(TopicPartition(events, number, at) for number, at in starts.items())]


def _partitions(topics: TopicIds) -> list[tuple[str, int]]:
    return [(topic, number) for topic, (_, count) in topics.items() for number in range(count)]


#: A single run counts as fresh for this long after the time up to which it has read: schedules are shorter.
_ONCE_TIMEOUT_SECONDS: Final = 7_200.0
#: The least age at which a heartbeat is late, whatever the trigger: scrapes are not more frequent.
_LEAST_TIMEOUT_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``max_groups`` have series. Without a heartbeat for ``timeout_seconds`` the job is down; None: 3 triggers.

    With single runs (``run --once``) the time counts from the last caught-up time; None: two hours. ``public_url`` is
    the address of the pages as others reach them; empty: it is not known. ``by_partition``: lag has a series for each
    partition; ``kafka_exporter_names``: it has those of kafka_exporter, too.
    """

    max_groups: int = 5_000
    public_url: str = ""
    timeout_seconds: float | None = None
    by_partition: bool = False
    kafka_exporter_names: bool = False


def heartbeat_age(snapshot: TopicsSnapshot, now_ms: int) -> float:
    """Seconds since the broker appended the job's last document; 0 when its clock is ahead.

    The clock of the job's machine does not count, unless clients date the messages of the topic.
    """
    return max(0, now_ms - snapshot.heartbeat_ms) / 1000


def silence_seconds(job: JobDocument, limits: Limits) -> float:
    """For how long a job that runs may write nothing until it is down."""
    return limits.timeout_seconds or _timeout_seconds(job)


def _timeout_seconds(job: JobDocument) -> float:
    return max(3 * job.trigger_seconds, _LEAST_TIMEOUT_SECONDS)


def is_fresh(snapshot: TopicsSnapshot, now_ms: int, limits: Limits) -> bool:
    """Whether the job's heartbeat is not late; between single runs, whether one has caught up not long ago."""
    job = snapshot.job
    if job is None:
        return False
    timeout = _timeout_seconds(job)
    if not job.once:
        return heartbeat_age(snapshot, now_ms) <= silence_seconds(job, limits)
    # Runs that fail write heartbeats, too: between runs only what they have read counts.
    if job.phase != STOPPED and heartbeat_age(snapshot, now_ms) <= timeout:
        return True
    caught_up_ms = -math.inf if job.caught_up_ms is None else job.caught_up_ms
    return now_ms - caught_up_ms <= 1_000 * (limits.timeout_seconds or _ONCE_TIMEOUT_SECONDS)


def is_up(snapshot: TopicsSnapshot, now_ms: int, limits: Limits) -> bool:
    """Whether the job follows the groups: its heartbeat is not late, and a query reads the log."""
    job = snapshot.job
    return job is not None and job.query.running and is_fresh(snapshot, now_ms, limits)
