"""The two worlds of a script (`scripted`): the coordinator model with simulated time, and a broker in real time."""

from __future__ import annotations

import random
import re
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from groupreplay.codecs import decode_key, decode_value
from groupreplay.codecs.kafka_terms import partition_for
from groupreplay.coordinator.consumer.consumer_group import Topic
from groupreplay.coordinator.coordinator import Coordinator
from groupreplay.coordinator.requests import Answer, Request, Settings
from groupreplay.coordinator.trace_entries import AnyEntry
from groupreplay.state import OFFSETS_TOPIC
from support.kafka.waiting import wait_until
from support.model.raw_members import RawRequest
from support.model.scripted import ScriptRecord, ScriptWorld, Waiting

_STEP_MS = 20
_ID_BITS = 128
#: The end of a member id that a coordinator has generated.
_GENERATED = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


class _Told:
    def __init__(self, world: ModelWorld, request: Request) -> None:
        self._world, self._request = world, request

    def answer(self) -> Answer:
        self._world.until(lambda: id(self._request) in self._world.replies)
        return self._world.replies[id(self._request)]


class _OtherIds(random.Random):
    """The numbers in these generated member ids, one after the other, then random ones."""

    def __init__(self, member_ids: Iterable[str]) -> None:
        super().__init__(5)
        self._ids = [uuid.UUID(found[0]).int for found in map(_GENERATED.search, member_ids) if found]

    def getrandbits(self, count: int, /) -> int:
        """As ``random`` has it."""
        return self._ids.pop(0) if count == _ID_BITS and self._ids else super().getrandbits(count)


@dataclass
class ModelWorld(ScriptWorld):
    """The coordinator model in simulated time; members get ``other_ids``, by which hash tables order them."""

    other_ids: Iterable[str] = ()
    settings: Settings = field(default_factory=Settings)
    now: int = 1_000
    replies: dict[int, Answer] = field(default_factory=dict)
    _log: list[ScriptRecord] = field(default_factory=list)
    _asked: list[Request] = field(default_factory=list)
    _operation: int = 0
    trace: list[AnyEntry] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.coordinator = Coordinator(
            self.group, self.settings, _OtherIds(self.other_ids), self.topics, traced=True
        )

    def send(self, client_id: str, request: Request) -> Waiting:
        """Send a request without waiting for the answer."""
        self.now += _STEP_MS
        # Kept, so that its identity is not reused.
        self._asked.append(request)
        self._take(self.coordinator.handle(request, self.now))
        return _Told(self, request)

    def _take(self, outcome: Any) -> None:
        self.trace += outcome.trace
        self.replies |= {id(reply.request): reply.answer for reply in outcome.replies}
        for operation in outcome.operations:
            self._operation += 1
            self._log += [ScriptRecord(self._operation, key, value) for key, value in operation.records]

    def written(self) -> list[ScriptRecord]:
        """The records so far."""
        return self._log

    def pause(self) -> None:
        """Run the timers that are due soon."""
        self.now += _STEP_MS
        self._take(self.coordinator.advance(self.now))

    def grow(self, topic: str, partitions: int) -> None:
        """The coordinator notices at the next heartbeat."""
        self.topics[topic] = Topic(self.topics[topic].topic_id, partitions)

    def until(self, condition: Callable[[], bool]) -> None:
        """Run one timer after the other until the condition holds."""
        while not condition():
            due = self.coordinator.next_deadline_ms()
            assert due is not None, "no timer is set"
            self.now = max(self.now, due)
            self._take(self.coordinator.advance(self.now))


class OffsetsLog:
    """The offsets topic of a broker, read as it grows."""

    def __init__(self, server: str, partitions: int) -> None:
        self._consumer = Consumer(
            {"bootstrap.servers": server, "group.id": "unused", "enable.auto.commit": False}
        )
        self._partitions = partitions
        self._consumer.assign(
            [TopicPartition(OFFSETS_TOPIC, number, OFFSET_BEGINNING) for number in range(partitions)]
        )
        self._read = [0] * partitions
        self._records: dict[str, list[ScriptRecord]] = {}
        self._last: dict[int, tuple[int, int]] = {}
        self._operation = 0

    def of(self, group: str) -> list[ScriptRecord]:
        """The group's records up to the end of the log at this moment."""
        number = partition_for(group, self._partitions)
        _, end = self._consumer.get_watermark_offsets(TopicPartition(OFFSETS_TOPIC, number), timeout=10)
        deadline = time.monotonic() + 60
        while self._read[number] < end:
            assert time.monotonic() < deadline, f"no record arrives at {self._read[number]} of {end}"
            for message in self._consumer.consume(500, 0.05):
                self._take(message)
        return self._records.get(group, [])

    def _take(self, message: Any) -> None:
        assert message.error() is None, message.error()
        number, offset, at_ms = message.partition(), message.offset(), message.timestamp()[1]
        self._read[number] = offset + 1
        if self._last.get(number) != (offset - 1, at_ms):
            self._operation += 1
        self._last[number] = (offset, at_ms)
        key = decode_key(message.key())
        value = None if message.value() is None else decode_value(key, message.value())  # type: ignore[arg-type]
        self._records.setdefault(key.group, []).append(ScriptRecord(self._operation, key, value))  # type: ignore[union-attr,arg-type]

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()


@dataclass
class BrokerWorld(ScriptWorld):
    """A broker in real time."""

    server: str = ""
    offsets: OffsetsLog | None = None

    def send(self, client_id: str, request: Request) -> Waiting:
        """Send a request without waiting for the answer."""
        return RawRequest(self.server, self.group, client_id, request)

    def written(self) -> list[ScriptRecord]:
        """The records so far."""
        assert self.offsets is not None
        return self.offsets.of(self.group)

    def grow(self, topic: str, partitions: int) -> None:
        """The coordinator notices after a moment."""
        admin = AdminClient({"bootstrap.servers": self.server})
        for answer in admin.create_partitions([NewPartitions(topic, partitions)]).values():
            answer.result(30)

    def pause(self) -> None:
        """A twentieth of a second."""
        time.sleep(0.05)


def wait_for_coordinator(server: str, partitions: Mapping[str, int]) -> None:
    """Waits until the coordinator assigns these topics: it learns of them after the brokers have announced them."""
    first = Consumer({"bootstrap.servers": server, "group.id": "first", "group.protocol": "consumer"})
    first.subscribe(list(partitions))

    def has_all() -> bool:
        first.poll(0.05)
        return len(first.assignment()) == sum(partitions.values())

    try:
        wait_until(has_all)
    finally:
        first.close()
