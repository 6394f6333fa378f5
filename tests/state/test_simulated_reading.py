"""Offsets of simulated members: how they grow, stand still and go back, and who commits them."""

from __future__ import annotations

import random

import pytest

from groupreplay.state.client_acts import Committer, Script
from groupreplay.state.coordinator_requests import Commit
from groupreplay.state.simulated_reading import Reading


def reading(**fields: object) -> Reading:
    """Of three partitions, from time 1000 on."""
    script = Script(acts=(), partitions=3, **fields)  # type: ignore[arg-type]
    return Reading(script=script, topic="t", begin_ms=1_000, numbers=random.Random(1))


def test_a_commit_is_of_what_was_read() -> None:
    """Every partition that is owned goes on, no other one does."""
    one = reading()
    commits = one.read_on((0, 2), 1_000)
    assert commits == (Commit(topic="t", partition=0, offset=one.offsets[0]), *commits[1:])
    assert one.positions((0, 1, 2)) == {0: commits[0].offset, 1: 0, 2: commits[1].offset}
    assert min(commits[0].offset, commits[1].offset) > 0


def test_with_nothing_new_the_same_is_committed_again() -> None:
    """As often as the script says: here every time."""
    one = reading(repeats=1.0)
    assert [commit.offset for commit in one.read_on((0, 1, 2), 1_000)] == [0, 0, 0]


def test_a_poisoned_partition_stands_still() -> None:
    """Partition 0, from its time on."""
    one = reading(poisoned_ms=500)
    before = one.read_on((0, 1), 1_499)
    after = one.read_on((0, 1), 1_500)
    assert before[0] == after[0]
    assert after[1].offset > before[1].offset


def test_a_transaction_that_fails_goes_back() -> None:
    """In the partitions that are still owned."""
    one = reading()
    before = one.positions((0, 1))
    one.read_on((0, 1), 1_000)
    lost = one.offsets[0]
    one.rewind((1, 2), before)
    assert one.offsets == [lost, 0, 0]


def test_pauses_are_those_of_irregular_commits() -> None:
    """From one interval to 240 of them."""
    assert reading().pause_ms() == 0
    one = reading(irregular=True, commit_interval_ms=1_000)
    pauses = [one.pause_ms() for _ in range(500)]
    assert 1_000 <= min(pauses) < 2_000
    assert 200_000 < max(pauses) <= 240_000


@pytest.mark.parametrize(
    ("committer", "kinds"),
    [
        (Committer.CONSUMERS, {None}),
        (Committer.PRODUCERS, {int}),
        (Committer.BOTH, {None, int}),
    ],
)
def test_who_commits(committer: Committer, kinds: set[type | None]) -> None:
    """Consumers themselves, producers with an id for each transaction, or both."""
    one = reading(committer=committer)
    drawn = [one.producer() for _ in range(20)]
    assert {None if producer is None else int for producer in drawn} == kinds


def test_a_few_transactions_fail() -> None:
    """One of twenty."""
    one = reading()
    failed = sum(not one.succeeds() for _ in range(2_000))
    assert 60 < failed < 140
