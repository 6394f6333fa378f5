"""The two result topics of ``run``, events and documents of groups, as an outlet."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import msgspec
from confluent_kafka import KafkaException

from groupreplay.state.phrases import counted_verb
from groupreplay.streaming.base.background import Background
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.contract.messages import Output, OutputRow
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.output_topics import ensure_topics
from groupreplay.streaming.kafka.publisher import MessageTooLargeError, Publisher, WireMessage

log = logging.getLogger(__name__)

#: Of the outlet.
NAME: Final = "sink"
_RESULTS: Final = ("events", "states")
#: Messages that are sent before it is waited for their arrival.
_MOST_AT_ONCE: Final = 5_000


class _Row(msgspec.Struct, array_like=True, frozen=True):
    topic: str
    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


def value_of(message: bytes) -> bytes | None:
    """The value of a message that the outlet has chosen."""
    return msgspec.msgpack.decode(message, type=_Row).value


@dataclass(slots=True)
class ResultTopics:
    """The topics on one cluster, with a thread of its own between ``start`` and ``close``; order is kept."""

    cluster: Cluster
    topics: TopicNames
    name: str = NAME
    _publisher: Publisher = field(init=False)
    _waiting: dict[int, bytes] = field(default_factory=dict, init=False)
    _arrived: list[int] = field(default_factory=list, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _thread: Background = field(init=False)

    def __post_init__(self) -> None:
        self._publisher = Publisher(self.cluster)
        self._thread = Background(
            name="sink",
            tick=self._publish,
            pause_seconds=0.5,
            retry_seconds=1.0,
            longest_seconds=30.0,
            failing=f"events are kept, and not written to {self.topics.events} now",
        )

    def start(self) -> None:
        """Makes topics that are missing, and begins to write.

        Raises:
            GroupReplayError: a topic does not exist and cannot be made, or no broker answers.
        """
        ensure_topics(Connection(self.cluster), self.topics, only=_RESULTS)
        self._thread.start(at_once=True)

    def close(self, seconds: float = 1.0) -> None:
        """Ends after what is being written."""
        self._thread.close(seconds)
        if self._waiting:
            unwritten = counted_verb(len(self._waiting), "message", "was", "were")
            log.warning("%s not written to the topics", unwritten)

    def choose(self, rows: Sequence[OutputRow], events: Iterable[bytes]) -> Iterable[bytes]:
        """All messages for these topics."""
        del events
        return [
            msgspec.msgpack.encode(
                _Row(getattr(self.topics, row.output.value), row.key, row.value, row.headers)
            )
            for row in rows
            if row.output in (Output.EVENTS, Output.STATES)
        ]

    def send(self, messages: Mapping[int, bytes]) -> None:
        """Adds them to those that wait."""
        with self._lock:
            self._waiting.update(messages)
        if messages:
            self._thread.wake()

    def arrived(self) -> Sequence[int]:
        """The messages that the brokers have acknowledged since the last call."""
        with self._lock:
            arrived, self._arrived = self._arrived, []
        return arrived

    def _publish(self) -> None:
        """All that waits."""
        while not self._thread.is_closed:
            with self._lock:
                some = dict(islice(self._waiting.items(), _MOST_AT_ONCE))
            if not some:
                return
            rows = [msgspec.msgpack.decode(message, type=_Row) for message in some.values()]
            for topic in dict.fromkeys(row.topic for row in rows):
                self._write(topic, [(row.key, row.value, row.headers) for row in rows if row.topic == topic])
            with self._lock:
                for number in some:
                    del self._waiting[number]
                self._arrived.extend(some)

    def _write(self, topic: str, messages: Sequence[WireMessage]) -> None:
        try:
            self._publisher.publish_all(topic, messages)
        except MessageTooLargeError as error:
            # All others were written, and this one never will be.
            log.error("%s", error)
        except KafkaException as error:
            raise GroupReplayError(str(error.args[0]), where=topic) from None
