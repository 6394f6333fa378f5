"""The coordinator model and Kafka's whole coordinator, while its partition moves, loads and cannot be written.

``GroupCoordinatorService`` with its ``CoordinatorRuntime`` runs in virtual time above a log in memory. Answers, records
and descriptions are compared at every step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pytest
from msgspec.structs import replace

from groupreplay.codecs.kafka_terms import Phase
from groupreplay.coordinator.appends import APPEND_ERRORS
from groupreplay.coordinator.requests import (
    ClassicHeartbeat,
    Commit,
    ConsumerGroupHeartbeat,
    Error,
    JoinGroup,
    LeaveGroup,
    OffsetCommit,
    Settings,
    SyncGroup,
)
from support.model.classic_clients import owning, protocols
from support.model.random_scripts import KINDS
from support.service.kafka_service import KafkaService, kafka_service
from support.service.service_pair import ServicePair
from support.service.troubled_scripts import TroubledScript, make_bold_troubled_script, make_troubled_script

pytestmark = pytest.mark.broker

#: Scripts of each kind that are always run, and those that the long form runs.
FEW, MANY = range(5), range(5, 340)


@pytest.fixture(scope="module")
def service() -> Iterator[KafkaService]:
    """One JVM for all scripts."""
    with kafka_service("4.3.1") as running:
        yield running


def check(
    service: KafkaService,
    kind: str,
    seeds: Iterable[int],
    make: Callable[..., TroubledScript] = make_troubled_script,
) -> None:
    """Run the scripts of these seeds; the message has each one that differs."""
    differ: dict[int, str] = {}
    for seed in seeds:
        try:
            make(service, kind, seed).run()
        except AssertionError as error:
            differ[seed] = str(error)
    assert differ == {}


@pytest.mark.parametrize("kind", KINDS)
def test_random_scripts(kind: str, service: KafkaService) -> None:
    """Classic, KIP-848 and mixed groups.

    In 52 an append fails that would have replaced a group that only the log has, in 143 one takes back that a group was
    forgotten, in 115 the timer of a group that was not written meets the next one.
    """
    check(service, kind, (*FEW, 52, 115, 143))


@pytest.mark.parametrize("kind", KINDS)
def test_bold_random_scripts(kind: str, service: KafkaService) -> None:
    """The same with what clients and administrators do rarely, and some with the empty group id."""
    check(service, kind, FEW, make_bold_troubled_script)


@pytest.mark.long
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("make", [make_troubled_script, make_bold_troubled_script])
@pytest.mark.parametrize("kind", KINDS)
def test_many_random_scripts(kind: str, make: Callable[..., TroubledScript], service: KafkaService) -> None:
    """Nearly a thousand of ordinary ones, and as many bold ones."""
    check(service, kind, MANY, make)


def pair_of(service: KafkaService) -> ServicePair:
    """Both coordinators, without a group."""
    settings = Settings(initial_rebalance_delay_ms=0, consumer_assignment_interval_ms=0)
    return ServicePair(service, 0, settings, {})


def member(pair: ServicePair) -> tuple[JoinGroup, SyncGroup]:
    """A classic member joins; its SyncGroup is not sent yet."""
    first = JoinGroup(client_id="c", client_host="/10.0.0.1", protocols=protocols())
    asked = pair.send(first)
    again = replace(first, member_id=pair.answers[asked].member_id)
    joined = pair.send(again)
    pair.wait(1_000)
    answer = pair.answers[joined]
    shares = ((answer.member_id, owning("t", 0)),)
    return again, SyncGroup(member_id=again.member_id, generation=answer.generation, assignments=shares)


@pytest.mark.parametrize("error", APPEND_ERRORS)
def test_an_assignment_that_cannot_be_written(error: Error, service: KafkaService) -> None:
    """The leader gets the translated error, and the group rebalances again; the same for each error of an append."""
    pair = pair_of(service)
    join, sync = member(pair)
    pair.fail(error)
    synced = pair.send(sync)
    assert pair.answers[synced].error in (
        Error.COORDINATOR_NOT_AVAILABLE,
        Error.NOT_COORDINATOR,
        Error.UNKNOWN_SERVER_ERROR,
    )
    assert pair.model.state is Phase.PREPARING_REBALANCE
    pair.describe()
    pair.fail(None)
    # The pair knows a request by its identity.
    again = pair.send(replace(join))
    pair.send(replace(sync, generation=pair.answers[again].generation))
    assert pair.model.state is Phase.STABLE
    pair.describe()


def test_a_rebalance_while_the_partition_moves(service: KafkaService) -> None:
    """The open SyncGroup, all requests before the load is over, and the group that is loaded."""
    pair = pair_of(service)
    join, sync = member(pair)
    pair.resign()
    beat = ClassicHeartbeat(member_id=join.member_id, generation=sync.generation)
    requests = (join, sync, beat, LeaveGroup.of(member_id=join.member_id))
    for change in (lambda: None, pair.elect):
        change()
        pair.describe()
        numbers = [pair.send(replace(one)) for one in requests]
        errors = [pair.answers[number].error for number in numbers]
        assert set(errors) == {Error.NOT_COORDINATOR} or errors == [
            Error.COORDINATOR_LOAD_IN_PROGRESS,
            Error.COORDINATOR_LOAD_IN_PROGRESS,
            Error.NONE,
            Error.COORDINATOR_LOAD_IN_PROGRESS,
        ]
    pair.load()
    pair.describe()
    assert pair.model.state is Phase.EMPTY


def test_a_group_whose_last_member_leaves_while_nothing_can_be_written(service: KafkaService) -> None:
    """A classic group is Empty until it is loaded again, with its member."""
    pair = pair_of(service)
    join, sync = member(pair)
    pair.send(sync)
    pair.fail(Error.NOT_ENOUGH_REPLICAS)
    left = pair.send(LeaveGroup.of(member_id=join.member_id))
    assert (pair.answers[left].error, pair.model.state) == (Error.COORDINATOR_NOT_AVAILABLE, Phase.EMPTY)
    pair.describe()
    pair.fail(None)
    pair.move()
    pair.describe()
    assert pair.model.state is Phase.STABLE
    pair.wait(60_000)
    pair.describe()
    assert pair.model.state is Phase.EMPTY


def test_a_consumer_that_leaves_while_nothing_can_be_written_stays(service: KafkaService) -> None:
    """Its session is cancelled all the same, so nobody removes it before the next load; a timeout is tried again."""
    pair = pair_of(service)
    pair.send(living("a", 0))
    pair.fail(Error.NOT_ENOUGH_REPLICAS)
    pair.send(living("a", -1))
    pair.fail(None)
    pair.wait(3_600_000)
    assert pair.model.group is not None
    assert list(pair.model.group.members) == ["a"]
    pair.move()
    pair.fail(Error.NOT_ENOUGH_REPLICAS)
    pair.wait(60_000)
    assert list(pair.model.group.members) == ["a"]
    pair.fail(None)
    pair.wait(1_000)
    assert list(pair.model.group.members) == []


def living(name: str, epoch: int) -> ConsumerGroupHeartbeat:
    """The heartbeat of a member that joins or leaves."""
    return ConsumerGroupHeartbeat(
        member_id=name,
        member_epoch=epoch,
        client_id=name,
        client_host="/10.0.0.1",
        rebalance_timeout_ms=30_000,
        topics=("t",),
        owned=frozenset(),
    )


def test_commits_that_cannot_be_written(service: KafkaService) -> None:
    """Also in a transaction: nothing is kept, no group begins."""
    pair = pair_of(service)
    pair.fail(Error.NOT_ENOUGH_REPLICAS)
    commits = (Commit(topic="t", partition=0, offset=5),)
    numbers = [pair.send(OffsetCommit(commits=commits, producer_id=producer)) for producer in (None, 7)]
    assert [pair.answers[number].refused[0][2] for number in numbers] == [Error.COORDINATOR_NOT_AVAILABLE] * 2
    pair.describe()
    assert (pair.model.group, bool(pair.model.offsets), pair.model.offsets.pending) == (None, False, {})
