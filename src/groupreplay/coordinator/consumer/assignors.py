"""The broker's assignors of consumer groups: what they are given, ``uniform``, and ``range``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from groupreplay.coordinator.java_maps import HashOrder, uuid_hash
from groupreplay.coordinator.requests import Thrown, TopicIdPartition

Target = frozenset[TopicIdPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedMember:
    """A member as an assignor sees it; ``topics`` are ids, ``target`` is its previous target assignment."""

    instance_id: str | None
    topics: frozenset[bytes]
    target: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignorInput:
    """The input of an assignor: members by id in Kafka's order, numbers of partitions by topic id.

    ``homogeneous``: all members have the same subscription. ``assigned``: the partitions of all previous targets.
    """

    members: Mapping[str, AssignedMember]
    partitions: Mapping[bytes, int]
    homogeneous: bool
    assigned: frozenset[TopicIdPartition]


#: How often all topics are balanced at most (``MAX_ITERATION_COUNT``).
_ROUNDS: Final = 16


def uniform(group: AssignorInput) -> dict[str, Target]:
    """Assign as evenly as possible, then with as few moves as possible."""
    return _homogeneous(group) if group.homogeneous else _Heterogeneous(group).assign()


def _in_set_order(topics: Iterable[bytes]) -> list[bytes]:
    return list(HashOrder(uuid_hash, sorted(topics)))


def _homogeneous(group: AssignorInput) -> dict[str, Target]:
    names = list(group.members)
    topics = _in_set_order(group.members[names[0]].topics) if names else []
    everything = [(topic, number) for topic in topics for number in range(group.partitions[topic])]
    if not everything:
        return {name: frozenset() for name in names}
    free = [partition for partition in everything if partition not in group.assigned]
    least, extra = divmod(len(everything), len(names))
    kept: dict[str, set[TopicIdPartition]] = {}
    room: dict[str, int] = {}
    for index, name in enumerate(names):
        quota = least + (extra > 0)
        old = _by_topic(group.members[name].target, topics)
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


def _by_topic(target: Target, topics: Sequence[bytes]) -> list[TopicIdPartition]:
    """The partitions of these topics in the order of a target's hash tables."""
    mine: dict[bytes, list[int]] = {}
    for topic, number in sorted(target):
        mine.setdefault(topic, []).append(number)
    return [
        (topic, number)
        for topic in _in_set_order(mine)
        if topic in topics
        for number in HashOrder(int, mine[topic], buckets=16)
    ]


class _Heterogeneous:
    """Members with different subscriptions: keep, assign what is free, then move until no topic can be evener."""

    def __init__(self, group: AssignorInput) -> None:
        self._group = group
        self._names = list(group.members)
        self._readers: dict[bytes, list[int]] = {}
        for index, member in enumerate(group.members.values()):
            for topic in member.topics:
                self._readers.setdefault(topic, []).append(index)
        self._loads = [0] * len(self._names)
        self._targets: list[set[TopicIdPartition]] = [set() for _ in self._names]
        #: By topic, for each partition the index of its member; -1 for none.
        self._owners = {topic: [-1] * group.partitions[topic] for topic in self._readers}

    def assign(self) -> dict[str, Target]:
        """The new targets."""
        for index, member in enumerate(self._group.members.values()):
            for topic, number in member.target:
                if topic in member.topics:
                    if not 0 <= number < len(self._owners[topic]):
                        # A leader of the classic protocol may have assigned what is not there.
                        raise Thrown
                    self._targets[index].add((topic, number))
                    self._loads[index] += 1
                    self._owners[topic][number] = index
        for topic in self._sorted(self._readers):
            free = [number for number, owner in enumerate(self._owners[topic]) if owner == -1]
            balance = _Balance.of(self._readers[topic], self._loads)
            for number in free:
                self._move(topic, number, balance.least_loaded())
        self._balance([topic for topic, readers in self._readers.items() if len(readers) > 1])
        return {
            name: frozenset(partitions) for name, partitions in zip(self._names, self._targets, strict=True)
        }

    def _sorted(self, topics: Iterable[bytes]) -> list[bytes]:
        """Topics with the most partitions for each of their readers first."""

        def rank(topic: bytes) -> tuple[float, int, int, int]:
            readers = len(self._readers[topic])
            high, low = (int.from_bytes(half, "big", signed=True) for half in (topic[:8], topic[8:]))
            return -self._group.partitions[topic] / readers, readers, high, low

        return sorted(topics, key=rank)

    def _move(self, topic: bytes, number: int, index: int) -> None:
        before = self._owners[topic][number]
        if before != -1:
            self._loads[before] -= 1
            self._targets[before].discard((topic, number))
        self._owners[topic][number] = index
        self._loads[index] += 1
        self._targets[index].add((topic, number))

    def _balance(self, topics: Iterable[bytes]) -> None:
        """Go round the topics until none of them has changed since it was balanced last."""
        order = self._sorted(topics)
        last_changed = -1
        for _ in range(_ROUNDS):
            for place, topic in enumerate(order):
                if place == last_changed:
                    return
                if self._balance_topic(topic) or last_changed == -1:
                    last_changed = place

    def _balance_topic(self, topic: bytes) -> int:
        """Move partitions of one topic from the members with the most to those with the fewest; how many moved."""
        balance = _Balance.of(self._readers[topic], self._loads)
        if balance.spread <= 1:
            return 0
        numbers = sorted(range(self._group.partitions[topic]), key=lambda number: self._owners[topic][number])
        movable: dict[int, list[int]] = {}
        for number in numbers:
            movable.setdefault(self._owners[topic][number], []).append(number)
        moved = 0
        while not balance.levelled():
            most = balance.most_loaded()
            if most == -1:
                break
            if not movable.get(most):
                balance.exclude_most_loaded()
                continue
            number = movable[most].pop()
            least = balance.least_loaded()
            if balance.levelled():
                break
            self._move(topic, number, least)
            moved += 1
        return moved


@dataclass(slots=True)
class _Balance:
    """The readers of a topic, sorted by their partitions of all topics (Kafka's ``MemberAssignmentBalancer``).

    Two ranges of them are levelled: the least loaded ones, which take in turn, and the most loaded ones, which give in
    turn. Each range has the same number of partitions; a range that has had its turn takes in the next ones.
    """

    members: list[int]
    loads: Sequence[int]
    least_end: int = 0
    least_load: int = 0
    next_least: int = 0
    most_begin: int = 0
    most_end: int = 0
    most_load: int = 0
    next_most: int = 0
    spread: int = field(default=0)

    @classmethod
    def of(cls, readers: Iterable[int], loads: Sequence[int]) -> _Balance:
        """The state before the first move."""
        members = sorted(readers, key=lambda index: (loads[index], index))
        least, most = loads[members[0]], loads[members[-1]]
        size = len(members)
        return cls(
            members,
            loads,
            least_load=least - 1,
            most_begin=size,
            most_end=size,
            most_load=most + 1,
            next_most=size - 1,
            spread=most - least,
        )

    def levelled(self) -> bool:
        """Whether both ranges differ by one partition at most."""
        return self.most_load - self.least_load <= 1

    def least_loaded(self) -> int:
        """The member that takes next."""
        if self.next_least >= self.least_end:
            self.least_load += 1
            while (
                self.least_end < len(self.members)
                and self.loads[self.members[self.least_end]] == self.least_load
            ):
                self.least_end += 1
            self.next_least = 0
        self.next_least += 1
        return self.members[self.next_least - 1]

    def most_loaded(self) -> int:
        """The member that gives next; -1 when there is none."""
        if self.next_most < self.most_begin:
            if self.most_end <= self.most_begin and self.most_begin > 0:
                # All members of the range are excluded.
                self.most_load = self.loads[self.members[self.most_begin - 1]]
            else:
                self.most_load -= 1
            while self.most_begin > 0 and self.loads[self.members[self.most_begin - 1]] == self.most_load:
                self.most_begin -= 1
            self.next_most = self.most_end - 1
        if self.next_most < 0:
            return -1
        self.next_most -= 1
        return self.members[self.next_most + 1]

    def exclude_most_loaded(self) -> None:
        """The member that was to give has no partition of the topic: take it out of the range."""
        at, end = self.next_most + 1, self.most_end - 1
        self.members[at], self.members[end] = self.members[end], self.members[at]
        self.most_end = end


def by_range(group: AssignorInput) -> dict[str, Target]:
    """Assign a contiguous range of each topic's partitions to each subscriber, static members first."""
    names = sorted(group.members, key=lambda name: _rank(name, group.members[name]))
    targets: dict[str, set[tuple[bytes, int]]] = {name: set() for name in group.members}
    # Of members that subscribe alike the first one counts: a regular expression may not be resolved yet.
    alike = group.members[names[0]].topics if names and group.homogeneous else None
    topics = {topic for member in group.members.values() for topic in member.topics}
    for topic in sorted(topics if alike is None else alike):
        readers = [name for name in names if alike is not None or topic in group.members[name].topics]
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
