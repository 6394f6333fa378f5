"""A feed of pages and metrics without topics: the messages come from an engine in this process."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from groupreplay.app.serve.history.writer import TopicMessage
from groupreplay.app.serve.watched_cluster import TopicRecorder
from groupreplay.streaming.config.settings import TopicNames
from groupreplay.streaming.contract.messages import Output, OutputRow
from groupreplay.streaming.sinks.topics_snapshot import TopicsSnapshot

_Result = TypeVar("_Result")
_UNREAD: Final = "the log has not been read to its end yet"
_MOST_UNSTORED: Final = 10_000

log = logging.getLogger(__name__)


class LocalFeed:
    """Keeps a snapshot of the messages that it is given; one thread gives them, others ask.

    ``era`` names the log, ``places`` are its topic and partitions. The snapshot is shown when the log was read to its
    end once.
    """

    def __init__(
        self,
        recorder: TopicRecorder,
        topics: TopicNames,
        era: str,
        places: Sequence[tuple[str, int]],
        clock: Callable[[], int],
    ) -> None:
        self.trouble = _UNREAD
        self.places = places
        self._recorder = recorder
        self._topics = topics
        self._clock = clock
        self._snapshot = TopicsSnapshot()
        self._offset = 0
        self._lock = threading.Lock()
        self._is_closed = False
        self._log = dict.fromkeys((topics.events, topics.states), (era, 1))
        #: What could not be stored yet: nobody can read it again.
        self._unstored: list[TopicMessage] = []
        recorder.begin(self._log)

    @property
    def alive(self) -> bool:
        """Whether messages may still come."""
        return not self._is_closed

    def start(self) -> None:
        """Nothing is to be started."""

    def close(self, seconds: float = 5.0) -> None:
        """No further message comes."""
        del seconds
        self._is_closed = True

    def evaluate(self, function: Callable[[TopicsSnapshot | None], _Result]) -> _Result:
        """The result of the function on the snapshot, which does not change meanwhile."""
        with self._lock:
            return function(None if self.trouble else self._snapshot)

    def take(self, rows: Iterable[OutputRow]) -> None:
        """The messages of one poll."""
        now_ms, taken = self._clock(), self._unstored
        with self._lock:
            for row in rows:
                if row.output is Output.STATES:
                    self._snapshot.take_state(row.key, row.value)
                elif row.output is Output.JOB:
                    self._snapshot.take_job(row.key, row.value)
                elif row.output is Output.EVENTS:
                    self._snapshot.take_event(row.value, now_ms, now_ms)
                if row.output in (Output.STATES, Output.EVENTS):
                    taken.append(self._message(row, now_ms))
        self._store()

    def _store(self) -> None:
        """A disk that is full may have room again later."""
        try:
            if self._recorder.wants_again:
                self._recorder.begin(self._log)
            self._recorder.store(self._unstored)
        except sqlite3.Error as error:
            log.debug("the history cannot be written yet: %s", error)
        if self._recorder.wants_again:
            del self._unstored[:-_MOST_UNSTORED]
        else:
            self._unstored.clear()

    def complete(self) -> None:
        """The log was read to its end."""
        if self.trouble:
            self._recorder.complete()
            self.trouble = ""

    def _message(self, row: OutputRow, now_ms: int) -> TopicMessage:
        self._offset += 1
        return TopicMessage(
            is_event=row.output is Output.EVENTS,
            partition=0,
            offset=self._offset,
            key=row.key,
            value=row.value,
            written_ms=now_ms,
        )
