"""The script of a simulated group: what its clients do and when; and the values that are drawn for it.

Values are drawn for each group or each occurrence; equal random numbers give equal values.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, Generic, TypeAlias, TypeVar

from groupreplay.codecs.kafka_terms import DEFAULT_HEARTBEAT_INTERVAL_MS

SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

_V = TypeVar("_V")


@dataclass(frozen=True, slots=True)
class OneOf(Generic[_V]):
    """One of several values; without ``weights`` all have the same chance. Raises ValueError for other weights."""

    values: tuple[_V, ...]
    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        # Not only NaN and infinity: the sum of large weights may be infinite.
        fit = len(self.weights) == len(self.values) and all(weight >= 0 for weight in self.weights)
        if not self.values or (self.weights and not (fit and 0 < sum(self.weights) < math.inf)):
            raise ValueError("one of several values: weights are as many numbers, finite and not all 0")

    def draw(self, numbers: random.Random) -> _V:
        """One of the values."""
        return numbers.choices(self.values, self.weights or None)[0]


@dataclass(frozen=True, slots=True)
class Between:
    """A whole number or a time from ``least`` to ``most``, both inclusive. Raises ValueError if they are reversed."""

    least: int
    most: int

    def __post_init__(self) -> None:
        if self.least > self.most:
            raise ValueError(f"least = {self.least} is more than most = {self.most}")

    def draw(self, numbers: random.Random) -> int:
        """One of the numbers."""
        return numbers.randint(self.least, self.most)


@dataclass(frozen=True, slots=True)
class About:
    """A time from half of ``time_ms`` to one and a half; ``per_member_ms`` makes it longer for large groups."""

    time_ms: int
    per_member_ms: int = 0


@dataclass(frozen=True, slots=True)
class ShareOfTime:
    """A share of the simulated time, but not less than ``at_least_ms``."""

    share: float
    at_least_ms: int = 0


Number: TypeAlias = int | Between | OneOf[int]
Time: TypeAlias = int | Between | About | ShareOfTime


def drawn(numbers: random.Random, value: _V | OneOf[_V]) -> _V:
    """A value that may be one of several."""
    return value.draw(numbers) if isinstance(value, OneOf) else value


def whole_number(numbers: random.Random, value: Number) -> int:
    """A number that may be drawn."""
    return value if isinstance(value, int) else value.draw(numbers)


def numbers_of(value: Number) -> tuple[int, ...]:
    """The numbers that may be drawn; of a range its two ends."""
    if isinstance(value, OneOf):
        return value.values
    return (value.least, value.most) if isinstance(value, Between) else (value,)


def time_ms(numbers: random.Random, value: Time, *, duration_ms: int = 0, members: int = 0) -> int:
    """A time in milliseconds; a share is one of ``duration_ms``."""
    if isinstance(value, ShareOfTime):
        return max(int(duration_ms * value.share), value.at_least_ms)
    if isinstance(value, About):
        about_ms = max(value.time_ms, members * value.per_member_ms)
        return numbers.randrange(about_ms // 2, about_ms * 3 // 2 + 1)
    return whole_number(numbers, value)


def least_time_ms(value: Time) -> int:
    """The shortest time that may be drawn, in milliseconds; of a share 0."""
    if isinstance(value, About):
        return value.time_ms // 2
    return 0 if isinstance(value, ShareOfTime) else min(numbers_of(value))


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
    protocol (KIP-848). ``exact``: as Kafka's clients with a quick application. They send all heartbeats, and not only
    as many as keep sessions, those of classic members together, because their timers begin with the assignment.
    Assignments and revocations take milliseconds. Clients that commit automatically do so when they close, too.

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
    exact: bool = False
    shared_instance_ids: Mapping[int, int] = field(default_factory=dict)
    instance_id: str | None = None
    strategies: tuple[str, ...] = ("range", "cooperative-sticky")
    remote_assignor: str | None = None
    commit_interval_ms: int = 5_000
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = DEFAULT_HEARTBEAT_INTERVAL_MS
    rebalance_timeout_ms: int = 300_000
    close: str = DEFAULT_CLOSE
    retention_time_ms: int = -1

    @property
    def commits_before_joining(self) -> bool:
        """Whether members commit automatically, so before each join (``ConsumerCoordinator.onJoinPrepare``)."""
        return self.committer is Committer.CONSUMERS and not self.irregular

    @property
    def commits_on_close(self) -> bool:
        """Whether clients commit when they close (``ConsumerCoordinator.close``)."""
        return self.exact and self.commits_before_joining

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
