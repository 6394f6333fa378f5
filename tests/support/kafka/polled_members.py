"""Classic consumers that one thread polls in turn, except those that a test blocks."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from confluent_kafka import Consumer


def ignore(*_: object) -> None:
    """A rebalance callback that does nothing; a consumer with callbacks takes part in a rebalance only in poll()."""


@dataclass
class PolledMembers:
    """The consumers by client id; those in ``stuck`` are not polled."""

    servers: str
    timeout_ms: int
    consumers: dict[str, Consumer] = field(default_factory=dict)
    stuck: set[str] = field(default_factory=set)

    def join(self, name: str, group: str, topic: str, *, commits: bool = True) -> None:
        """Adds a consumer to a classic group."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": group,
                "client.id": name,
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 300,
                "max.poll.interval.ms": self.timeout_ms,
                "enable.auto.commit": commits,
                "auto.commit.interval.ms": 400,
                "auto.offset.reset": "earliest",
                "partition.assignment.strategy": "range",
                "log_level": 0,
            }
        )
        consumer.subscribe([topic], on_assign=ignore, on_revoke=ignore)
        self.consumers[name] = consumer

    def poll(self) -> None:
        """Polls each consumer once, except those that are stuck."""
        for name, consumer in self.consumers.items():
            if name not in self.stuck:
                consumer.poll(0)
        time.sleep(0.005)

    def owned(self, *names: str) -> list[int]:
        """The number of partitions that each consumer owns."""
        return [len(self.consumers[name].assignment()) for name in names]

    def close(self) -> None:
        """Closes all consumers."""
        for consumer in self.consumers.values():
            consumer.close()
