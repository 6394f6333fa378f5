"""The script of a simulated group: what its clients do, and when."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

#: The starts of a client that never uses the classic protocol.
EVERY_START: Final = range(1, 1 << 30)
#: The instance ids of static members by their numbers.
STATIC: Final = "{group}-i{member}"
#: What a member that shuts down does (``CloseOptions.GroupMembershipOperation``).
DEFAULT_CLOSE: Final = "DEFAULT"
LEAVE_GROUP: Final = "LEAVE_GROUP"
REMAIN_IN_GROUP: Final = "REMAIN_IN_GROUP"


class ClientAction(Enum):
    """What a client does."""

    START = auto()
    #: Shut down in order: a dynamic member leaves the group, a static one remains.
    STOP = auto()
    #: End without leaving the group.
    CRASH = auto()
    #: Send heartbeats only, until the client leaves because it has not polled for too long.
    HANG = auto()
    #: End a hang.
    RESUME = auto()


START, STOP, CRASH, HANG, RESUME = ClientAction


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

    def is_producer(self, numbers: random.Random) -> bool:
        """Whether a producer makes the next commit."""
        return self is Committer.PRODUCERS or (self is Committer.BOTH and numbers.random() < 1 / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The steps and the settings of one group.

    ``simple``: the client commits offsets without being a member. ``irregular``: commits come at any distance, most
    often at ``commit_interval_ms``. ``repeats``: the share of commits that repeat the last offsets. From
    ``poisoned_ms`` on the offset of partition 0 does not change. ``metadata_bytes``: the size of the metadata of each
    commit. ``mirror_interval_ms``: the time between two commits of a mirroring tool, while the group has no members.
    ``shared_instance_ids``: client number to the number of the client whose instance id it has by mistake.
    ``changing_topics``: the number of further topics of one partition; a classic member subscribes to one of them, and
    at each start to the next one. ``consumer_starts``: the starts of a client, counted from 1, that use the consumer
    protocol (KIP-848).

    The other fields are settings of the clients (`settings_table`). ``instance_id`` None: members are dynamic.
    """

    steps: tuple[ClientStep, ...]
    simple: bool = False
    consumer_starts: range = range(0)
    partitions: int = 6
    irregular: bool = False
    repeats: float = 0.0
    committer: Committer = Committer.CONSUMERS
    poisoned_ms: int | None = None
    metadata_bytes: int = 0
    mirror_interval_ms: int | None = None
    changing_topics: int = 0
    shared_instance_ids: Mapping[int, int] = field(default_factory=dict)
    instance_id: str | None = None
    strategies: tuple[str, ...] = ("range", "cooperative-sticky")
    remote_assignor: str | None = None
    commit_interval_ms: int = 5_000
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 300_000
    close: str = DEFAULT_CLOSE
    retention_time_ms: int = -1

    @property
    def commits_before_joining(self) -> bool:
        """Whether members commit automatically, so before each join (``ConsumerCoordinator.onJoinPrepare``)."""
        return self.committer is Committer.CONSUMERS and not self.irregular

    def instance_id_of(self, client: int, group_id: str) -> str | None:
        """The instance id of a client."""
        number = self.shared_instance_ids.get(client, client)
        text = self.instance_id
        return text and text.replace("{group}", group_id).replace("{member}", str(number))

    def second_topics(self, group_id: str) -> list[str]:
        """The topics of which each classic member subscribes to one."""
        return [f"{group_id}-second-{number}" for number in range(self.changing_topics)]

    def second_topic(self, group_id: str, client: int, start: int) -> str | None:
        """The one of a client at a start, counted from 1."""
        topics = self.second_topics(group_id)
        return (
            topics[(client + start) % len(topics)] if topics and start not in self.consumer_starts else None
        )


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
