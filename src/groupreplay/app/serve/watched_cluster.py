"""One cluster that is served: its feed, its history, its streams of events, and its clock."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from groupreplay.app.exporter.feed import Feed, Limits, SinkFeed, TopicIds
from groupreplay.app.exporter.lag_watch import LagWatch
from groupreplay.app.exporter.server import Exporter
from groupreplay.app.inspection.group_lag import lag_fields
from groupreplay.app.serve.answers import GroupLag
from groupreplay.app.serve.broker_watch import BrokerWatch
from groupreplay.app.serve.event_streams import EventStreams
from groupreplay.app.serve.group_answers import KeptAnswers
from groupreplay.app.serve.history.file import HistoryFile
from groupreplay.app.serve.history.writer import Bounds, HistoryWriter, TopicMessage
from groupreplay.state.policy.context import Redaction
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.sinks.known_groups import group_label
from groupreplay.timeline.lag import total
from groupreplay.timeline.stop_cost import EndsOf

if TYPE_CHECKING:
    from confluent_kafka import Message

_Answer = TypeVar("_Answer")

log = logging.getLogger(__name__)

#: A file is made anew within milliseconds.
_ATTEMPTS: Final = 4
_PAUSE_SECONDS: Final = 0.05
#: How often the topics are compared with those that are read.
_CHECK_SECONDS: Final = 30.0
#: Messages of a partition whose times are compared: one of them at least came without a delay.
_MESSAGES: Final = 8
#: A smaller difference is not corrected: so much is delay, or the clocks of two brokers.
MOST_OFF_MS: Final = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterToServe:
    """A cluster by its name: ``source`` has the offsets topic, ``sink`` the job's topics.

    The files are their client properties, for processes that read by themselves.
    """

    name: str
    source: Cluster
    sink: Cluster
    topics: TopicNames
    source_file: Path | None = None
    sink_file: Path | None = None


class ServerClock:
    """Milliseconds since 1970 by the brokers' clock, as far as it is known; ``own`` is the clock of this machine."""

    def __init__(self, own: Callable[[], int]) -> None:
        self._own = own
        #: How far the machine is ahead of all brokers, with the shortest delay of a message; None: not known.
        self.off_ms: int | None = None
        self._ahead: dict[tuple[str, int], deque[int]] = {}

    def __call__(self) -> int:
        """The present."""
        off_ms = self.off_ms
        return self._own() - (off_ms if off_ms is not None and abs(off_ms) > MOST_OFF_MS else 0)

    def note(self, place: tuple[str, int], append_ms: int) -> None:
        """A message has arrived that the leader of a partition appended at this time; one thread calls this.

        Of several brokers that differ the nearest one counts: it may be another one whose clock is off.
        """
        delays_ms = self._ahead.setdefault(place, deque(maxlen=_MESSAGES))
        delays_ms.append(self._own() - append_ms)
        self.off_ms = min((min(delays) for delays in self._ahead.values()), key=abs)


class TopicRecorder:
    """Passes the messages of the feed on to the history."""

    def __init__(self, history: HistoryWriter, topics: TopicNames, clock: ServerClock) -> None:
        self.age_ms = history.bounds.age_ms
        self._history = history
        self._topics = topics
        self._clock = clock
        self._follows = False

    @property
    def wants_again(self) -> bool:
        """Whether messages could not be stored."""
        return bool(self._history.trouble)

    def begin(self, topics: TopicIds) -> Mapping[tuple[str, int], int]:
        """Reading begins."""
        self._follows = False
        names = (self._topics.events, self._topics.states)
        return self._history.begin({name: topics[name][0] for name in names})

    def store(self, taken: Sequence[TopicMessage]) -> None:
        """Stores events and documents."""
        self._history.take(self._topics.events, taken, self._clock())

    def take(self, messages: Sequence[Message]) -> None:
        """Stores events and documents among the messages."""
        from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME

        for message in messages if self._follows else ():
            kind, written_ms = message.timestamp()
            if kind == TIMESTAMP_LOG_APPEND_TIME:
                self._clock.note((message.topic(), message.partition()), written_ms)
        taken = [
            TopicMessage(
                is_event=message.topic() == self._topics.events,
                partition=message.partition(),
                offset=message.offset(),
                key=message.key() or b"",
                value=message.value(),
                written_ms=message.timestamp()[1],
            )
            for message in messages
            if message.topic() != self._topics.job
        ]
        self.store(taken)

    def complete(self) -> None:
        """The topics were read to their ends."""
        self._history.complete()
        # From here on messages are new when they arrive.
        self._follows = True


class WatchedCluster:
    """A cluster while it is served. ``start`` begins to read, ``close`` ends it.

    ``feed_of`` makes the feed that hands its messages to the recorder; by default it reads the job's topics.
    ``answers`` and ``ends_of``: the prober's answers and the ends that it has recorded, where they are in no topic.
    ``lag_of``: the lag of a group; by default it is what ``lag_watch`` has measured (None: lag is not measured).

    Raises:
        GroupReplayError: the history's file cannot be used.
    """

    def __init__(
        self,
        served: ClusterToServe,
        path: Path,
        bounds: Bounds,
        limits: Limits,
        clock: Callable[[], int],
        *,
        redaction: Redaction | None = None,
        feed_of: Callable[[TopicRecorder], Feed] | None = None,
        answers: KeptAnswers | None = None,
        ends_of: EndsOf | None = None,
        lag_watch: LagWatch | None = None,
        lag_of: Callable[[str], GroupLag | None] | None = None,
    ) -> None:
        self.served = served
        self.name = served.name
        self.limits = limits
        self.server_clock = ServerClock(clock)
        self.clock: Callable[[], int] = self.server_clock
        self.redaction = redaction
        self.streams = EventStreams()
        self.file = HistoryFile(path)
        self.history = HistoryWriter(self.file, bounds, self.streams.publish)
        recorder = TopicRecorder(self.history, served.topics, self.server_clock)
        self.answers, self.ends_of, self.lag_of = answers, ends_of, lag_of or self._measured_lag
        self.feed: Feed = (feed_of or self._sink_feed)(recorder)
        self.watch = BrokerWatch(served.sink, lambda: self.feed.places, self.clock)
        self.lag_watch = lag_watch
        self.exporter = Exporter(
            self.feed,
            limits,
            self.clock,
            lambda: self.watch.answers.error,
            lambda: None if lag_watch is None else lag_watch.measured,
        )
        #: Of the offsets topic, where it is in another cluster.
        self.log_watch = self.watch
        if served.source != served.sink:
            self.log_watch = BrokerWatch(served.source, tuple, self.clock)

    def _sink_feed(self, recorder: TopicRecorder) -> Feed:
        served = self.served
        return SinkFeed(
            served.sink, served.topics, self.clock, check_seconds=_CHECK_SECONDS, recorder=recorder
        )

    def start(self) -> None:
        """Begins to read the topics."""
        self.feed.start()
        for watch in {self.watch, self.log_watch}:
            watch.start()
        if self.lag_watch is not None:
            self.lag_watch.start()

    def close(self) -> None:
        """Ends reading, streams and the history."""
        self.streams.close()
        self.watch.close()
        if self.lag_watch is not None:
            self.lag_watch.close()
        self.log_watch.close()
        self.feed.close()
        if self.feed.alive:
            # Its thread may still write: the end of the process closes the file.
            log.warning("the topics of %s are still being read", self.name)
        else:
            self.file.close()

    def _measured_lag(self, group_id: str) -> GroupLag | None:
        """The lag of a group as the metrics have it; None: it was not measured lately."""
        measured = None if self.lag_watch is None else self.lag_watch.measured
        partitions = () if measured is None else measured.groups.get(group_label(group_id), ())
        if measured is None or not partitions or not measured.is_fresh(self.clock()):
            return None
        records, behind, unknown = total(each.lag for each in partitions)
        return GroupLag(at_ms=measured.at_ms, unknown=unknown, **lag_fields(records, behind))

    def known_until_ms(self) -> int | None:
        """Up to when documents, conditions and events are known.

        None: the job has not said it, or they cannot be stored.
        """
        if self.history.trouble:
            return None
        return self.feed.evaluate(lambda seen: seen.job.caught_up_ms if seen and seen.job else None)

    def ask(self, question: Callable[[sqlite3.Connection], _Answer]) -> _Answer:
        """The answer of the history; asked again while the file is made anew.

        Raises:
            sqlite3.Error: the file cannot be read, or the question took too long.
        """
        for _ in range(_ATTEMPTS - 1):
            try:
                return self._ask(question)
            except sqlite3.Error as error:
                if "interrupted" in str(error):
                    raise
            time.sleep(_PAUSE_SECONDS)
        return self._ask(question)

    def _ask(self, question: Callable[[sqlite3.Connection], _Answer]) -> _Answer:
        with self.file.reader() as reader:
            return question(reader)
