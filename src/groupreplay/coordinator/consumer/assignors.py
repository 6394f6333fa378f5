"""The broker's two assignors for consumer groups, ``uniform`` and ``range`` (``RangeAssignor``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from groupreplay.coordinator.consumer.assignor_input import AssignedMember, AssignorInput, Target
from groupreplay.coordinator.consumer.uniform import uniform


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
