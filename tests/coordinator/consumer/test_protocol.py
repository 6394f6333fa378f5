"""KIP-848 in the coordinator model: errors, the records of each request, and timeouts."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace

import pytest

from groupreplay.codecs.kafka_terms import ConsumerPhase
from groupreplay.coordinator.consumer.consumer_group import ConsumerGroup, Topic
from groupreplay.coordinator.requests import ClassicHeartbeat, Commit, Error, OffsetCommit, Settings
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


def test_the_first_member_has_everything_at_once() -> None:
    """Member metadata, group epoch 2, target, target epoch, current assignment: in this order."""
    clients = ConsumerClients()
    answer = clients.enter("a")
    assert clients.written(0) == [
        (5, "a", True),
        (3, "", True),
        (7, "a", True),
        (6, "", True),
        (8, "a", True),
    ]
    assert (answer.generation, answer.assigned) == (2, places(0, 1, 2))
    assert clients.consumers.state is ConsumerPhase.STABLE


def test_a_second_member_waits_for_what_the_first_one_gives_up() -> None:
    """Revocation at the old epoch, then both members at the new one."""
    clients = alone()
    answer = clients.enter("b")
    assert (answer.generation, answer.assigned) == (3, frozenset())
    assert clients.beat("a").assigned == places(0, 1)
    assert (clients.member("a").epoch, set(clients.member("a").revoking)) == (2, places(2))
    assert clients.consumers.state is ConsumerPhase.RECONCILING
    assert clients.beat("a").generation == 3
    assert clients.beat("b").assigned == places(2)
    assert clients.consumers.state is ConsumerPhase.STABLE


def test_a_heartbeat_that_changes_nothing_writes_nothing() -> None:
    """Not even a timer changes."""
    clients = two()
    before = len(clients.log)
    clients.beat("a")
    clients.beat("b")
    assert len(clients.log) == before


def test_within_the_interval_the_target_waits_for_a_heartbeat() -> None:
    """The joining member is at the old epoch, the group is Assigning."""
    clients = ConsumerClients()
    clients.enter("a")
    clients.enter("b")
    assert clients.consumers.state is ConsumerPhase.ASSIGNING
    assert (clients.member("b").epoch, clients.consumers.target_epoch) == (2, 2)
    clients.wait(1_000)
    clients.beat("b")
    assert (clients.consumers.target_epoch, clients.consumers.state) == (3, ConsumerPhase.RECONCILING)


@pytest.mark.parametrize(
    ("assignor", "shares"),
    [("uniform", {"a": (0, 1), "b": (2,)}), ("range", {"a": (0, 1), "b": (2,)})],
)
def test_assignors(assignor: str, shares: dict[str, tuple[int, ...]]) -> None:
    """Each by its name; the uniform one with as few moves as possible."""
    clients = ConsumerClients()
    clients.enter("a", assignor=assignor)
    clients.wait(1_000)
    clients.enter("b", assignor=assignor)
    assert clients.consumers.targets == {name: places(*numbers) for name, numbers in shares.items()}


def test_a_member_that_does_not_give_up_is_fenced_at_its_rebalance_timeout() -> None:
    """To the millisecond; heartbeats extend the session only."""
    clients = revoking()
    began = clients.now
    while "a" in clients.consumers.members:
        clients.beat("a", owned=None)
    assert clients.log[-1].at == began + 30_000
    assert clients.written(len(clients.log) - 4) == [
        (8, "a", False),
        (7, "a", False),
        (5, "a", False),
        (3, "", True),
    ]


def test_a_silent_member_is_fenced_at_its_session_timeout() -> None:
    """Its epoch is the last record of the group."""
    clients = alone()
    began = clients.now - 1_000
    clients.wait(50_000)
    assert clients.log[-1].at == began + 45_000
    assert (clients.consumers.state, clients.consumers.epoch) == (ConsumerPhase.EMPTY, 3)


def test_a_static_member_comes_back_to_what_it_had() -> None:
    """One record while it is away; then the old id's tombstones and the new id's records, at the same epoch."""
    clients = static()
    before = len(clients.log)
    assert clients.away("a") == "NONE"
    assert clients.written(before) == [(8, "a", True)]
    assert clients.consumers.state is ConsumerPhase.RECONCILING
    before = len(clients.log)
    assert clients.enter("b", instance_id="i").assigned == places(0, 1, 2)
    assert clients.written(before) == [
        (8, "a", False),
        (7, "a", False),
        (5, "a", False),
        (5, "b", True),
        (7, "b", True),
        (8, "b", True),
        (8, "b", True),
    ]
    assert (clients.consumers.epoch, clients.consumers.state) == (2, ConsumerPhase.STABLE)


def test_a_lost_answer_is_asked_for_again() -> None:
    """With the previous epoch, if it owns no partition beyond its assignment."""
    clients = revoking()
    clients.beat("a")
    assert clients.member("a").epoch == 3
    assert clients.beat("a", member_epoch=2).generation == 3
    assert clients.beat("a", member_epoch=2, owned=places(0, 1, 2)).error is Error.FENCED_MEMBER_EPOCH


def test_new_partitions_are_found_by_the_next_heartbeat() -> None:
    """A new epoch without a change of a member."""
    clients = alone()
    clients.topics["t"] = Topic(T, 4)
    assert clients.beat("a").assigned == places(0, 1, 2, 3)
    assert clients.consumers.epoch == 3


def test_offsets_of_an_older_epoch_count_for_what_was_had_then() -> None:
    """Member a has owned partition 0 since epoch 2, whatever its own epoch is."""
    clients = two()
    assert clients.member("a").epoch == 3
    assert clients.ask(committing("a", 2, 0)) == replace(clients.answers[-1][1], error=Error.NONE)
    assert clients.coordinator.offsets.partitions() == [("t", 0)]


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


def test_a_move_begins_sessions_anew() -> None:
    """To the millisecond, for members without heartbeats before or after the move."""
    clients = alone()
    clients.wait(40_000)
    moved(clients)
    began = clients.now
    clients.wait(50_000)
    assert clients.log[-1].at == began + 45_000
    assert clients.consumers.state is ConsumerPhase.EMPTY


def test_a_move_begins_the_time_for_revoking_anew() -> None:
    """The rebalance timeout of a member restarts in full."""
    clients = revoking()
    for _ in range(2):
        clients.wait(10_000)
        clients.beat("a", owned=None)
    moved(clients)
    began = clients.now
    while "a" in clients.consumers.members:
        clients.beat("a", owned=None)
    assert clients.log[-1].at == began + 30_000


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
