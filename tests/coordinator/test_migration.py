"""Upgrades and downgrades of groups in the coordinator model, with and without members."""

from __future__ import annotations

import pytest

from groupreplay.codecs.kafka_terms import ConsumerPhase, Phase
from groupreplay.coordinator.classic.classic_group import ClassicGroup
from groupreplay.coordinator.consumer.consumer_group import ConsumerGroup
from groupreplay.coordinator.migration import decode_member_subscription, encode_classic_assignment
from groupreplay.coordinator.requests import Error, Protocol, Refused, Settings
from support.model.classic_clients import protocols, subscription
from support.model.consumer_clients import ConsumerClients


def classic(settings: Settings | None = None, **fields: object) -> tuple[ConsumerClients, str]:
    """A classic group of one member."""
    clients = ConsumerClients(settings or Settings())
    (member_id,) = clients.stable("c", **fields)
    return clients, member_id


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
