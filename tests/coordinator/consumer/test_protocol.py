"""KIP-848 in the coordinator model: errors, the records of each request, and timeouts."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import pytest
from msgspec.structs import replace

from groupreplay.codecs import ZERO_UUID, OffsetCommitValue
from groupreplay.codecs.consumer import ConsumerGroupTargetAssignmentMetadataValue
from groupreplay.codecs.kafka_terms import ConsumerPhase
from groupreplay.coordinator.consumer.consumer_group import ConsumerGroup
from groupreplay.coordinator.requests import (
    ClassicHeartbeat,
    Commit,
    EndTransaction,
    Error,
    OffsetCommit,
    Settings,
)
from support.model.consumer_clients import TOPIC_IDS, ConsumerClients

T = TOPIC_IDS["t"]


def places(*numbers: int) -> frozenset[tuple[bytes, int]]:
    """Partitions of topic t."""
    return frozenset((T, number) for number in numbers)


def alone(settings: Settings | None = None) -> ConsumerClients:
    """A group of one member, a."""
    clients = ConsumerClients(settings or Settings())
    clients.enter("a")
    clients.wait(1_000)
    return clients


def static() -> ConsumerClients:
    """A group of one static member."""
    clients = ConsumerClients()
    clients.enter("a", instance_id="i")
    return clients


def two(settings: Settings | None = None) -> ConsumerClients:
    """A reconciled group of two members, a and b."""
    clients = alone(settings)
    clients.enter("b")
    clients.settle_all()
    return clients


def revoking() -> ConsumerClients:
    """Member a has to revoke a partition for b."""
    clients = alone()
    clients.enter("b")
    clients.beat("a")
    return clients


REFUSALS: list[tuple[Callable[[], ConsumerClients], Callable[[ConsumerClients], Error], Error]] = [
    *(
        (alone, lambda it, wrong=wrong: it.beat(**{"member_id": "x", "owned": None, **wrong}).error, error)  # type: ignore[misc]
        for wrong, error in (
            ({"member_id": "", "member_epoch": 1}, Error.INVALID_REQUEST),
            ({"member_epoch": -3}, Error.INVALID_REQUEST),
            ({"member_epoch": -2}, Error.INVALID_REQUEST),
            ({"member_epoch": 0}, Error.INVALID_REQUEST),
            ({"member_epoch": 1, "assignor": "mine"}, Error.UNSUPPORTED_ASSIGNOR),
        )
    ),
    (ConsumerClients, lambda it: it.beat("a", member_epoch=1).error, Error.GROUP_ID_NOT_FOUND),
    (ConsumerClients, lambda it: it.beat("a", member_epoch=-1).error, Error.GROUP_ID_NOT_FOUND),
    (alone, lambda it: it.beat("nobody", member_epoch=1).error, Error.UNKNOWN_MEMBER_ID),
    (alone, lambda it: it.beat("nobody", member_epoch=-1).error, Error.UNKNOWN_MEMBER_ID),
    (alone, lambda it: it.beat("a", member_epoch=9).error, Error.FENCED_MEMBER_EPOCH),
    (alone, lambda it: it.beat("a", member_epoch=1).error, Error.FENCED_MEMBER_EPOCH),
    (static, lambda it: it.enter("b", instance_id="i").error, Error.UNRELEASED_INSTANCE_ID),
    (static, lambda it: it.beat("b", member_epoch=2, instance_id="i").error, Error.FENCED_INSTANCE_ID),
    (static, lambda it: it.beat("b", member_epoch=2, instance_id="j").error, Error.UNKNOWN_MEMBER_ID),
    (
        lambda: two(Settings(consumer_max_size=2)),
        lambda it: it.enter("c").error,
        Error.GROUP_MAX_SIZE_REACHED,
    ),
    (two, lambda it: it.ask(committing("a", 9)).error, Error.STALE_MEMBER_EPOCH),  # type: ignore[union-attr]
    (two, lambda it: it.ask(committing("a", 2, 0, 2)).error, Error.STALE_MEMBER_EPOCH),  # type: ignore[union-attr]
    (two, lambda it: it.ask(committing("nobody", 3)).error, Error.UNKNOWN_MEMBER_ID),  # type: ignore[union-attr]
    (
        two,
        lambda it: it.ask(replace(committing("a", 3), retention_ms=1)).error,  # type: ignore[union-attr]
        Error.UNSUPPORTED_VERSION,
    ),
    (two, lambda it: it.ask(ClassicHeartbeat(member_id="a", generation=3)).error, Error.UNKNOWN_MEMBER_ID),  # type: ignore[union-attr]
    (
        lambda: alone(Settings(migration_policy="disabled")),
        lambda it: it.join("c")[1] or it.answers[-1][1].error,  # type: ignore[return-value]
        Error.INCONSISTENT_GROUP_PROTOCOL,
    ),
    (
        alone,
        lambda it: it.join("c", protocol_type="connect")[1] or it.answers[-1][1].error,  # type: ignore[return-value]
        Error.INCONSISTENT_GROUP_PROTOCOL,
    ),
]


def committing(member_id: str, epoch: int, *partitions: int) -> OffsetCommit:
    """A commit of these partitions of topic t, by default of the first."""
    commits = tuple(Commit(topic="t", partition=number, offset=1) for number in partitions or (0,))
    return OffsetCommit(member_id=member_id, generation=epoch, commits=commits)


@pytest.mark.parametrize(("where", "asked", "error"), REFUSALS)
def test_refusals(
    where: Callable[[], ConsumerClients], asked: Callable[[ConsumerClients], Error], error: Error
) -> None:
    """Each with Kafka's error, and without a record."""
    clients = where()
    before = len(clients.log)
    assert asked(clients) is error
    assert len(clients.log) == before


def moved(clients: ConsumerClients) -> ConsumerGroup:
    """Another broker becomes the coordinator."""
    clients.take(clients.coordinator.move(clients.now))
    return clients.consumers


def test_a_coordinator_that_moves_finds_the_group_as_it_was() -> None:
    """Nothing is written, no member has to rejoin, and all assignments stay."""
    clients = revoking()
    before, records, changes = deepcopy(clients.consumers), len(clients.log), list(clients.changes)
    assert moved(clients) == before
    assert (len(clients.log), clients.changes) == (records, changes)
    clients.settle_all()
    assert clients.consumers.state is ConsumerPhase.STABLE
    assert clients.believed["b"].owned == places(2)


def test_a_consumer_group_that_is_gone_is_not_found_again() -> None:
    """Neither is the classic group that it was before."""
    clients = ConsumerClients()
    (member_id,) = clients.stable("c")
    clients.leave(member_id)
    clients.enter("a")
    clients.depart("a")
    clients.clean_up()
    clients.take(clients.coordinator.move(clients.now))
    assert clients.coordinator.group is None


BOTH = pytest.mark.parametrize("since_4_4", [False, True])


def target_records(clients: ConsumerClients) -> list[tuple[int, int]]:
    """Epoch and time of each assignment in the log."""
    return [
        (raw.value.assignment_epoch, raw.value.assignment_timestamp_ms)
        for raw in clients.log
        if isinstance(raw.value, ConsumerGroupTargetAssignmentMetadataValue)
    ]


@BOTH
def test_a_group_that_becomes_empty(since_4_4: bool) -> None:
    """Since Kafka 4.4 the epoch of its assignment follows its own, without a time."""
    clients = alone(Settings(since_4_4=since_4_4))
    before = target_records(clients)
    clients.depart("a")
    assert target_records(clients) == [*before, (3, 0)] if since_4_4 else before
    assert (clients.consumers.epoch, clients.consumers.target_epoch) == (3, 3 if since_4_4 else 2)


@BOTH
def test_a_group_that_prefers_another_assignor(since_4_4: bool) -> None:
    """Since Kafka 4.4 this alone raises the group epoch."""
    clients = alone(Settings(since_4_4=since_4_4))
    clients.beat("a", assignor="range")
    assert clients.consumers.epoch == (3 if since_4_4 else 2)


@BOTH
def test_a_static_member_that_returns_to_a_full_group(since_4_4: bool) -> None:
    """Since Kafka 4.4 it is not refused, although its member id is new."""
    clients = ConsumerClients(Settings(consumer_max_size=1, since_4_4=since_4_4))
    clients.enter("a", instance_id="i")
    clients.away("a")
    returned = clients.enter("b", instance_id="i")
    assert returned.error is (Error.NONE if since_4_4 else Error.GROUP_MAX_SIZE_REACHED)


@BOTH
def test_a_static_member_that_returns(since_4_4: bool) -> None:
    """Its target is written with it; since Kafka 4.4 not once more with a new epoch that leaves it as it was."""
    clients = ConsumerClients(Settings(since_4_4=since_4_4, consumer_assignment_interval_ms=0))
    clients.enter("a", instance_id="i")
    clients.away("a")
    before = len(clients.log)
    clients.enter("b", "t", "none", instance_id="i")
    written = [record for record in clients.written(before) if record == (7, "b", True)]
    assert len(written) == (1 if since_4_4 else 2)


@BOTH
def test_a_commit_in_a_transaction(since_4_4: bool) -> None:
    """Since Kafka 4.4 its record has the id of the topic (KIP-1319)."""
    clients = alone(Settings(since_4_4=since_4_4))
    clients.ask(replace(committing("a", 2), producer_id=1))
    clients.ask(EndTransaction(producer_id=1, committed=True))
    commits = [raw.value for raw in clients.log if isinstance(raw.value, OffsetCommitValue)]
    assert [commit.topic_id for commit in commits] == [T if since_4_4 else ZERO_UUID]
