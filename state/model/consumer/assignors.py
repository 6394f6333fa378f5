"""The broker's two assignors for consumer groups: ``uniform`` and ``range``.

With equal subscriptions both assign exactly as Kafka's, with its order of members
(``UniformHomogeneousAssignmentBuilder``, ``RangeAssignor``). With different subscriptions ``range`` still does;
``uniform`` is simplified: topics with the fewest subscribers first, each partition to the subscriber with the fewest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from groupreplay.state.kafka_terms import hash_map_order
from groupreplay.state.model.requests import TopicIdPartition

Target = frozenset[TopicIdPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedMember:
    """A member as an assignor sees it; ``topics`` are ids, ``target`` is its previous target assignment."""

    instance_id: str | None
    topics: frozenset[bytes]
    target: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignorInput:
    """The input of an assignor: members by id, numbers of partitions by topic id.

    ``homogeneous``: all members have the same subscription. ``assigned``: the partitions of all previous targets.
    """

    members: Mapping[str, AssignedMember]
    partitions: Mapping[bytes, int]
    homogeneous: bool
    assigned: frozenset[TopicIdPartition]


def uniform(group: AssignorInput) -> dict[str, Target]:
    """Assign as evenly as possible, then with as few moves as possible."""
    return _uniform_homogeneous(group) if group.homogeneous else _uniform_heterogeneous(group)


def _uniform_homogeneous(group: AssignorInput) -> dict[str, Target]:
    names = hash_map_order(group.members)
    topics = sorted(group.members[names[0]].topics) if names else []
    everything = [(topic, number) for topic in topics for number in range(group.partitions[topic])]
    free = [partition for partition in everything if partition not in group.assigned]
    least, extra = divmod(len(everything), len(names)) if names else (0, 0)
    kept: dict[str, set[TopicIdPartition]] = {}
    room: dict[str, int] = {}
    for index, name in enumerate(names):
        quota = least + (extra > 0)
        old = _by_topic(group.members[name].target, set(topics))
        kept[name] = set(old[:quota])
        free += old[quota:]
        left = quota - len(kept[name])
        takes_extra = extra > 0
        if left and takes_extra and len(names) - index > extra:
            # Leave the extra partition to a later member, unless each remaining member has to take one.
            left, takes_extra = left - 1, False
        extra -= takes_extra
        if left:
            room[name] = left
    waiting = iter(free)
    for name, left in room.items():
        kept[name].update(islice(waiting, left))
    return {name: frozenset(partitions) for name, partitions in kept.items()}


def _by_topic(target: Target, topics: set[bytes]) -> list[TopicIdPartition]:
    return sorted(partition for partition in target if partition[0] in topics)


def _uniform_heterogeneous(group: AssignorInput) -> dict[str, Target]:
    kept: dict[str, set[TopicIdPartition]] = {
        name: {partition for partition in member.target if partition[0] in member.topics}
        for name, member in group.members.items()
    }
    readers = Counter(topic for member in group.members.values() for topic in member.topics)
    partitions = [
        (topic, number)
        for topic in sorted(readers, key=lambda topic: (readers[topic], topic))
        for number in range(group.partitions[topic])
    ]
    owned = {partition for mine in kept.values() for partition in mine}
    for partition in partitions:
        able = sorted(name for name, member in group.members.items() if partition[0] in member.topics)
        least = min(able, key=lambda name: len(kept[name]))
        owner = next((name for name in able if partition in kept[name]), None)
        if partition not in owned:
            kept[least].add(partition)
        elif owner is not None and len(kept[owner]) > len(kept[least]) + 1:
            kept[owner].discard(partition)
            kept[least].add(partition)
    return {name: frozenset(mine) for name, mine in kept.items()}


def by_range(group: AssignorInput) -> dict[str, Target]:
    """Assign a contiguous range of each topic's partitions to each subscriber, static members first."""
    names = sorted(group.members, key=lambda name: _rank(name, group.members[name]))
    targets: dict[str, set[TopicIdPartition]] = {name: set() for name in names}
    for topic in sorted({topic for member in group.members.values() for topic in member.topics}):
        readers = [name for name in names if topic in group.members[name].topics]
        for name, numbers in zip(readers, _runs(group.partitions[topic], len(readers)), strict=True):
            targets[name].update((topic, number) for number in numbers)
    return {name: frozenset(partitions) for name, partitions in targets.items()}


def _rank(name: str, member: AssignedMember) -> tuple[bool, str]:
    return member.instance_id is None, member.instance_id or name


def _runs(partitions: int, members: int) -> Sequence[range]:
    least, extra = divmod(partitions, members)
    ends = [least * (index + 1) + min(index + 1, extra) for index in range(members)]
    return [range(begin, end) for begin, end in zip([0, *ends], ends, strict=False)]


#: Assignors by name; the first one is the broker's default (``group.consumer.assignors``).
ASSIGNORS: Final[Mapping[str, Callable[[AssignorInput], dict[str, Target]]]] = {
    "uniform": uniform,
    "range": by_range,
}
