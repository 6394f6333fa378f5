"""A topic that is written to at a known rate; each record's offset and time are those of the broker's answer."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from support.kafka.waiting import wait_until

PARTITIONS = 2
#: The broker dates the records, and compacts what is compacted within seconds.
SETTINGS = {"message.timestamp.type": "LogAppendTime"}
COMPACTED = {
    **SETTINGS,
    "cleanup.policy": "compact",
    "segment.ms": "5000",
    "min.cleanable.dirty.ratio": "0.01",
}
_TURN_SECONDS = 0.25


@dataclass
class Written:
    """What was written to one incarnation of a topic: by partition the times and offsets, in order."""

    times_ms: dict[int, list[int]] = field(default_factory=dict)
    offsets: dict[int, list[int]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, message: Message) -> None:
        """A record that the broker has appended."""
        with self._lock:
            partition = message.partition() or 0
            self.times_ms.setdefault(partition, []).append(message.timestamp()[1])
            self.offsets.setdefault(partition, []).append(message.offset() or 0)

    def count(self, since_ms: int, until_ms: int) -> int:
        """Offsets that were taken by records and markers after one time, up to another."""
        return sum(self.end(number, until_ms) - self.end(number, since_ms) for number in range(PARTITIONS))

    def end(self, partition: int, at_ms: int) -> int:
        """The end of a partition at a time."""
        with self._lock:
            number = bisect_right(self.times_ms.get(partition, ()), at_ms)
            return self.offsets[partition][number - 1] + 1 if number else 0

    def written_ms(self, partition: int, offset: int) -> int | None:
        """When the first record at or behind this offset was written."""
        with self._lock:
            offsets = self.offsets.get(partition, ())
            number = bisect_right(offsets, offset - 1)
            return self.times_ms[partition][number] if number < len(offsets) else None


@dataclass
class Feed:
    """Writes ``rate`` records a second, in a thread; ``kind``: plain, transactional, compacted, recreated."""

    servers: str
    topic: str
    kind: str
    rate: int
    written: Written = field(default_factory=Written)
    _end: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        self._create()
        self._thread = threading.Thread(target=self._write, name=self.topic)
        self._thread.start()

    def close(self) -> None:
        """Ends writing."""
        self._end.set()
        self._thread.join()

    def create_again(self) -> None:
        """Deletes the topic and creates it anew; what is written then is another log."""
        self.close()
        self._admin.delete_topics([self.topic])[self.topic].result(60)
        wait_until(lambda: self.topic not in self._admin.list_topics(timeout=10).topics, 60)
        self.written = Written()
        self._end = threading.Event()
        self.__post_init__()

    def _create(self) -> None:
        config = COMPACTED if self.kind == "compacted" else SETTINGS

        def is_created() -> bool:
            try:
                self._admin.create_topics([NewTopic(self.topic, PARTITIONS, 1, config=config)])[
                    self.topic
                ].result(30)
            except Exception:  # a topic that was deleted may stay for a moment
                return self.topic in self._admin.list_topics(timeout=10).topics
            return True

        wait_until(is_created, 120)

    def _write(self) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": self.servers,
            "log_level": 0,
            "enable.idempotence": True,
        }
        is_transactional = self.kind == "transactional"
        if is_transactional:
            settings["transactional.id"] = self.topic
        producer = Producer(settings)
        if is_transactional:
            producer.init_transactions(60)
        number, began = 0, time.monotonic()
        while not self._end.wait(_TURN_SECONDS):
            due = round((time.monotonic() - began) * self.rate)
            if is_transactional and due > number:
                producer.begin_transaction()
            for each in range(number, due):
                producer.produce(
                    self.topic, b"x", str(each % 50), each % PARTITIONS, on_delivery=self._delivered
                )
                producer.poll(0)
            if is_transactional and due > number:
                producer.commit_transaction(60)
            elif producer.flush(60):
                raise AssertionError("records were not written")
            number = due

    def _delivered(self, error: object, message: Message) -> None:
        if error is not None:
            raise AssertionError(str(error))
        self.written.note(message)
