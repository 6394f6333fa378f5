"""How many partitions an incremental assignor takes from members that stay, against the one of the model."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from groupreplay.codecs import Subscription, TopicPartitions, encode_blob
from groupreplay.coordinator.simulation.consumer import assigned, owned
from groupreplay.timeline.likely.moves import moves


def test_only_the_surplus_moves() -> None:
    """A departure moves nothing of the others; an arrival takes what is above an even share."""
    # 2, 2, 2; 3, 3; 2, 2, 2 of which two moved; a successor takes what was left, or one if it came before.
    assert [*moves(["abc", "bc", "bcd", "cde"], 6)] == [(0, 0), (2, 2), (0, 1)]
    assert [*moves(["a", "", "b"], 6)] == [(0, 0), (0, 0)]


def _rebalanced(shares: dict[str, tuple[int, ...]], partitions: int) -> dict[str, tuple[int, ...]]:
    blobs = [
        (
            member,
            None,
            encode_blob(Subscription(version=1, topics=("t",), owned_partitions=_partitions(numbers))),
        )
        for member, numbers in shares.items()
    ]
    return {
        member: owned(assignment, "t")
        for member, assignment in assigned(blobs, "t", partitions, "cooperative-sticky")
    }


def _partitions(numbers: tuple[int, ...]) -> tuple[TopicPartitions, ...]:
    return (TopicPartitions(topic="t", partitions=numbers),) if numbers else ()


@pytest.mark.parametrize("seed", range(20))
def test_the_numbers_are_those_of_the_model(seed: int) -> None:
    """Random changes, each with its second rebalance."""
    numbers = random.Random(seed)
    partitions, names = numbers.randint(3, 20), [f"m{number}" for number in range(40)]
    members = [names.pop() for _ in range(numbers.randint(2, 6))]
    shares = _rebalanced(_rebalanced(dict.fromkeys(members, ()), partitions), partitions)
    generations, taken = [{*shares}], list[int]()
    for _ in range(8):
        went = {numbers.choice([*shares])} if len(shares) > 1 and numbers.random() < 1 / 2 else set[str]()
        came = {names.pop()} if not went or numbers.random() < 1 / 3 else set[str]()
        generations.append({*shares} - went | came)
        kept = {member: share for member, share in shares.items() if member not in went}
        after = _rebalanced(kept | dict.fromkeys(came, ()), partitions)
        taken.append(sum(len({*share} - {*after[member]}) for member, share in kept.items()))
        shares = _rebalanced(after, partitions)
    told = [*moves(generations, partitions)]
    assert [least for least, _ in told] == taken
    at_once = [bool(before - after and after - before) for before, after in pairwise(generations)]
    assert all(least == most or together for (least, most), together in zip(told, at_once, strict=True))
