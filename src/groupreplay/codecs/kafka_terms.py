"""Kafka's own terms: group types, states, and which partition of the offsets topic holds a group.

The coordinator model and the replay share this module and nothing else.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import lru_cache
from operator import mul
from typing import Final


class Phase(str, Enum):
    """States of a classic group, spelled as Kafka spells them (``ClassicGroupState``)."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


#: State -> the states it may be reached from (``ClassicGroupState``).
VALID_PREVIOUS_STATES: Final[Mapping[Phase, frozenset[Phase]]] = {
    Phase.EMPTY: frozenset({Phase.PREPARING_REBALANCE}),
    Phase.PREPARING_REBALANCE: frozenset({Phase.STABLE, Phase.COMPLETING_REBALANCE, Phase.EMPTY}),
    Phase.COMPLETING_REBALANCE: frozenset({Phase.PREPARING_REBALANCE}),
    Phase.STABLE: frozenset({Phase.COMPLETING_REBALANCE}),
    Phase.DEAD: frozenset(Phase),
}


class ConsumerPhase(Enum):
    """States of a consumer group (KIP-848), spelled as Kafka spells them (``ConsumerGroupState``).

    Not a ``str``, unlike ``Phase``: Empty is another state there.
    """

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


#: The states of a rebalance in progress.
REBALANCING: Final = frozenset({Phase.PREPARING_REBALANCE, Phase.COMPLETING_REBALANCE})


class MemberPhase(str, Enum):
    """States of a member (``MemberState``); streams number them from 1, the others from 0."""

    STABLE = "Stable"
    UNREVOKED = "UnrevokedPartitions"
    UNRELEASED = "UnreleasedPartitions"
    UNKNOWN = "Unknown"


class GroupType(str, Enum):
    """The kinds of group, spelled as Kafka's tools spell them."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


def shown_type(group_type: str, *, simple: bool) -> str:
    """The type of a group as lists show it: ``simple`` is a classic group that never had members."""
    return "simple" if simple else group_type


#: A group of the newer types whose topology or topics are missing (streams).
NOT_READY: Final = "NotReady"


def group_states() -> list[str]:
    """The names of all states of all kinds of groups."""
    states = (*Phase, *ConsumerPhase)
    return [*dict.fromkeys(state.value for state in states), NOT_READY]


#: Only members of this protocol type subscribe to topics and are assigned partitions.
CONSUMER_PROTOCOL_TYPE = "consumer"


#: The default of ``offsets.topic.num.partitions``.
DEFAULT_PARTITIONS = 50
#: The default session timeout, of all kinds of groups.
DEFAULT_SESSION_TIMEOUT_MS = 45_000
#: No group may set a longer session for itself than this setting of the brokers; and Kafka's default of it.
CONSUMER_SESSION_BOUND = "group.consumer.max.session.timeout.ms"
LONGEST_CONSUMER_SESSION_MS = 60_000
#: Kafka's default of ``heartbeat.interval.ms``, of the clients of classic groups.
DEFAULT_HEARTBEAT_INTERVAL_MS = 3_000


def given_ms(timeout_ms: int) -> int | None:
    """A timeout in a record; None for one below 1, which says that it was not given, as Kafka's default -1 does."""
    return timeout_ms if timeout_ms > 0 else None


_INT_MIN = -(2**31)


@lru_cache(maxsize=16)
def _powers_of_31(bits: int) -> tuple[int, ...]:
    """The powers up to an exponent of so many bits, modulo 2**32."""
    return tuple(pow(31, exponent, 2**32) for exponent in range(1 << bits))


@lru_cache(maxsize=2**16)
def java_hash(text: str) -> int:
    """Java's ``String.hashCode``: 31·h + unit over UTF-16 code units, wrapped to int32."""
    encoded = text.encode("utf-16-be", "surrogatepass")
    units = struct.unpack(f">{len(encoded) // 2}H", encoded)
    value: int = sum(map(mul, reversed(units), _powers_of_31(len(units).bit_length()))) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def partition_for(group_id: str, partitions: int = DEFAULT_PARTITIONS) -> int:
    """The partition of the group's records (``GroupCoordinatorService.partitionFor``).

    Kafka's ``Utils.abs`` is a true absolute value with int min mapped to 0; the sign mask that producers use
    gives another partition.
    """
    value = java_hash(group_id)
    return (0 if value == _INT_MIN else abs(value)) % partitions


def hash_map_order(names: Iterable[str], size: int = 16) -> list[str]:
    """The order in which Java's ``HashMap`` iterates over these keys; in a bucket the first inserted key is first.

    ``size`` is the map's number of buckets, which grows with the keys.
    """
    keys = list(dict.fromkeys(names))
    while len(keys) > size * 3 // 4:
        size *= 2

    def bucket(name: str) -> int:
        value = java_hash(name) & 0xFFFFFFFF
        return (value ^ value >> 16) & (size - 1)

    return sorted(keys, key=bucket)
