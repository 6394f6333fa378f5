"""Classic consumers that one thread polls in turn, except those that a test blocks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from confluent_kafka import Consumer

from support.kafka.clients import new_consumer
from support.kafka.waiting import PATIENCE_SECONDS, T, seldom, wait_until


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
        member = new_consumer(
            self.servers,
            group,
            client_id=name,
            session_timeout_ms=6_000,
            heartbeat_interval_ms=300,
            max_poll_interval_ms=self.timeout_ms,
            enable_auto_commit=commits,
            auto_commit_interval_ms=400,
            auto_offset_reset="earliest",
            partition_assignment_strategy="range",
        )
        member.subscribe([topic], on_assign=ignore, on_revoke=ignore)
        self.consumers[name] = member

    def poll(self) -> None:
        """Polls each consumer once, except those that are stuck."""
        for name, member in self.consumers.items():
            if name not in self.stuck:
                member.poll(0)
        time.sleep(0.005)

    def wait_until(self, condition: Callable[[], T | None], seconds: float = PATIENCE_SECONDS) -> T:
        """Polls the members meanwhile, and evaluates the condition twice a second."""
        held = seldom(condition, 0.5)

        def turn() -> T | None:
            self.poll()
            return held()

        return wait_until(turn, seconds, pause=0)

    def owned(self, *names: str) -> list[int]:
        """The number of partitions that each consumer owns."""
        return [len(self.consumers[name].assignment()) for name in names]

    def close(self) -> None:
        for member in self.consumers.values():
            member.close()
