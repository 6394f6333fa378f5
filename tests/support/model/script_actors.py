"""The clients of a random script, and what the coordinator told each of them last."""

from __future__ import annotations

from dataclasses import dataclass

from groupreplay.coordinator.requests import Protocol, TopicIdPartition


@dataclass
class ClassicActor:
    """A client of the classic protocol and what it was last told."""

    name: str
    instance_id: str | None = None
    member_id: str = ""
    generation: int = -1
    members: tuple[str, ...] = ()
    assignment: bytes = b""
    protocols: tuple[Protocol, ...] = ()
    session_ms: int = 10_000
    rebalance_ms: int = 20_000
    joining: int | None = None
    syncing: int | None = None


@dataclass
class ConsumerActor:
    """A client of the consumer protocol (KIP-848) and what it was last told."""

    name: str
    instance_id: str | None = None
    lives: int = 0
    epoch: int = 0
    before: int = 0
    owned: frozenset[TopicIdPartition] = frozenset()
    rebalance_ms: int = 20_000
    topics: tuple[str, ...] = ()
    regex: str | None = None
    assignor: str | None = None

    @property
    def member_id(self) -> str:
        """A member chooses its id itself; a new process has a new one."""
        return f"{self.name}{self.lives}"


#: A client of either kind.
Actor = ClassicActor | ConsumerActor
