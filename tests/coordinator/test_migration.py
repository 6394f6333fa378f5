"""Upgrades and downgrades of groups in the coordinator model, with and without members."""

from __future__ import annotations

import pytest

from groupreplay.codecs import Assignment, GroupMetadataValue, TopicPartitions, encode_blob
from groupreplay.codecs.kafka_terms import ConsumerPhase, Phase
from groupreplay.coordinator.classic.classic_group import ClassicGroup
from groupreplay.coordinator.consumer.consumer_group import ConsumerGroup
from groupreplay.coordinator.migration import decode_member_subscription, encode_classic_assignment
from groupreplay.coordinator.requests import Answer, ClassicHeartbeat, Error, Protocol, Refused, Settings
from support.model.classic_clients import joining, protocols, subscription
from support.model.consumer_clients import TOPIC_IDS, ConsumerClients

T = TOPIC_IDS["t"]


def classic(settings: Settings | None = None, **fields: object) -> tuple[ConsumerClients, str]:
    """A classic group of one member."""
    clients = ConsumerClients(settings or Settings())
    (member_id,) = clients.stable("c", **fields)
    return clients, member_id


def test_an_upgrade_keeps_members_and_assignments() -> None:
    """The classic group's tombstone, all of its members at its generation, then the joining member."""
    clients = ConsumerClients()
    (member_id,) = clients.stable("c", protocols=protocols())
    before = len(clients.log)
    clients.enter("n")
    assert clients.written(before) == [
        (2, "", False),
        (5, member_id, True),
        (3, "", True),
        (7, member_id, True),
        (6, "", True),
        (8, member_id, True),
        (5, "n", True),
        (3, "", True),
        # What the other one has, it may keep.
        (7, "n", True),
        (6, "", True),
        (8, "n", True),
    ]
    assert clients.member(member_id).classic is not None
    assert (clients.consumers.epoch, clients.consumers.state) == (2, ConsumerPhase.RECONCILING)


def test_a_downgrade_goes_on_as_a_classic_rebalance() -> None:
    """The group's tombstones and one record of the generation; then the members have to rejoin."""
    clients = ConsumerClients()
    clients.stable("c", protocols=protocols())
    clients.enter("n")
    clients.settle_all()
    epoch = clients.consumers.epoch
    before = len(clients.log)
    clients.depart("n")
    assert [kind for kind, _, _ in clients.written(before)] == [8, 8, 7, 7, 6, 5, 5, 4, 3, 2]
    assert isinstance(clients.coordinator.group, ClassicGroup)
    assert (clients.group.generation, clients.group.state) == (epoch, Phase.PREPARING_REBALANCE)


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        (Settings(), ClassicGroup),
        (Settings(migration_policy="upgrade"), ConsumerGroup),
        (Settings(max_size=1), ClassicGroup),
        (Settings(max_size=0), ConsumerGroup),
    ],
)
def test_downgrades_that_are_refused(settings: Settings, kind: type) -> None:
    """By policy, or because the classic group would be too large: the group stays a consumer group."""
    clients, member_id = classic(Settings(), protocols=protocols())
    clients.enter("n")
    clients.settle_all()
    clients.coordinator.settings = settings
    clients.depart("n")
    assert isinstance(clients.coordinator.group, kind)
    assert list(clients.coordinator.group.members) == [member_id]


@pytest.mark.parametrize(
    ("settings", "fields"),
    [
        (Settings(migration_policy="disabled"), {}),
        (Settings(migration_policy="downgrade"), {}),
        (Settings(consumer_max_size=0), {}),
        (Settings(), {"protocol_type": "connect"}),
        (Settings(), {"protocols": (Protocol("range", b""),)}),
    ],
)
def test_upgrades_that_are_refused(settings: Settings, fields: dict[str, object]) -> None:
    """By policy, because of the size, or because the members' metadata are not Kafka's own."""
    clients, _ = classic(settings, **fields)
    before = len(clients.log)
    assert clients.enter("n").error is Error.GROUP_ID_NOT_FOUND
    assert (len(clients.log), clients.state) == (before, "Stable")


def test_a_group_in_its_first_rebalance_cannot_be_upgraded() -> None:
    """The broker fails without a chosen protocol; waiting members have to rejoin."""
    clients = ConsumerClients()
    request, _ = clients.join("c")
    assert clients.enter("n").error is Error.UNKNOWN_SERVER_ERROR
    answer = clients.answer(request)
    assert answer is not None
    assert answer.error is Error.REBALANCE_IN_PROGRESS


def test_a_member_without_the_protocol_of_the_generation_prevents_an_upgrade() -> None:
    """It has joined for a generation with another protocol; the broker fails, and its join is over."""
    clients = ConsumerClients()
    first, _ = clients.stable("c", "d", protocols=protocols("range", "sticky"))
    chosen = clients.group.protocol
    (other,) = {"range", "sticky"} - {chosen}
    again = clients.rejoin(first, protocols=protocols(other))
    before = len(clients.log)
    assert clients.enter("n") == Answer(error=Error.UNKNOWN_SERVER_ERROR)
    assert clients.answer(again) == Answer(error=Error.REBALANCE_IN_PROGRESS, member_id=first)
    assert (clients.state, len(clients.log)) == ("PreparingRebalance", before)


def test_timers_of_a_consumer_group_outlive_a_downgrade() -> None:
    """Kafka cancels them with their member only: a sync that was awaited before fences the member after an upgrade."""
    clients = ConsumerClients(Settings(consumer_session_timeout_ms=300_000))
    clients.enter("n")
    _, member_id = clients.join("c", protocols=protocols(), rebalance_timeout_ms=60_000)
    awaited = clients.now
    clients.depart("n")
    assert isinstance(clients.coordinator.group, ClassicGroup)
    clients.rejoin(member_id, rebalance_timeout_ms=60_000)
    clients.sync(member_id)
    clients.enter("n")
    while member_id in clients.consumers.members and clients.now < awaited + 70_000:
        clients.ask(ClassicHeartbeat(member_id=member_id, generation=clients.member(member_id).epoch))
    assert clients.now == awaited + 60_000


def test_an_empty_classic_group_begins_anew_as_a_consumer_group() -> None:
    """Its tombstone, then the records of a first member; the epoch does not follow from the generation."""
    clients, member_id = classic()
    clients.leave(member_id)
    before = len(clients.log)
    clients.enter("n")
    assert [kind for kind, _, _ in clients.written(before)] == [2, 5, 3, 7, 6, 8]
    assert clients.consumers.epoch == 2


def test_an_empty_consumer_group_begins_anew_as_a_classic_group() -> None:
    """Its tombstones and generation 0, in one operation."""
    clients = ConsumerClients()
    clients.enter("n")
    clients.depart("n")
    before = len(clients.log)
    clients.join("c")
    assert clients.written(before) == [(6, "", False), (4, "", False), (3, "", False), (2, "", True)]
    assert {raw.at for raw in clients.log[before:]} == {clients.log[before].at}
    changes = [(change.before, change.after) for change in clients.changes]
    assert (ConsumerPhase.EMPTY, Phase.EMPTY) in changes


def test_a_downgrade_keeps_what_everybody_shall_have() -> None:
    """The record has the targets as assignments, in the version of each member's subscription."""
    clients, member_id = classic(protocols=protocols())
    clients.enter("n")
    clients.settle_all()
    target = clients.consumers.targets[member_id]
    clients.depart("n")
    record = clients.log[-1].value
    assert isinstance(record, GroupMetadataValue)
    assert [member.assignment for member in record.members] == [
        encode_blob(
            Assignment(
                version=1,
                assigned_partitions=(
                    TopicPartitions(topic="t", partitions=tuple(sorted(number for _, number in target))),
                ),
            )
        )
    ]


def test_a_static_member_takes_its_group_with_it() -> None:
    """The only member changes the protocol without a new epoch, and back."""
    clients, _ = classic(instance_id="i", protocols=protocols())
    clients.enter("n", instance_id="i")
    assert (clients.consumers.epoch, clients.consumers.state) == (1, ConsumerPhase.STABLE)
    clients.join("c", instance_id="i", protocols=protocols())
    assert isinstance(clients.coordinator.group, ClassicGroup)
    assert (clients.group.generation, clients.group.state) == (1, Phase.STABLE)


def test_what_cannot_be_read_or_is_not_there() -> None:
    """An empty subscription is refused; partitions of unknown topics are left out."""
    with pytest.raises(Refused, match="GROUP_ID_NOT_FOUND"):
        decode_member_subscription(b"")
    nowhere = bytes(16)
    assert encode_classic_assignment([(nowhere, 0)], subscription("t"), {}) == encode_classic_assignment(
        [], subscription("t"), {}
    )


def test_an_empty_consumer_group_is_forgotten_until_the_coordinator_moves() -> None:
    """A classic member with an id is unknown; Kafka forgets the group then, without a record."""
    clients = ConsumerClients()
    clients.enter("n")
    clients.depart("n")
    before = len(clients.log)
    assert clients.told(joining("c", "c-1")) == Answer(error=Error.UNKNOWN_MEMBER_ID, member_id="c-1")
    assert (clients.coordinator.group, len(clients.log)) == (None, before)
    epoch = clients.log[-1].value.epoch
    clients.take(clients.coordinator.move(clients.now))
    assert (clients.consumers.epoch, clients.consumers.state) == (epoch, ConsumerPhase.EMPTY)
    # With a record of another group of this id it is gone for good.
    clients.told(joining("c", "c-1"))
    clients.join("c")
    clients.take(clients.coordinator.move(clients.now))
    assert isinstance(clients.coordinator.group, ClassicGroup)


def test_a_static_member_with_other_topics_takes_its_group_to_the_generation_before() -> None:
    """Its operation has a new group epoch, which is not applied when the classic group is made."""
    clients = ConsumerClients()
    clients.enter("n", instance_id="i")
    epoch = clients.consumers.epoch
    clients.ask(joining("c", instance_id="i", protocols=protocols(topics=("u",))))
    epochs = [one.value.epoch for one in clients.log if one.key.KEY_TYPE == 3 and one.value is not None]
    generations = [one.value.generation for one in clients.log if one.key.KEY_TYPE == 2 and one.value]
    assert (epochs[-1], generations) == (epoch + 1, [epoch])
