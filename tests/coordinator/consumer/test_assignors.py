"""The assignors of the coordinator model: evenness, and as few moves as possible."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from groupreplay.coordinator.consumer.assignor_input import AssignedMember, AssignorInput, Target
from groupreplay.coordinator.consumer.assignors import by_range
from groupreplay.coordinator.consumer.uniform import uniform

T, U = b"t" * 16, b"u" * 16


def of(topic: bytes, *numbers: int) -> Target:
    """Partitions of a topic."""
    return frozenset((topic, number) for number in numbers)


def group(
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
    before = group({T: 5}, a=of(T, 0, 1, 2, 3, 4), b=frozenset())
    assert uniform(before) == {"a": of(T, 0, 1, 2), "b": of(T, 3, 4)}


def test_what_nobody_has_goes_to_who_has_too_little() -> None:
    """A member has left; the other members keep all their partitions."""
    before = group({T: 6}, a=of(T, 0, 1), b=of(T, 4, 5))
    assert uniform(before) == {"a": of(T, 0, 1, 2), "b": of(T, 3, 4, 5)}


def test_ranges_are_neighbours_of_each_topic() -> None:
    """The first members get one partition more."""
    before = group({T: 3, U: 2}, a=frozenset(), b=frozenset())
    assert by_range(before) == {"a": of(T, 0, 1) | of(U, 0), "b": of(T, 2) | of(U, 1)}


def test_static_members_come_first_in_ranges() -> None:
    """They are sorted by instance id, whatever their member ids are."""
    before = group({T: 1}, instance_ids={"z": "i"}, a=frozenset(), z=frozenset())
    assert by_range(before) == {"a": frozenset(), "z": of(T, 0)}


def test_members_with_different_topics_have_about_as_much() -> None:
    """Each member only gets partitions of its own topics."""
    before = group({T: 2, U: 2}, topics={"a": frozenset({T})}, a=frozenset(), b=frozenset())
    assert uniform(before) == {"a": of(T, 0, 1), "b": of(U, 0, 1)}


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.integers(0, 12))
def test_uniform_targets_are_even_and_whole_whoever_comes_and_goes(sizes: list[int], partitions: int) -> None:
    """For group after group, each with the previous targets: each partition is assigned once, evenly."""
    targets: dict[str, Target] = {}
    for size in sizes:
        names = [f"m{number}" for number in range(size)]
        targets = uniform(group({T: partitions}, **{name: targets.get(name, frozenset()) for name in names}))
        places = [place for target in targets.values() for place in target]
        assert sorted(places) == [(T, number) for number in range(partitions)]
        lengths = {len(target) for target in targets.values()}
        assert max(lengths) - min(lengths) <= 1
