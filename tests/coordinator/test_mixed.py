"""Classic members of a consumer group in the coordinator model."""

from __future__ import annotations

from groupreplay.codecs.kafka_terms import ConsumerPhase
from groupreplay.coordinator.classic.classic_group import ClassicGroup
from groupreplay.coordinator.consumer.consumer_group import ConsumerGroup
from groupreplay.coordinator.requests import (
    Answer,
    ClassicHeartbeat,
    Error,
    LeaveGroup,
    LeavingMember,
    SyncGroup,
)
from support.model.classic_clients import joining, owning, protocols
from support.model.consumer_clients import TOPIC_IDS, ConsumerClients

T = TOPIC_IDS["t"]


def mixed() -> tuple[ConsumerClients, str]:
    """A member n of the consumer protocol, and a classic member that joined after it."""
    clients = ConsumerClients()
    clients.enter("n")
    clients.wait(1_000)
    _, member_id = clients.join("c", protocols=protocols(), rebalance_timeout_ms=20_000)
    return clients, member_id


def beat(clients: ConsumerClients, member_id: str) -> str | None:
    """The error of a member's heartbeat."""
    return clients.error(ClassicHeartbeat(member_id=member_id, generation=clients.member(member_id).epoch))


def release(clients: ConsumerClients, member_id: str) -> None:
    """Member n gives up a partition, and the classic member's heartbeat requests that it rejoins."""
    clients.beat("n")
    clients.beat("n")
    assert beat(clients, member_id) == "REBALANCE_IN_PROGRESS"


def test_it_is_first_given_an_id_and_then_answered_at_once() -> None:
    """The id is a Kafka Uuid as text, the generation is the member epoch, and there is no leader."""
    clients, member_id = mixed()
    answer = clients.answers[-1][1]
    assert (answer.error, answer.member_id, answer.generation, answer.leader) == (
        Error.NONE,
        member_id,
        3,
        "",
    )
    assert (len(member_id), answer.protocol) == (22, "range")
    assert clients.consumers.state is ConsumerPhase.RECONCILING


def test_it_waits_until_a_partition_is_free_and_joins_again() -> None:
    """The answers to its heartbeats tell when; the SyncGroup has its current assignment."""
    clients, member_id = mixed()
    assert beat(clients, member_id) == "NONE"
    release(clients, member_id)
    clients.rejoin_mixed(member_id)
    answer = clients.sync_mixed(member_id)
    assert answer is not None
    assert answer.assignment == owning("t", 2)
    assert clients.consumers.state is ConsumerPhase.STABLE


def test_it_gives_up_what_it_does_not_own_any_more() -> None:
    """A third member joins: one more rejoin, without the revoked partition."""
    clients, _ = mixed()
    clients.settle_all()
    clients.enter("m")
    clients.settle_all()
    assert clients.consumers.state is ConsumerPhase.STABLE
    assert {len(member.assigned) for member in clients.consumers.members.values()} == {1}


def test_a_join_that_does_not_come_in_time() -> None:
    """Its rebalance timeout starts with the first answer that requests the rejoin."""
    clients, member_id = mixed()
    clients.sync_mixed(member_id)
    release(clients, member_id)
    told_ms = clients.now
    while member_id in clients.consumers.members:
        beat(clients, member_id)
        clients.wait(1_000)
        clients.beat("n")
    assert clients.log[-1].at - told_ms >= 0
    tombstone = next(raw for raw in clients.log if raw.value is None)
    assert tombstone.at == told_ms + 20_000


def test_a_sync_that_does_not_come_in_time() -> None:
    """It is fenced at its rebalance timeout after its JoinGroup."""
    clients, member_id = mixed()
    joined_ms = clients.now
    while member_id in clients.consumers.members:
        clients.wait(1_000)
        clients.beat("n")
    assert next(raw for raw in clients.log if raw.value is None).at == joined_ms + 20_000


def test_refusals() -> None:
    """Another generation than its epoch, an unknown protocol, and a rebalance that it has missed."""
    clients, member_id = mixed()
    sync = SyncGroup(member_id=member_id, generation=3)
    assert clients.error(ClassicHeartbeat(member_id=member_id, generation=2)) == "ILLEGAL_GENERATION"
    assert clients.error(SyncGroup(member_id=member_id, generation=3, protocol="sticky")) == (
        "INCONSISTENT_GROUP_PROTOCOL"
    )
    clients.wait(1_000)
    clients.enter("m")
    assert clients.error(sync) == "REBALANCE_IN_PROGRESS"


def test_a_refused_join_is_answered_without_a_member_id() -> None:
    """Kafka throws here; a classic group answers with the id of the request."""
    clients, member_id = mixed()
    for group in (ConsumerGroup, ClassicGroup):
        refused = clients.told(joining("c", member_id, protocol_type="connect"))
        named = "" if group is ConsumerGroup else member_id
        assert refused == Answer(error=Error.INCONSISTENT_GROUP_PROTOCOL, member_id=named)
        if group is ConsumerGroup:
            clients.depart("n")
            assert isinstance(clients.coordinator.group, ClassicGroup)


def test_it_leaves_and_so_may_a_static_one_be_sent_away() -> None:
    """By its member id, or by an administrator with the instance id alone."""
    clients, member_id = mixed()
    clients.enter("s", instance_id="i")
    assert clients.error(LeaveGroup.of(member_id=member_id)) == "NONE"
    assert clients.error(LeaveGroup.of(instance_id="i")) == "NONE"
    assert isinstance(clients.coordinator.group, ConsumerGroup)
    assert list(clients.consumers.members) == ["n"]


def test_several_leave_in_one_request() -> None:
    """Of any protocol: one operation with one group epoch, and an error for each that is not there."""
    clients, member_id = mixed()
    clients.enter("s", instance_id="i")
    epoch, known = clients.consumers.epoch, len(clients.log)
    leaving = (
        LeavingMember(member_id=member_id),
        LeavingMember(instance_id="i"),
        LeavingMember(member_id="x", instance_id="i"),
        LeavingMember(member_id="x"),
    )
    answer = clients.told(LeaveGroup(members=leaving))
    assert answer.left == (Error.NONE, Error.NONE, Error.FENCED_INSTANCE_ID, Error.UNKNOWN_MEMBER_ID)
    assert (list(clients.consumers.members), clients.consumers.epoch) == (["n"], epoch + 1)
    assert len({raw.at for raw in clients.log[known:]}) == 1
    nobody = LeaveGroup.of(member_id="x")
    assert clients.told(nobody) == Answer(error=Error.UNKNOWN_MEMBER_ID, left=(Error.UNKNOWN_MEMBER_ID,))
    assert clients.consumers.epoch == epoch + 1


def test_a_move_forgets_that_it_was_told_to_join() -> None:
    """Its session restarts, and the time to rejoin starts with the next heartbeat that requests it."""
    clients, member_id = mixed()
    clients.sync_mixed(member_id)
    release(clients, member_id)
    told = clients.now
    clients.wait(15_000)
    clients.take(clients.coordinator.move(clients.now))
    clients.beat("n")
    assert beat(clients, member_id) == "REBALANCE_IN_PROGRESS"
    again = clients.now
    assert again - told < 20_000
    while member_id in clients.consumers.members:
        clients.beat("n")
    assert clients.log[-1].at == again + 20_000
