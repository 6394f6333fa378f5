"""The ``uniform`` assignor with different subscriptions; `test_model_and_coordinator` compares it with Kafka's."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from groupreplay.coordinator.consumer.assignors import (
    AssignedMember,
    AssignorInput,
    Target,
    by_range,
    uniform,
)

T, U, V = (bytes([first]) * 8 + bytes([first + 1]) * 8 for first in (1, 2, 3))


def of(topic: bytes, *numbers: int) -> Target:
    """Partitions of a topic."""
    return frozenset((topic, number) for number in numbers)


def group(partitions: dict[bytes, int], **members: tuple[frozenset[bytes], Target]) -> AssignorInput:
    """Members with their topics and their previous targets."""
    return AssignorInput(
        members={
            name: AssignedMember(instance_id=None, topics=topics, target=target)
            for name, (topics, target) in members.items()
        },
        partitions=partitions,
        homogeneous=False,
        assigned=frozenset(place for _, target in members.values() for place in target),
    )


def test_the_topic_with_the_most_partitions_for_each_reader_is_assigned_first() -> None:
    """What is left evens out what the members have of it."""
    both, one = frozenset({T, U}), frozenset({T})
    assert uniform(group({T: 2, U: 3}, a=(both, frozenset()), b=(one, frozenset()))) == {
        "a": of(U, 0, 1, 2),
        "b": of(T, 0, 1),
    }


def test_a_member_gives_up_what_it_does_not_read_and_only_as_much_of_the_rest() -> None:
    """The last partitions of a topic move, one by one, until no member has two more than another."""
    both, one = frozenset({T, U}), frozenset({T})
    before = group({T: 5, U: 1, V: 1}, a=(both, of(T, 0, 1, 2, 3, 4) | of(V, 0)), b=(one, frozenset()))
    assert uniform(before) == {"a": of(T, 0, 1) | of(U, 0), "b": of(T, 2, 3, 4)}


def test_who_has_nothing_of_a_topic_gives_nothing() -> None:
    """The member with the most partitions has them of another topic."""
    before = group(
        {T: 4, U: 4},
        a=(frozenset({T, U}), of(U, 0, 1, 2, 3)),
        b=(frozenset({T}), of(T, 0, 1, 2)),
        c=(frozenset({T}), of(T, 3)),
    )
    assert uniform(before) == {"a": of(U, 0, 1, 2, 3), "b": of(T, 0, 1), "c": of(T, 2, 3)}


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


def group_of_topics(
    partitions: dict[bytes, int],
    *,
    topics: dict[str, frozenset[bytes]] | None = None,
    instance_ids: dict[str, str] | None = None,
    **targets: Target,
) -> AssignorInput:
    """Members with equal subscriptions (unless in ``topics``), and their previous targets."""
    return AssignorInput(
        members={
            name: AssignedMember(
                instance_id=(instance_ids or {}).get(name),
                topics=(topics or {}).get(name, frozenset(partitions)),
                target=target,
            )
            for name, target in targets.items()
        },
        partitions=partitions,
        homogeneous=topics is None,
        assigned=frozenset(place for target in targets.values() for place in target),
    )


def test_a_new_member_takes_no_more_than_its_share() -> None:
    """It gets two of five partitions; the first member keeps its first three."""
    before = group_of_topics({T: 5}, a=of(T, 0, 1, 2, 3, 4), b=frozenset())
    assert uniform(before) == {"a": of(T, 0, 1, 2), "b": of(T, 3, 4)}


def test_what_nobody_has_goes_to_who_has_too_little() -> None:
    """A member has left; the other members keep all their partitions."""
    before = group_of_topics({T: 6}, a=of(T, 0, 1), b=of(T, 4, 5))
    assert uniform(before) == {"a": of(T, 0, 1, 2), "b": of(T, 3, 4, 5)}


def test_ranges_are_neighbours_of_each_topic() -> None:
    """The first members get one partition more."""
    before = group_of_topics({T: 3, U: 2}, a=frozenset(), b=frozenset())
    assert by_range(before) == {"a": of(T, 0, 1) | of(U, 0), "b": of(T, 2) | of(U, 1)}


def test_static_members_come_first_in_ranges() -> None:
    """They are sorted by instance id, whatever their member ids are."""
    before = group_of_topics({T: 1}, instance_ids={"z": "i"}, a=frozenset(), z=frozenset())
    assert by_range(before) == {"a": frozenset(), "z": of(T, 0)}


def test_members_with_different_topics_have_about_as_much() -> None:
    """Each member only gets partitions of its own topics."""
    before = group_of_topics({T: 2, U: 2}, topics={"a": frozenset({T})}, a=frozenset(), b=frozenset())
    assert uniform(before) == {"a": of(T, 0, 1), "b": of(U, 0, 1)}


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.integers(0, 12))
def test_uniform_targets_are_even_and_whole_whoever_comes_and_goes(sizes: list[int], partitions: int) -> None:
    """For group after group, each with the previous targets: each partition is assigned once, evenly."""
    targets: dict[str, Target] = {}
    for size in sizes:
        names = [f"m{number}" for number in range(size)]
        targets = uniform(
            group_of_topics({T: partitions}, **{name: targets.get(name, frozenset()) for name in names})
        )
        places = [place for target in targets.values() for place in target]
        assert sorted(places) == [(T, number) for number in range(partitions)]
        lengths = {len(target) for target in targets.values()}
        assert max(lengths) - min(lengths) <= 1
