"""The client-side assignors of simulated groups: ``range`` (eager) and ``cooperative-sticky`` (KIP-429).

As in ``ConsumerCoordinator``, a member that lists ``range``, too, revokes all partitions before it joins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from groupreplay.codecs import (
    Assignment,
    Subscription,
    TopicPartitions,
    decode_assignment,
    decode_subscription,
    encode_blob,
    subscribed_topics,
)
from groupreplay.coordinator.requests import Protocol

_RANGE: Final = "range"
_COOPERATIVE: Final = "cooperative-sticky"
#: The assignors by Kafka's names, in the order of the default of ``partition.assignment.strategy``.
STRATEGIES: Final = (_RANGE, _COOPERATIVE)
#: (member id, instance id, metadata), as in the leader's JoinGroup answer.
Members: TypeAlias = Sequence[tuple[str, str | None, bytes]]


def is_cooperative(strategies: Sequence[str]) -> bool:
    """Whether members with these assignors keep their partitions during a rebalance."""
    return _RANGE not in strategies


def supported(
    topic: str, owned: Sequence[int], strategies: Sequence[str], second: str | None = None
) -> tuple[Protocol, ...]:
    """The protocols with which a member joins, by preference; an eager member has revoked all partitions before.

    ``second``: a second topic to which the member subscribes.
    """
    claimed = _partitions(topic, owned if is_cooperative(strategies) else ())
    topics = (topic,) if second is None else (topic, second)
    metadata = encode_blob(Subscription(version=1, topics=topics, owned_partitions=claimed))
    return tuple(Protocol(name, metadata) for name in strategies)


def assigned(
    members: Members, topic: str, partitions: int, strategy: str | None
) -> tuple[tuple[str, bytes], ...]:
    """The assignments that the leader computes with the chosen assignor: (member id, assignment).

    The only partition of a second topic goes to the first of its subscribers.
    """
    if strategy == _COOPERATIVE:
        shares = _sticky({member: _claimed(metadata) for member, _, metadata in members}, partitions)
    else:
        names = sorted(member for member, _, _ in members)
        shares = {name: list(range(place, partitions, len(names))) for place, name in enumerate(names)}
    seconds = _owners_of_seconds(members, topic)

    def assignment(member: str, share: Sequence[int]) -> bytes:
        further = (TopicPartitions(topic=one, partitions=(0,)) for one, by in seconds.items() if by == member)
        return encode_blob(Assignment(version=1, assigned_partitions=(*_partitions(topic, share), *further)))

    return tuple((member, assignment(member, share)) for member, share in shares.items())


def _owners_of_seconds(members: Members, topic: str) -> dict[str, str]:
    """The member that gets each second topic."""
    found: dict[str, str] = {}
    for member, _, metadata in sorted(members):
        topics = subscribed_topics(metadata)
        for one in topics if isinstance(topics, tuple) else ():
            if one != topic:
                found.setdefault(one, member)
    return found


def owned(assignment: bytes, topic: str) -> tuple[int, ...]:
    """The partitions of a topic in an assignment."""
    decoded = decode_assignment(assignment)
    if not isinstance(decoded, Assignment):
        return ()
    return tuple(
        number for one in decoded.assigned_partitions if one.topic == topic for number in one.partitions
    )


def _partitions(topic: str, numbers: Sequence[int]) -> tuple[TopicPartitions, ...]:
    return (TopicPartitions(topic=topic, partitions=tuple(sorted(numbers))),) if numbers else ()


def _claimed(metadata: bytes) -> tuple[int, ...]:
    subscription = decode_subscription(metadata)
    if not isinstance(subscription, Subscription):
        return ()
    return tuple(number for one in subscription.owned_partitions for number in one.partitions)


def _sticky(claims: dict[str, tuple[int, ...]], partitions: int) -> dict[str, list[int]]:
    """Members keep their partitions up to their quota. Surplus partitions are revoked now and assigned next time."""
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
    claimed = {number for numbers in claims.values() for number in numbers}
    left = [number for number in range(partitions) if number not in claimed]
    for member in reversed(by_size):
        while left and len(shares[member]) < quota[member]:
            shares[member].append(left.pop(0))
    return dict(sorted(shares.items()))
