"""Simulated clients of KIP-848, and classic clients in a consumer group: heartbeats and their answers.

During a rebalance, clients send heartbeats as often as the broker requests. Otherwise they send fewer, which only keep
sessions alive.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

from msgspec.structs import replace

from groupreplay.codecs import (
    Assignment,
    Subscription,
    TopicPartitions,
    decode_assignment,
    decode_subscription,
    encode_blob,
    subscribed_topics,
)
from groupreplay.codecs.kafka_terms import ConsumerPhase, Phase
from groupreplay.coordinator.consumer.consumer_group import AWAY, LEFT, ConsumerGroup
from groupreplay.coordinator.coordinator import Coordinator
from groupreplay.coordinator.requests import (
    RETRIABLE,
    Answer,
    ClassicHeartbeat,
    ConsumerGroupHeartbeat,
    Error,
    Protocol,
    Request,
    StateChange,
)
from groupreplay.coordinator.simulation.script import LEAVE_GROUP, REMAIN_IN_GROUP, Script

_RANGE: Final = "range"
_COOPERATIVE: Final = "cooperative-sticky"
_STICKY: Final = "sticky"
#: Kafka's default of ``partition.assignment.strategy``.
DEFAULT_STRATEGIES: Final = (_RANGE, _COOPERATIVE)
#: The assignors by Kafka's names.
STRATEGIES: Final = (*DEFAULT_STRATEGIES, _STICKY)
#: (member id, instance id, metadata), as in the leader's JoinGroup answer.
Members: TypeAlias = Sequence[tuple[str, str | None, bytes]]


def is_cooperative(strategies: Sequence[str]) -> bool:
    """Whether members with these assignors keep their partitions during a rebalance."""
    return set(strategies) <= {_COOPERATIVE}


def supported(
    topic: str, owned: Sequence[int], strategies: Sequence[str], second: str | None = None
) -> tuple[Protocol, ...]:
    """The protocols with which a member joins, by preference; an eager member has revoked all partitions before.

    ``second``: a second topic to which the member subscribes. With ``sticky`` a member that has revoked all still says
    which ones it had: in the user data of Kafka's ``StickyAssignor``, here as its owned partitions.
    """
    topics = (topic,) if second is None else (topic, second)

    cooperative = is_cooperative(strategies)
    claims = [cooperative or name == _STICKY for name in strategies]
    blobs = {claim: _subscription(topics, tuple(owned) if claim else ()) for claim in set(claims)}
    return tuple(Protocol(name, blobs[claim]) for name, claim in zip(strategies, claims, strict=True))


@lru_cache(maxsize=2**12)
def _subscription(topics: tuple[str, ...], owned: tuple[int, ...]) -> bytes:
    """The subscription that all members of a group send who own the same partitions of the first topic."""
    claimed = _partitions(topics[0], owned)
    return encode_blob(Subscription(version=1, topics=topics, owned_partitions=claimed))


def assigned(
    members: Members, topic: str, partitions: int, strategy: str | None
) -> tuple[tuple[str, bytes], ...]:
    """The assignments that the leader computes with the chosen assignor: (member id, assignment).

    The only partition of a second topic goes to the first of its subscribers.
    """
    if strategy in (_COOPERATIVE, _STICKY):
        claims = {member: _claimed(metadata) for member, _, metadata in members}
        shares = _sticky(claims, partitions, revoked=strategy == _STICKY)
    else:
        names = sorted(member for member, _, _ in members)
        shares = {name: list(range(place, partitions, len(names))) for place, name in enumerate(names)}
    seconds = _owners_of_seconds(members, topic)

    def assignment(member: str, share: Sequence[int]) -> bytes:
        further = (
            TopicPartitions(topic=topic, partitions=(0,)) for topic, by in seconds.items() if by == member
        )
        return encode_blob(Assignment(version=1, assigned_partitions=(*_partitions(topic, share), *further)))

    return tuple((member, assignment(member, share)) for member, share in shares.items())


def _owners_of_seconds(members: Members, topic: str) -> dict[str, str]:
    """The member that gets each second topic."""
    owners: dict[str, str] = {}
    subscribed = {metadata: subscribed_topics(metadata) for metadata in {one for _, _, one in members}}
    for member, _, metadata in sorted(members):
        topics = subscribed[metadata]
        for one in topics if isinstance(topics, tuple) else ():
            if one != topic:
                owners.setdefault(one, member)
    return owners


def owned(assignment: bytes, topic: str) -> tuple[int, ...]:
    """The partitions of a topic in an assignment."""
    decoded = decode_assignment(assignment)
    if not isinstance(decoded, Assignment):
        return ()
    return tuple(
        number
        for partition in decoded.assigned_partitions
        if partition.topic == topic
        for number in partition.partitions
    )


def _partitions(topic: str, numbers: Sequence[int]) -> tuple[TopicPartitions, ...]:
    return (TopicPartitions(topic=topic, partitions=tuple(sorted(numbers))),) if numbers else ()


def _claimed(metadata: bytes) -> tuple[int, ...]:
    subscription = decode_subscription(metadata)
    if not isinstance(subscription, Subscription):
        return ()
    return tuple(number for partition in subscription.owned_partitions for number in partition.partitions)


def _sticky(claims: dict[str, tuple[int, ...]], partitions: int, *, revoked: bool) -> dict[str, list[int]]:
    """Members keep their partitions up to their quota.

    Surplus partitions are revoked now and assigned next time, or, if all are ``revoked`` already, assigned now.
    """
    least, more = divmod(partitions, len(claims))
    shares: dict[str, list[int]] = {}
    taken: set[int] = set()
    # The members with the most partitions may keep one more than the others.
    by_size = sorted(claims, key=lambda member: (-len(claims[member]), member))
    quota = {member: least + (place < more) for place, member in enumerate(by_size)}
    for member in by_size:
        free = [number for number in claims[member] if number not in taken]
        shares[member] = free[: quota[member]]
        taken.update(shares[member])
    claimed = taken if revoked else {number for numbers in claims.values() for number in numbers}
    left = [number for number in range(partitions) if number not in claimed]
    for member in reversed(by_size):
        while left and len(shares[member]) < quota[member]:
            shares[member].append(left.pop(0))
    return dict(sorted(shares.items()))


#: The longest time between two heartbeats that only keep a session alive, less than half of most sessions.
_STABLE_INTERVAL_MS: Final = 20_000
#: The same as a share of a short session.
_STABLE_SHARE: Final = 4 / 9
#: The longest time that an application takes to revoke partitions.
_REVOCATION_MS: Final = 800
_RETRY_MS: Final = 1_000
#: After these errors a client joins again.
_REJOIN_ERRORS: Final = (
    Error.FENCED_MEMBER_EPOCH,
    Error.UNKNOWN_MEMBER_ID,
    Error.GROUP_ID_NOT_FOUND,
    Error.UNKNOWN_SERVER_ERROR,
)
#: A rebalance of a consumer group begins in one of these states; they include those of the classic group before it.
_BEFORE_REBALANCE: Final = (
    ConsumerPhase.STABLE,
    Phase.STABLE,
    Phase.PREPARING_REBALANCE,
    Phase.COMPLETING_REBALANCE,
)


@dataclass(slots=True, kw_only=True)
class SimulatedClient:
    """A client. An action that was scheduled before the present ``schedule_number`` is dropped."""

    name: str
    host: str
    instance_id: str | None
    kip848: bool = False
    running: bool = False
    hanging: bool = False
    hangs: int = 0
    member_id: str = ""
    generation: int = -1
    owned: tuple[int, ...] = ()
    #: When its SyncGroup was answered last: timers of heartbeats begin then.
    assigned_ms: int = 0
    #: A second topic of one partition to which it subscribes, and whether that partition is its own.
    second: str | None = None
    owns_second: bool = False
    #: A JoinGroup or SyncGroup is not answered yet.
    waiting: bool = False
    next_commit_ms: int = 0
    schedule_number: int = 0
    #: Counts the starts and the ends of the client's process.
    incarnation: int = 0
    starts: int = 0

    @classmethod
    def of(cls, group_id: str, number: int, script: Script) -> SimulatedClient:
        """The client with this number."""
        return cls(
            name=f"{group_id}-{number}",
            host=f"/10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}",
            instance_id=script.instance_id_of(number, group_id),
        )

    def begin(self, script: Script) -> None:
        """A new process begins."""
        self.running, self.hanging = True, False
        self.forget_membership()
        self.incarnation += 1
        self.starts += 1
        self.kip848 = self.starts in script.consumer_starts

    def hang(self) -> tuple[int, int]:
        """The client polls no more; returns by what this hang is told from others: the process, and its number."""
        self.hanging = True
        self.hangs += 1
        return self.incarnation, self.hangs

    def forget_membership(self) -> None:
        """The client has left its group, or has not joined yet."""
        self.member_id, self.generation, self.owned, self.owns_second = "", -1, (), False

    def classic_heartbeat(self) -> ClassicHeartbeat:
        """The client's Heartbeat request in the classic protocol."""
        return ClassicHeartbeat(
            member_id=self.member_id, instance_id=self.instance_id, generation=self.generation
        )


#: Schedules a client's next action; it replaces one that was scheduled before.
Schedule = Callable[[SimulatedClient, int, Callable[[SimulatedClient, int], None]], None]
Send = Callable[[SimulatedClient, Request, int], None]


def topic_id(name: str) -> bytes:
    """The id of a simulated topic."""
    return hashlib.blake2b(name.encode(), digest_size=16).digest()


@dataclass(slots=True, kw_only=True)
class ConsumerProtocolClients:
    """The clients of one group. ``send`` sends a client's request, ``schedule`` schedules its next action."""

    coordinator: Coordinator
    topic: str
    script: Script
    numbers: random.Random
    send: Send
    schedule: Schedule

    @property
    def rebalancing(self) -> bool:
        """Whether the group is a consumer group in a rebalance."""
        return self.coordinator.state in (ConsumerPhase.ASSIGNING, ConsumerPhase.RECONCILING)

    @property
    def is_consumer_group(self) -> bool:
        """Whether the group is a consumer group."""
        return isinstance(self.coordinator.group, ConsumerGroup)

    def join(self, client: SimulatedClient, now_ms: int) -> None:
        """Send the first heartbeat, with a member id that the client generates."""
        if not client.member_id:
            client.member_id = f"{client.name}-{client.incarnation}-{self.numbers.getrandbits(32):08x}"
        client.generation, client.owned = 0, ()
        self._send_all_fields(client, now_ms)

    def leave(self, client: SimulatedClient, now_ms: int, close: str) -> None:
        """Leave the group; a static member leaves for a while, unless it has to leave for good."""
        dynamic = client.instance_id is None
        if dynamic and close == REMAIN_IN_GROUP:
            return
        if client.member_id and client.generation > 0:
            self.send(
                client, self._request(client, LEFT if dynamic or close == LEAVE_GROUP else AWAY), now_ms
            )
            client.forget_membership()

    def resume(self, client: SimulatedClient, now_ms: int) -> None:
        """A client polls again: a member requests its whole assignment, a client without membership joins."""
        if client.generation <= 0:
            self.join(client, now_ms)
        else:
            self._send_all_fields(client, now_ms)

    def _send_all_fields(self, client: SimulatedClient, now_ms: int) -> None:
        heartbeat = self._request(client, client.generation)
        whole = replace(
            heartbeat,
            rebalance_timeout_ms=self.script.rebalance_timeout_ms,
            topics=(self.topic,),
            assignor=self.script.remote_assignor,
        )
        self.send(client, whole, now_ms)

    def heartbeat(self, client: SimulatedClient, now_ms: int) -> None:
        """Send a heartbeat in the client's protocol."""
        if client.waiting:
            self._schedule_heartbeat(client, now_ms)
        elif client.kip848:
            self.send(client, self._request(client, client.generation), now_ms)
        elif self.is_consumer_group:
            # An answer that makes the client rejoin replaces the next heartbeat.
            self._schedule_heartbeat(client, now_ms)
            self.send(client, client.classic_heartbeat(), now_ms)

    def _request(self, client: SimulatedClient, epoch: int) -> ConsumerGroupHeartbeat:
        topic_id = self.coordinator.topics[self.topic].topic_id
        return ConsumerGroupHeartbeat(
            member_id=client.member_id,
            member_epoch=epoch,
            instance_id=client.instance_id,
            client_id=client.name,
            client_host=client.host,
            owned=None if epoch < 0 else frozenset((topic_id, number) for number in client.owned),
        )

    def _interval_ms(self, client: SimulatedClient) -> int:
        """The heartbeat interval: of the broker for the consumer protocol, of the client for the classic one."""
        settings = self.coordinator.settings
        return settings.consumer_heartbeat_interval_ms if client.kip848 else self.script.heartbeat_interval_ms

    def _schedule_heartbeat(self, client: SimulatedClient, now_ms: int) -> None:
        interval_ms = self._interval_ms(client)
        if not (self.rebalancing or self.script.exact):
            settings, script = self.coordinator.settings, self.script
            session_ms = settings.consumer_session_timeout_ms if client.kip848 else script.session_timeout_ms
            interval_ms = max(interval_ms, min(_STABLE_INTERVAL_MS, int(session_ms * _STABLE_SHARE)))
        early_ms = self.numbers.randrange(max(1, interval_ms // 10))
        self.schedule(client, now_ms + interval_ms - early_ms, self.heartbeat)

    def schedule_next_heartbeat(self, client: SimulatedClient, now_ms: int) -> None:
        """Schedule the heartbeat with which the client notices a rebalance."""
        self.schedule(client, now_ms + 1 + self.numbers.randrange(self._interval_ms(client)), self.heartbeat)

    def notify(self, changes: Iterable[StateChange], clients: Iterable[SimulatedClient], now_ms: int) -> None:
        """Schedule the next heartbeat of all members when a rebalance begins, of classic ones after an upgrade.

        In a consumer group a commit does not keep the session of a classic member alive.
        """
        begins = self.rebalancing and any(change.before in _BEFORE_REBALANCE for change in changes)
        upgraded = self.is_consumer_group and any(isinstance(change.before, Phase) for change in changes)
        if not (begins or upgraded):
            return
        for client in clients:
            notices = begins or not client.kip848
            if notices and client.running and client.generation > 0 and not client.waiting:
                self.schedule_next_heartbeat(client, now_ms)

    def handle_answer(self, client: SimulatedClient, answer: Answer, now_ms: int) -> None:
        """Handle the answer to a ConsumerGroupHeartbeat."""
        if answer.error in RETRIABLE:
            self.schedule(client, now_ms + _RETRY_MS + self.numbers.randrange(_RETRY_MS), self.resume)
        elif answer.error is Error.UNRELEASED_INSTANCE_ID or answer.error is Error.GROUP_MAX_SIZE_REACHED:
            self.schedule(client, now_ms + _RETRY_MS, self.join)
        elif answer.error in _REJOIN_ERRORS:
            self.schedule(client, now_ms + _RETRY_MS + self.numbers.randrange(_RETRY_MS), self.join)
        elif answer.generation >= 0:
            self._apply_assignment(client, answer, now_ms)

    def _apply_assignment(self, client: SimulatedClient, answer: Answer, now_ms: int) -> None:
        """Take or revoke partitions, and acknowledge that with a heartbeat at once."""
        client.generation = answer.generation
        if answer.assigned is None or client.hanging:
            self._schedule_heartbeat(client, now_ms)
            return
        owned = tuple(sorted(number for _, number in answer.assigned))
        if owned == client.owned:
            self._schedule_heartbeat(client, now_ms)
            return
        revokes = not set(client.owned) <= set(owned)
        takes_ms = 1 + self.numbers.randrange(_REVOCATION_MS if revokes and not self.script.exact else 20)

        def acknowledge(client: SimulatedClient, at_ms: int) -> None:
            if not client.hanging:
                client.owned = owned
            self.heartbeat(client, at_ms)

        self.schedule(client, now_ms + takes_ms, acknowledge)
