"""The job's topics as somebody sees them who only has a Kafka client: events, documents, heartbeats.

Knows which topic holds what (docs/events.md) and that events may come twice; must not know how the job writes
them. Reads by assignment from the beginning and never joins a group, which would show up among the events.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from groupreplay.streaming.config.settings import TopicNames

_REQUEST_SECONDS: Final = 10.0

Json = dict[str, Any]


class SinkReader:
    """Reads the topics of a job. ``documents`` and ``caught_up_ms`` grow with what ``events`` has read.

    A context manager, for the connection.
    """

    def __init__(self, bootstrap_servers: str, topics: TopicNames | None = None) -> None:
        from confluent_kafka import Consumer

        self.documents: dict[str, Json] = {}
        self.caught_up_ms: int | None = None
        self._topics = topics or TopicNames()
        self._seen: set[str] = set()
        self._assigned = False
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "groupreplay-reader",  # librdkafka wants one; it is never used
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )

    def __enter__(self) -> SinkReader:
        return self

    def __exit__(self, *error: object) -> None:
        self._consumer.close()

    def find_topics(self) -> bool:
        """Whether the topics are there to be read; the job creates them when it starts."""
        from confluent_kafka import OFFSET_BEGINNING, TopicPartition

        if not self._assigned:
            known = self._consumer.list_topics(timeout=_REQUEST_SECONDS).topics
            wanted = (self._topics.events, self._topics.states, self._topics.probes)
            if any(name not in known or not known[name].partitions for name in wanted):
                return False
            self._consumer.assign(
                [
                    TopicPartition(name, number, OFFSET_BEGINNING)
                    for name in wanted
                    for number in known[name].partitions
                ]
            )
            self._assigned = True
        return True

    def events(self, seconds: float) -> list[Json]:
        """The events that are there or arrive in this time; an event that comes again is dropped."""
        found: list[Json] = []
        for message in self._consumer.consume(num_messages=500, timeout=seconds):
            if message.error() is None:
                event = self._take(message.topic(), message.key() or b"", message.value())
                if event is not None:
                    found.append(event)
        return found

    def _take(self, topic: str, key: bytes, value: bytes | None) -> Json | None:
        if topic == self._topics.states:
            self._take_document(key.decode("utf-8", "replace"), value)
        elif value is not None and topic == self._topics.probes:
            self._take_heartbeat(json.loads(value))
        elif value is not None:
            event: Json = json.loads(value)
            if event["id"] not in self._seen:
                self._seen.add(event["id"])
                return event
        return None

    def _take_document(self, group_id: str, value: bytes | None) -> None:
        if value is None:
            self.documents.pop(group_id, None)
        else:
            self.documents[group_id] = json.loads(value)

    def _take_heartbeat(self, probe: Mapping[str, Any]) -> None:
        caught_up_ms = probe.get("caught_up_ms")
        if isinstance(caught_up_ms, int):
            self.caught_up_ms = max(caught_up_ms, self.caught_up_ms or 0)
