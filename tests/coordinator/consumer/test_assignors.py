"""What holds of every target of the ``uniform`` assignor; `test_model_and_coordinator` compares it with Kafka's."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from groupreplay.coordinator.consumer.assignors import AssignedMember, AssignorInput, Target, uniform

T, U, V = (bytes([first]) * 8 + bytes([first + 1]) * 8 for first in (1, 2, 3))


def group(
    partitions: dict[bytes, int], *, homogeneous: bool = False, **members: tuple[frozenset[bytes], Target]
) -> AssignorInput:
    """Members with their topics and their previous targets."""
    return AssignorInput(
        members={
            name: AssignedMember(instance_id=None, topics=topics, target=target)
            for name, (topics, target) in members.items()
        },
        partitions=partitions,
        homogeneous=homogeneous,
        assigned=frozenset(place for _, target in members.values() for place in target),
    )


@given(st.lists(st.tuples(st.sets(st.sampled_from((T, U, V))), st.integers(0, 3)), min_size=1, max_size=6))
def test_each_partition_with_a_reader_is_assigned_once(members: list[tuple[set[bytes], int]]) -> None:
    """To one of its readers; assigned anew with these targets nothing moves."""
    partitions = {T: 5, U: 3, V: 1}
    read = {f"m{number}": frozenset(topics) for number, (topics, _) in enumerate(members)}
    targets = uniform(group(partitions, **{name: (topics, frozenset()) for name, topics in read.items()}))
    places = [place for target in targets.values() for place in target]
    wanted = [
        (topic, number)
        for topic, size in partitions.items()
        if any(topic in topics for topics in read.values())
        for number in range(size)
    ]
    assert sorted(places) == sorted(wanted)
    assert all(topic in read[name] for name, target in targets.items() for topic, _ in target)
    again = uniform(group(partitions, **{name: (topics, targets[name]) for name, topics in read.items()}))
    assert again == targets


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.integers(0, 12))
def test_uniform_targets_are_even_and_whole_whoever_comes_and_goes(sizes: list[int], partitions: int) -> None:
    """For group after group, each with the previous targets: each partition is assigned once, evenly."""
    targets: dict[str, Target] = {}
    for size in sizes:
        names = [f"m{number}" for number in range(size)]
        members = {name: (frozenset({T}), targets.get(name, frozenset())) for name in names}
        targets = uniform(group({T: partitions}, homogeneous=True, **members))
        places = [place for target in targets.values() for place in target]
        assert sorted(places) == [(T, number) for number in range(partitions)]
        lengths = {len(target) for target in targets.values()}
        assert max(lengths) - min(lengths) <= 1
