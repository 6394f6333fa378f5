"""Commits of simulated groups while their coordinator does not answer, and of a tool that mirrors them."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest

from groupreplay.codecs import GroupMetadataKey, OffsetCommitKey
from groupreplay.codecs.kafka_terms import Phase
from groupreplay.coordinator.requests import Error, Marker, OffsetCommit, Outcome, Settings
from groupreplay.coordinator.simulation.script import START, STOP, ClientStep, Committer, Script
from groupreplay.coordinator.simulation.simulated_group import SimulatedGroup

SECOND_MS = 1_000
ONE = (ClientStep(0, START, 0),)


class Life:
    """A group and what its coordinator has done, in the order of time."""

    def __init__(self, steps: tuple[ClientStep, ...] = ONE, **fields: Any) -> None:
        script = Script(steps=steps, partitions=2, commit_interval_ms=10_000, **fields)
        self.group = SimulatedGroup("g", script, Settings(), 0, random.Random(1))
        # With a trace each outcome is kept, also one with nothing but answers.
        self.group.coordinator.trace.on = True
        self.outcomes: list[Outcome] = []

    def until(self, seconds: int) -> None:
        """Let time pass."""
        while (now_ms := self.group.next_ms()) is not None and now_ms < seconds * SECOND_MS:
            self.outcomes += self.group.run(now_ms)

    def fail(self, error: Error | None, seconds: int) -> None:
        """Appends fail from this second on."""
        self.until(seconds)
        self.outcomes += self.group.fail_appends(error, seconds * SECOND_MS)

    def commits(self) -> list[tuple[int, int]]:
        """When the offset of partition 0 was written, in seconds, and the offset."""
        return [
            (operation.timestamp_ms // SECOND_MS, value.offset)  # type: ignore[union-attr]
            for outcome in self.outcomes
            for operation in outcome.operations
            for key, value in operation.records
            if isinstance(key, OffsetCommitKey) and key.partition == 0
        ]

    def errors(self) -> set[Error]:
        """The errors in the answers to commits."""
        return {
            reply.answer.error
            for outcome in self.outcomes
            for reply in outcome.replies
            if isinstance(reply.request, OffsetCommit)
        }


def test_only_the_newest_commit_is_repeated() -> None:
    """Offsets never go back, and a commit comes within two seconds of the end of the failure."""
    life = Life()
    life.fail(Error.NOT_ENOUGH_REPLICAS, 60)
    life.fail(None, 100)
    life.until(180)
    commits = life.commits()
    assert not [at for at, _ in commits if 60 <= at < 100]
    assert any(100 <= at <= 102 for at, _ in commits)
    offsets = [offset for _, offset in commits]
    assert offsets == sorted(offsets)


@pytest.mark.parametrize("error", [Error.NOT_ENOUGH_REPLICAS, Error.NOT_LEADER_OR_FOLLOWER])
def test_a_producer_ends_its_transaction_when_its_commit_is_written(error: Error) -> None:
    """None stays open: also a marker that cannot be written is repeated."""
    life = Life(committer=Committer.PRODUCERS)
    for begin in range(40, 400, 20):
        life.fail(error, begin)
        life.fail(None, begin + 9)
    life.until(500)
    operations = [operation for outcome in life.outcomes for operation in outcome.operations]
    begun = {
        operation.producer_id
        for operation in operations
        if operation.producer_id is not None and operation.marker is None
    }
    ended = [operation.producer_id for operation in operations if operation.marker is not None]
    assert set(ended) == begun
    assert len(ended) == len(begun) > 10
    assert Marker.COMMIT in {operation.marker for operation in operations}


def test_members_stay_while_their_coordinator_moves() -> None:
    """They repeat their requests, and no rebalance follows from a move of a Stable group."""
    life = Life(tuple(ClientStep(100 * number, START, number) for number in range(3)))
    life.until(60)
    generation = life.group.coordinator.group.generation  # type: ignore[union-attr]
    life.outcomes += life.group.unload(60_000)
    life.until(70)
    life.outcomes += life.group.begin_loading(70_000)
    life.until(100)
    life.outcomes += life.group.load(100_000)
    life.until(300)
    group = life.group.coordinator.group
    assert group is not None
    assert (group.state, group.generation, len(group.members)) == (Phase.STABLE, generation, 3)  # type: ignore[union-attr]
    assert life.errors() == {Error.NONE, Error.NOT_COORDINATOR, Error.COORDINATOR_LOAD_IN_PROGRESS}
    assert max(at for at, _ in life.commits()) > 280


def test_a_rebalance_that_a_move_interrupts_ends_after_the_load() -> None:
    """Members whose JoinGroup was open join again; the others notice nothing of the lost rebalance."""
    steps = tuple(ClientStep(100 * number, START, number) for number in range(3))
    life = Life((*steps, ClientStep(60_000, START, 3)))
    while life.group.coordinator.state is not Phase.PREPARING_REBALANCE or life.group.next_ms() < 60_000:  # type: ignore[operator]
        life.outcomes += life.group.run(life.group.next_ms() or 0)
    now_ms = life.group.next_ms() or 0
    life.outcomes += life.group.unload(now_ms)
    life.until(now_ms // SECOND_MS + 20)
    life.outcomes += life.group.begin_loading(now_ms + 20_000)
    life.outcomes += life.group.load(now_ms + 40_000)
    life.until(300)
    group = life.group.coordinator.group
    assert group is not None
    assert (group.state, len(group.members)) == (Phase.STABLE, 4)


def test_a_tool_mirrors_a_group_without_members() -> None:
    """All partitions every minute, before the first member starts and after the last one has left."""
    steps = (ClientStep(300_000, START, 0), ClientStep(600_000, STOP, 0))
    life = Life(steps, mirror_interval_ms=60_000)
    life.until(900)
    times = [at for at, _ in life.commits()]
    gaps = [after - before for before, after in pairwise(times)]
    mirrored = [gap for gap in gaps if gap == 60]
    assert len(mirrored) >= 7
    assert [at for at in times if 310 < at < 600] != []
    assert times[0] < 60
    assert times[-1] >= 840
    keys = {key for outcome in life.outcomes for op in outcome.operations for key, _ in op.records}
    assert {key.partition for key in keys if isinstance(key, OffsetCommitKey)} == {0, 1}
    assert any(isinstance(key, GroupMetadataKey) for key in keys)
