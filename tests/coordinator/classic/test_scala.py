"""What the older coordinator (``--scala``) decides otherwise, as Kafka 3.9.1 does (`test_model_and_coordinator`)."""

from __future__ import annotations

import pytest

from groupreplay.codecs import OffsetCommitValue
from groupreplay.codecs.kafka_terms import Phase
from groupreplay.coordinator.classic.classic_group import ClassicGroup, GroupMember
from groupreplay.coordinator.java_maps import scala_map_order, scala_trie_order
from groupreplay.coordinator.requests import Answer, EndTransaction, Error, OffsetDelete, Settings
from support.model.classic_clients import Clients, joining, protocols
from support.model.consumer_clients import topics

BOTH = pytest.mark.parametrize("scala", [False, True])


def clients_of(scala: bool, **settings: int) -> Clients:
    """Clients of either coordinator."""
    return Clients(Settings(scala=scala, **settings), topics=topics())


@BOTH
def test_a_pending_member_that_leaves_begins_no_rebalance(*, scala: bool) -> None:
    """The newer coordinator begins one, without need."""
    clients = clients_of(scala)
    clients.stable("a")
    pending = clients.told(joining("b")).member_id
    clients.leave(pending)
    assert clients.state == ("Stable" if scala else "PreparingRebalance")


@BOTH
def test_only_the_newer_coordinator_waits_for_members_of_a_group_that_had_a_generation(
    *, scala: bool
) -> None:
    """The first rebalance after the group was empty is extended once by each new member."""
    clients = clients_of(scala)
    (member_id,) = clients.stable("a")
    clients.leave(member_id)
    clients.join("b")
    begun = clients.now
    clients.join("c")
    clients.wait(20_000)
    ends = [one.at_ms for one in clients.changes if one.after is Phase.COMPLETING_REBALANCE]
    assert ends[-1] - begun == (3_000 if scala else 6_000)


@BOTH
def test_the_end_of_a_session_does_not_end_the_first_rebalance(*, scala: bool) -> None:
    """The other members wait for the delay to end."""
    clients = clients_of(scala, initial_rebalance_delay_ms=30_000)
    clients.told(joining("a", session_timeout_ms=10_000))
    request = clients.join("b", instance_id="i")[0]
    clients.wait(10_000)
    assert (clients.answer(request) is None) == scala


@BOTH
def test_a_refused_join_to_a_full_group_completes_the_rebalance_that_waits_for_it(*, scala: bool) -> None:
    """The member is removed; nobody else is awaited."""
    clients = clients_of(scala, max_size=2)
    first, second = clients.completing(rebalance_timeout_ms=60_000)
    for member_id in (first, second):
        clients.sync(member_id)
    clients.rejoin(first, rebalance_timeout_ms=60_000, protocols=protocols("range", "sticky"))
    third = joining("c", instance_id="i", rebalance_timeout_ms=60_000)
    clients.ask(third)
    refused = clients.told(joining("b", second, rebalance_timeout_ms=60_000))
    assert refused == Answer(error=Error.GROUP_MAX_SIZE_REACHED)
    assert (clients.answer(third) is not None) == scala


@BOTH
def test_a_replaced_static_member_that_waits_is_still_new(*, scala: bool) -> None:
    """So its session ends while it waits, unless it sends heartbeats."""
    clients = clients_of(scala)
    (member_id,) = clients.stable("a", session_timeout_ms=300_000, rebalance_timeout_ms=100_000)
    clients.join("b", instance_id="i", session_timeout_ms=10_000, rebalance_timeout_ms=100_000)
    again = joining("b", instance_id="i", session_timeout_ms=10_000, rebalance_timeout_ms=100_000)
    clients.ask(again)
    clients.wait(10_000)
    answer = clients.answer(again)
    assert answer == (Answer(error=Error.UNKNOWN_MEMBER_ID) if scala else None)
    assert member_id in clients.group.members


@BOTH
def test_the_deletion_of_the_last_offset_of_an_empty_group_ends_it(*, scala: bool) -> None:
    """The check of the retention would have done it later."""
    clients = clients_of(scala)
    (member_id,) = clients.stable("a")
    clients.commit(7, member_id=member_id, generation=1)
    clients.leave(member_id)
    clients.told(OffsetDelete((("t", 0),)))
    assert clients.state == ("Dead" if scala else "Empty")


@BOTH
def test_offsets_have_no_ids_of_topics(*, scala: bool) -> None:
    """Version 3 instead of 4."""
    clients = clients_of(scala)
    clients.commit(7)
    value = clients.log[-1].value
    assert isinstance(value, OffsetCommitValue)
    assert (value.version, any(value.topic_id)) == ((3, False) if scala else (4, True))


@BOTH
def test_a_pending_offset_holds_back_expiry_only_with_the_newer_coordinator(*, scala: bool) -> None:
    """The offset is removed; the transaction keeps the group, and its commit brings the partition back."""
    clients = clients_of(scala, retention_ms=60_000)
    clients.commit(1)
    clients.commit(2, producer_id=5)
    clients.wait(60_000)
    clients.clean_up()
    offsets = clients.coordinator.offsets
    assert bool(offsets.committed) != scala
    assert clients.state == "Empty"
    clients.ask(EndTransaction(producer_id=5, committed=True))
    assert [one.value.offset for one in offsets.committed.values()] == [2]


@BOTH
def test_a_commit_in_a_transaction_of_a_generation_of_an_unknown_group(*, scala: bool) -> None:
    """The older coordinator makes the group before it looks for the member, until the next check of the retention."""
    clients = clients_of(scala)
    error = clients.commit(1, member_id="m", generation=1, producer_id=5)
    assert (error, clients.state) == (
        ("UNKNOWN_MEMBER_ID", "Empty") if scala else ("ILLEGAL_GENERATION", "Dead")
    )
    clients.clean_up()
    assert (clients.state, clients.log) == ("Dead", [])


@BOTH
def test_the_table_of_members_does_not_shrink(*, scala: bool) -> None:
    """So the next leader of a group that was large is another one than that of a new group of the same members."""
    table = ClassicGroup(group_id="g", current_state_timestamp_ms=0, changes=[], scala=scala)
    names = [f"m{number}" for number in range(14)]
    for name in names:
        table.add(_member(name), "consumer")
    for name in names[3:]:
        table.remove(name)
    fresh = ClassicGroup(group_id="g", current_state_timestamp_ms=0, changes=[], scala=scala)
    for name in names[:3]:
        fresh.add(_member(name), "consumer")
    assert (table.buckets, fresh.buckets) == (32, 16)
    orders = [[one.member_id for one in group.in_map_order()] for group in (table, fresh)]
    assert [sorted(order) for order in orders] == [names[:3]] * 2


@BOTH
def test_a_table_of_scala_grows_one_member_earlier(*, scala: bool) -> None:
    """With its twelfth member; Java's with the thirteenth."""
    group = ClassicGroup(group_id="g", current_state_timestamp_ms=0, changes=[], scala=scala)
    sizes = []
    for number in range(25):
        group.add(_member(f"m{number}"), "consumer")
        sizes.append(group.buckets)
    growth = [number + 1 for number in range(1, 25) if sizes[number] != sizes[number - 1]]
    assert growth == ([12, 24] if scala else [13, 25])


@BOTH
def test_a_removed_pending_offset_is_back_after_a_move(*, scala: bool) -> None:
    """The older coordinator writes no tombstone for it, so the log still has it."""
    clients = clients_of(scala)
    clients.stable("a")
    clients.commit(2, topic="u", producer_id=5)
    clients.told(OffsetDelete((("u", 0),)))
    clients.take(clients.coordinator.move(clients.now))
    clients.ask(EndTransaction(producer_id=5, committed=True))
    assert [one.value.offset for one in clients.coordinator.offsets.committed.values()] == [2] * scala


@BOTH
def test_a_deleted_topic_ends_a_group_without_other_offsets(*, scala: bool) -> None:
    """With the newer coordinator the next check of the retention does it."""
    clients = clients_of(scala)
    clients.commit(7)
    clients.take(clients.coordinator.delete_topic("t", clients.now))
    assert clients.state == ("Dead" if scala else "Empty")


def _member(name: str) -> GroupMember:
    return GroupMember(
        member_id=name,
        instance_id=None,
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=1,
        session_timeout_ms=1,
        protocols=protocols(),
    )


def test_the_order_of_scalas_maps() -> None:
    """As Scala 2.13 iterates over them: a mutable one of members, an immutable one of votes."""
    names = ["cooperative-sticky", "range", "roundrobin", "sticky", "a", "b", "n00", "n11"]
    assert scala_map_order(names) == [
        "a",
        "b",
        "sticky",
        "range",
        "roundrobin",
        "n00",
        "n11",
        "cooperative-sticky",
    ]
    assert scala_trie_order(names) == [
        "cooperative-sticky",
        "n11",
        "roundrobin",
        "a",
        "b",
        "n00",
        "range",
        "sticky",
    ]
