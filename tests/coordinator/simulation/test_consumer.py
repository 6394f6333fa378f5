"""Assignors of simulated clients: eager ones assign anew, cooperative ones move as few partitions as possible."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from groupreplay.coordinator.simulation.consumer import STRATEGIES, assigned, is_cooperative, owned, supported


def name_of(cooperative: bool) -> str:
    """The assignor."""
    return STRATEGIES[cooperative]


def dealt(claims: dict[str, tuple[int, ...]], partitions: int, *, cooperative: bool) -> dict[str, list[int]]:
    """The new assignments of members with these partitions."""
    members = [
        (name, None, supported("t", mine, (name_of(cooperative),))[0].metadata)
        for name, mine in claims.items()
    ]
    shares = assigned(members, "t", partitions, name_of(cooperative))
    return {name: sorted(owned(assignment, "t")) for name, assignment in shares}


def test_an_eager_group_deals_out_everything_in_turn() -> None:
    """By the members' names, whatever they owned."""
    assert dealt({"b": (0, 1), "a": ()}, 3, cooperative=False) == {"a": [0, 2], "b": [1]}


def test_a_cooperative_member_gives_up_first() -> None:
    """A member's surplus is unassigned in this generation, and assigned in the next one."""
    first = dealt({"a": (0, 1, 2, 3), "b": ()}, 4, cooperative=True)
    assert first == {"a": [0, 1], "b": []}
    second = dealt({name: tuple(mine) for name, mine in first.items()}, 4, cooperative=True)
    assert second == {"a": [0, 1], "b": [2, 3]}


def test_a_sticky_group_moves_few_partitions_at_once() -> None:
    """Its members have revoked everything: a surplus is assigned in the same generation, and the rest stays."""
    assert not is_cooperative(("sticky",))
    members = [
        (name, None, supported("t", mine, ("sticky",))[0].metadata)
        for name, mine in {"a": (0, 1, 2, 3), "b": ()}.items()
    ]
    shares = assigned(members, "t", 5, "sticky")
    assert {name: sorted(owned(one, "t")) for name, one in shares} == {"a": [0, 1, 2], "b": [3, 4]}


@given(st.lists(st.sets(st.integers(0, 11)), min_size=1, max_size=6), st.integers(1, 12))
def test_a_cooperative_group_settles(claims: list[set[int]], partitions: int) -> None:
    """From any claims: after three generations the assignment is even and does not change."""
    held = {str(number): tuple(one for one in mine if one < partitions) for number, mine in enumerate(claims)}
    for _ in range(3):
        held = {name: tuple(mine) for name, mine in dealt(held, partitions, cooperative=True).items()}
    assert sorted(one for mine in held.values() for one in mine) == list(range(partitions))
    assert max(map(len, held.values())) - min(map(len, held.values())) <= 1
    again = dealt(held, partitions, cooperative=True)
    assert again == {name: sorted(mine) for name, mine in held.items()}


def test_a_member_with_both_assignors_is_eager() -> None:
    """As with Kafka's default: both protocols in order of preference, and no partition is kept."""
    both, alone = ("cooperative-sticky", "range"), ("cooperative-sticky",)
    assert [is_cooperative(one) for one in (both, alone)] == [False, True]
    assert [one.name for one in supported("t", (1, 2), both)] == list(both)
    assert supported("t", (1, 2), both) == supported("t", (), both)
    assert supported("t", (1, 2), alone) != supported("t", (), alone)


def test_a_second_topic_goes_to_the_first_of_its_subscribers() -> None:
    """It has one partition; a member that does not subscribe to it never gets it."""
    members = [
        ("c", None, supported("t", (), (name_of(False),), "u")[0].metadata),
        ("b", None, supported("t", (), (name_of(False),), "u")[0].metadata),
        ("a", None, supported("t", (), (name_of(False),), "v")[0].metadata),
    ]
    shares = dict(assigned(members, "t", 3, name_of(False)))
    assert {name: owned(one, "u") for name, one in shares.items()} == {"a": (), "b": (0,), "c": ()}
    assert {name: owned(one, "v") for name, one in shares.items()} == {"a": (0,), "b": (), "c": ()}
    assert {name: owned(one, "t") for name, one in shares.items()} == {"a": (0,), "b": (1,), "c": (2,)}
