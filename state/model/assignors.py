"""The two assignors that a broker has for consumer groups: ``uniform`` and ``range``.

Know members, what each is subscribed to, and how many partitions there are; must not know epochs or what
anybody owns yet. Where all members are subscribed alike both decide as Kafka's do, in its order of members
(``UniformHomogeneousAssignmentBuilder``, ``RangeAssignor``). Where they are not, ``range`` still does, and
``uniform`` is a simpler one: topics with the fewest readers first, each partition to the reader that has least.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from groupreplay.state.kafka_terms import hash_map_order
from groupreplay.state.model.requests import Place

Target = frozenset[Place]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedMember:
    """What an assignor knows of a member; ``topics`` are ids, ``target`` is the assignment that it had."""

    instance_id: str | None
    topics: frozenset[bytes]
    target: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignable:
    """What is to be assigned: members by id, numbers of partitions by topic id.

    ``alike``: all members are subscribed to the same names. ``assigned``: what is in any target already.
    """

    members: Mapping[str, AssignedMember]
    partitions: Mapping[bytes, int]
    alike: bool
    assigned: frozenset[Place]


def uniform(group: Assignable) -> dict[str, Target]:
    """As even as possible, then as few moves as possible."""
    return _uniform_alike(group) if group.alike else _uniform_unlike(group)


def _uniform_alike(group: Assignable) -> dict[str, Target]:
    names = hash_map_order(group.members)
    topics = sorted(group.members[names[0]].topics) if names else []
    everything = [(topic, number) for topic in topics for number in range(group.partitions[topic])]
    free = [place for place in everything if place not in group.assigned]
    least, extra = divmod(len(everything), len(names)) if names else (0, 0)
    kept: dict[str, set[Place]] = {}
    room: dict[str, int] = {}
    for index, name in enumerate(names):
        quota = least + (extra > 0)
        old = _by_topic(group.members[name].target, set(topics))
        kept[name] = set(old[:quota])
        free += old[quota:]
        left = quota - len(kept[name])
        takes_extra = extra > 0
        if left and takes_extra and len(names) - index > extra:
            # Somebody else may have the one more, unless only those are left who must.
            left, takes_extra = left - 1, False
        extra -= takes_extra
        if left:
            room[name] = left
    waiting = iter(free)
    for name, left in room.items():
        kept[name].update(islice(waiting, left))
    return {name: frozenset(places) for name, places in kept.items()}


def _by_topic(target: Target, topics: set[bytes]) -> list[Place]:
    return sorted(place for place in target if place[0] in topics)


def _uniform_unlike(group: Assignable) -> dict[str, Target]:
    kept: dict[str, set[Place]] = {
        name: {place for place in member.target if place[0] in member.topics}
        for name, member in group.members.items()
    }
    readers = Counter(topic for member in group.members.values() for topic in member.topics)
    places = [
        (topic, number)
        for topic in sorted(readers, key=lambda topic: (readers[topic], topic))
        for number in range(group.partitions[topic])
    ]
    owned = {place for mine in kept.values() for place in mine}
    for place in places:
        able = sorted(name for name, member in group.members.items() if place[0] in member.topics)
        least = min(able, key=lambda name: len(kept[name]))
        owner = next((name for name in able if place in kept[name]), None)
        if place not in owned:
            kept[least].add(place)
        elif owner is not None and len(kept[owner]) > len(kept[least]) + 1:
            kept[owner].discard(place)
            kept[least].add(place)
    return {name: frozenset(mine) for name, mine in kept.items()}


def by_range(group: Assignable) -> dict[str, Target]:
    """Of each topic a run of neighbours to each of its members, static ones first."""
    names = sorted(group.members, key=lambda name: _rank(name, group.members[name]))
    targets: dict[str, set[Place]] = {name: set() for name in names}
    for topic in sorted({topic for member in group.members.values() for topic in member.topics}):
        readers = [name for name in names if topic in group.members[name].topics]
        for name, numbers in zip(readers, _runs(group.partitions[topic], len(readers)), strict=True):
            targets[name].update((topic, number) for number in numbers)
    return {name: frozenset(places) for name, places in targets.items()}


def _rank(name: str, member: AssignedMember) -> tuple[bool, str]:
    return member.instance_id is None, member.instance_id or name


def _runs(partitions: int, members: int) -> Sequence[range]:
    least, extra = divmod(partitions, members)
    ends = [least * (place + 1) + min(place + 1, extra) for place in range(members)]
    return [range(begin, end) for begin, end in zip([0, *ends], ends, strict=False)]


#: Name -> assignor, the broker's default first (``group.consumer.assignors``).
ASSIGNORS: Final[Mapping[str, Callable[[Assignable], dict[str, Target]]]] = {
    "uniform": uniform,
    "range": by_range,
}
