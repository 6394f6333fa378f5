"""The script of a simulated group: what its clients do, and when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto


class ClientAction(Enum):
    """What a client does."""

    START = auto()
    #: Shut down in order: a dynamic member leaves the group, a static one sends nothing.
    STOP = auto()
    #: End without leaving the group.
    CRASH = auto()
    #: Send heartbeats only, until the client leaves because it has not polled for too long.
    HANG = auto()
    #: End a hang.
    RESUME = auto()


@dataclass(frozen=True, slots=True)
class ClientStep:
    """An action of the client with this number, at a time since the script's beginning."""

    at_ms: int
    action: ClientAction
    client: int


class Committer(Enum):
    """Who commits a group's offsets: its consumers, producers (each time in a transaction), or both in turn."""

    CONSUMERS = auto()
    PRODUCERS = auto()
    BOTH = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The steps and the settings of one group.

    ``simple``: the client commits offsets without being a member. ``irregular``: commits come at any distance, most
    often at ``commit_interval_ms``. ``repeats``: the share of commits that repeat the last offsets. From
    ``poisoned_ms`` on the offset of partition 0 does not change. ``shared_instance_ids``: client number to the number
    of the client whose instance id it has by mistake. ``consumer_starts``: the starts of a client, counted from 1, that
    use the consumer protocol (KIP-848).
    """

    steps: tuple[ClientStep, ...]
    static: bool = False
    cooperative: bool = False
    simple: bool = False
    consumer_starts: range = range(0)
    partitions: int = 6
    commit_interval_ms: int = 5_000
    irregular: bool = False
    repeats: float = 0.0
    committer: Committer = Committer.CONSUMERS
    poisoned_ms: int | None = None
    shared_instance_ids: Mapping[int, int] = field(default_factory=dict)
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000


def max_running(steps: Iterable[ClientStep]) -> int:
    """The largest number of clients that run at the same time."""
    running: set[int] = set()
    most = 0
    for step in steps:
        if step.action is ClientAction.START:
            running.add(step.client)
        elif step.action in (ClientAction.STOP, ClientAction.CRASH):
            running.discard(step.client)
        most = max(most, len(running))
    return most
