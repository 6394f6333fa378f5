"""The recorded ends of the topics of groups whose pages are open: read once for a topic, and then what is new."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.contract.log import keys_and_values, next_place
from groupreplay.streaming.contract.messages import RESERVED
from groupreplay.streaming.contract.partition_ends import CHANGES_KEY
from groupreplay.streaming.contract.probe_messages import decode_message
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.topic_reader import read_messages, starts_since
from groupreplay.streaming.sinks.known_groups import DAY_MS
from groupreplay.streaming.sources.recorded_ends import RecordedEnds

#: Ends of so many topics are kept, of a day at least and of two at most; then they are read anew.
_MOST_TOPICS: Final = 200
_LOOK_BACK_MS: Final = DAY_MS
#: A page waits for messages that the brokers have announced for this long.
_SILENCE_SECONDS: Final = 5.0


@dataclass(slots=True)
class LiveEnds:
    """The ends in one topic of probes."""

    cluster: Cluster
    topic: str
    _connection: Connection | None = None
    _ends: RecordedEnds | None = None
    _topics: set[str] = field(default_factory=set)
    _next: dict[int, int] = field(default_factory=dict)
    _since_ms: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of_topics(self, topics: Collection[str], cluster_id: str, now_ms: int) -> RecordedEnds | None:
        """The ends of these topics up to now, or as far as they could be read; None: nothing was read."""
        with self._lock:
            try:
                self._read({*topics}, cluster_id, now_ms)
            except GroupReplayError:
                # The page says elsewhere that the topic cannot be read.
                return self._ends if self._topics.issuperset(topics) else None
            return self._ends

    def _read(self, topics: set[str], cluster_id: str, now_ms: int) -> None:
        connection = self._connection = self._connection or Connection(self.cluster)
        _, partitions = connection.topic_id(self.topic)
        until = connection.end_offsets(self.topic, partitions)
        if self._ends is None or topics - self._topics or now_ms - self._since_ms > 2 * _LOOK_BACK_MS:
            self._topics = topics if len(self._topics | topics) > _MOST_TOPICS else self._topics | topics
            self._ends, self._since_ms = RecordedEnds(cluster_id), max(now_ms - _LOOK_BACK_MS, 0)
            self._next = starts_since(connection, self.topic, until, self._since_ms)
        starts = {number: self._next.get(number, 0) for number in until}
        # Rounds and changes are of all topics.
        wanted = {RESERVED, CHANGES_KEY, *(RESERVED + topic.encode() for topic in self._topics)}
        for batch in read_messages(connection, self.topic, starts, until, _SILENCE_SECONDS):
            for key, value in keys_and_values(batch):
                if key in wanted:
                    self._ends.add(decode_message(key, value))
            self._next.update([next_place(batch)])
        self._next = dict(until)
