"""Commits, transactions, expiry and deletion in the model, with the numbers of Kafka's own tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.codecs import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from groupreplay.codecs.kafka_terms import Phase
from groupreplay.coordinator.coordinator import MIXED_COMMITS
from groupreplay.coordinator.requests import (
    Commit,
    DeleteGroup,
    EndTransaction,
    OffsetCommit,
    OffsetDelete,
    Settings,
)
from groupreplay.state.replay import retention
from groupreplay.state.snapshot.group_state import ClassicGeneration, GroupState
from groupreplay.state.snapshot.members import Member
from groupreplay.state.snapshot.offsets import Offsets
from support.histories.builders import CONTEXT, observed
from support.model.classic_clients import Clients, joining
from support.model.consumer_clients import ConsumerClients

DAY_MS = 24 * 3_600_000


def committed(clients: Clients) -> dict[tuple[str, int], int]:
    """Offset by partition."""
    return {place: one.value.offset for place, one in clients.coordinator.offsets.committed.items()}


def written(clients: Clients, since: int = 0) -> list[tuple[str, Any]]:
    """Records in short: the group's or a partition's name, and the value."""
    return [
        (
            "group" if isinstance(raw.key, GroupMetadataKey) else f"{raw.key.topic}-{raw.key.partition}",
            raw.value,
        )
        for raw in clients.log[since:]
    ]


def test_a_commit_is_written_with_the_time_of_the_coordinator() -> None:
    """All partitions of a request in one operation."""
    clients = Clients(gap=1)
    commits = (
        Commit(topic="t", partition=0, offset=5),
        Commit(topic="t", partition=1, offset=6, leader_epoch=3),
    )
    assert clients.error(OffsetCommit(commits=commits)) == "NONE"
    assert [(raw.key, raw.value, raw.at) for raw in clients.log] == [
        (
            OffsetCommitKey(group="g", topic="t", partition=one.partition),
            OffsetCommitValue(
                version=4,
                offset=one.offset,
                metadata="",
                commit_timestamp_ms=1_010,
                leader_epoch=one.leader_epoch,
            ),
            1_010,
        )
        for one in commits
    ]


def test_a_commit_with_a_retention_of_its_own_has_an_expiry() -> None:
    """Its version is 1, the only one with an expiry."""
    clients = Clients(gap=1)
    clients.commit(5, retention_ms=500)
    value = clients.log[0].value
    assert (value.version, value.commit_timestamp_ms, value.expire_timestamp_ms) == (1, 1_010, 1_510)


def test_metadata_that_is_too_large_refuses_its_partition_alone() -> None:
    """The other partition is committed."""
    clients = Clients(Settings(offset_metadata_max_bytes=3))
    commits = (
        Commit(topic="t", partition=0, offset=5, metadata="four"),
        Commit(topic="t", partition=1, offset=6, metadata="abc"),
    )
    answer = clients.told(OffsetCommit(commits=commits))
    assert [(*place, error.value) for *place, error in answer.refused] == [
        ("t", 0, "OFFSET_METADATA_TOO_LARGE")
    ]
    assert committed(clients) == {("t", 1): 6}


def test_transactional_commits_are_taken_in_completing_rebalance() -> None:
    """Commits by consumers are refused then, but accepted in PreparingRebalance."""
    clients = Clients()
    first, second = clients.stable("a", "b")
    clients.leave(second)
    assert clients.commit(1, member_id=first, generation=1) == "NONE"
    clients.rejoin(first)
    assert clients.state == "CompletingRebalance"
    assert clients.commit(2, member_id=first, generation=2) == "REBALANCE_IN_PROGRESS"
    assert clients.commit(3, member_id=first, generation=2, producer_id=5) == "NONE"


def test_transactions_of_two_producers() -> None:
    """Committed offsets are taken over, aborted ones are dropped; an unknown producer's marker has no effect."""
    clients = Clients()
    clients.commit(99)
    clients.commit(100, producer_id=5)
    clients.commit(200, partition=1, producer_id=6)
    assert committed(clients) == {("t", 0): 99}
    records = len(clients.log)
    clients.ask(EndTransaction(producer_id=7, committed=True))
    assert committed(clients) == {("t", 0): 99}
    clients.ask(EndTransaction(producer_id=5, committed=True))
    clients.ask(EndTransaction(producer_id=6, committed=False))
    assert committed(clients) == {("t", 0): 100}
    assert [value.offset for _, value in written(clients, records)] == [100]


def test_a_commit_after_a_pending_one_stays() -> None:
    """The position in the log decides, not the time of the marker."""
    clients = Clients()
    clients.commit(100, producer_id=5)
    clients.commit(101)
    clients.ask(EndTransaction(producer_id=5, committed=True))
    assert committed(clients) == {("t", 0): 101}
    assert [raw.value.offset for raw in clients.log] == [100, 101]


def test_mixed_commits_are_warned_of_by_the_older_coordinator() -> None:
    """At each commit after both, until the next generation; Kafka 4 has no such warning."""
    for scala in (False, True):
        clients = Clients(Settings(scala=scala))
        (member_id,) = clients.stable("a")
        text = f"group: g with leader: {member_id} {MIXED_COMMITS}"
        for count, producer_id in ((0, None), (0, 5), (1, None), (2, 5)):
            clients.commit(1, member_id=member_id, generation=1, producer_id=producer_id)
            assert clients.warnings == [text] * (count if scala else 0)
        clients.rejoin(member_id)
        clients.sync(member_id)
        clients.commit(1, member_id=member_id, generation=2)
        assert len(clients.warnings) == (2 if scala else 0)


@pytest.mark.parametrize("scala", [False, True])
def test_an_expiry_of_its_own_in_the_past_expires_at_once(*, scala: bool) -> None:
    """Also one before the year 1970; only -1 is none."""
    for retention_ms, expires in ((-5_000_000, True), (-1, True), (1_000, False)):
        clients = Clients(Settings(scala=scala))
        clients.commit(1, retention_ms=retention_ms)
        clients.clean_up()
        assert bool(committed(clients)) != expires


def test_a_tombstone_removes_what_is_pending_too() -> None:
    """A later marker does not restore them."""
    clients = Clients()
    clients.commit(99)
    clients.commit(100, producer_id=5)
    clients.ask(OffsetDelete((("t", 0),)))
    clients.ask(EndTransaction(producer_id=5, committed=True))
    assert (committed(clients), clients.coordinator.offsets.pending) == ({}, {})


def test_offsets_of_a_subscribed_topic_cannot_be_deleted() -> None:
    """Those of other topics can be deleted while the group has members."""
    clients = Clients()
    (member_id,) = clients.stable("a")
    for topic in ("t", "u"):
        clients.commit(5, topic=topic, member_id=member_id, generation=1)
    answer = clients.told(OffsetDelete((("t", 0), ("u", 0), ("u", 9))))
    assert [(*place, error.value) for *place, error in answer.refused] == [
        ("t", 0, "GROUP_SUBSCRIBED_TO_TOPIC")
    ]
    assert committed(clients) == {("t", 0): 5}
    assert written(clients)[-1] == ("u-0", None)


def test_offsets_of_other_groups_than_consumers_cannot_be_deleted_while_they_are_in_use() -> None:
    """Their subscriptions are unknown."""
    clients = Clients()
    clients.stable("a", protocol_type="connect")
    assert clients.error(OffsetDelete((("t", 0),))) == "NON_EMPTY_GROUP"


def test_deleting_a_group_takes_its_offsets_first() -> None:
    """In one operation; then the group does not exist."""
    clients = Clients()
    clients.commit(5)
    clients.commit(6, partition=1)
    assert clients.error(DeleteGroup()) == "NONE"
    assert written(clients, 2) == [("t-0", None), ("t-1", None), ("group", None)]
    assert {raw.at for raw in clients.log[2:]} == {clients.now}
    assert clients.error(DeleteGroup()) == "GROUP_ID_NOT_FOUND"


def test_a_topic_that_is_deleted_takes_its_offsets_along() -> None:
    """Although members are subscribed to it; the group stays."""
    clients = Clients()
    (member_id,) = clients.stable("a")
    clients.commit(5, member_id=member_id, generation=1)
    clients.commit(5, topic="u", member_id=member_id, generation=1)
    clients.take(clients.coordinator.delete_topic("t", clients.now))
    assert (written(clients)[-1], clients.state) == (("t-0", None), "Stable")
    assert committed(clients) == {("u", 0): 5}


def test_offsets_of_an_emptied_group_expire_counting_from_then() -> None:
    """To the millisecond, all of them with the group; a commit in between does not extend that."""
    clients = Clients()
    (member_id,) = clients.stable("a")
    clients.commit(5, member_id=member_id, generation=1)
    clients.leave(member_id)
    emptied = clients.now
    clients.wait(6 * DAY_MS)
    clients.commit(7, partition=1)
    records = len(clients.log)
    clients.wait(emptied + 7 * DAY_MS - 1 - clients.now)
    clients.clean_up()
    assert written(clients, records) == []
    clients.wait(1)
    clients.clean_up()
    assert written(clients, records) == [("t-0", None), ("t-1", None), ("group", None)]
    assert clients.state == "Dead"


def test_offsets_of_a_simple_group_expire_each_from_its_commit() -> None:
    """The group is removed with the last offset."""
    clients = Clients()
    clients.commit(5)
    clients.wait(DAY_MS)
    clients.commit(6, partition=1)
    clients.wait(6 * DAY_MS)
    clients.clean_up()
    assert written(clients, 2) == [("t-0", None)]
    clients.wait(DAY_MS)
    clients.clean_up()
    assert written(clients, 3) == [("t-1", None), ("group", None)]


def test_in_use_only_topics_that_were_let_go_of_expire() -> None:
    """And none does during a rebalance."""
    clients = Clients()
    (member_id,) = clients.stable("a", session_timeout_ms=1_800_000, instance_id="i")
    for topic in ("t", "u"):
        clients.commit(5, topic=topic, member_id=member_id, generation=1)
    for _ in range(7 * 60 + 1):
        clients.wait(DAY_MS // 60)
        clients.heartbeat(member_id)
    records = len(clients.log)
    newcomer = clients.join("b")[1]
    clients.clean_up()
    assert (clients.state, written(clients, records)) == ("PreparingRebalance", [])
    clients.leave(newcomer)
    clients.rejoin(member_id, instance_id="i", session_timeout_ms=1_800_000)
    clients.sync(member_id)
    clients.clean_up()
    assert (clients.state, written(clients, records)[1:]) == ("Stable", [("u-0", None)])


def test_an_open_transaction_holds_its_partition_and_the_group_back() -> None:
    """The other offset expires."""
    clients = Clients()
    clients.commit(5)
    clients.commit(6, partition=1)
    clients.commit(7, producer_id=5)
    clients.wait(8 * DAY_MS)
    clients.clean_up()
    assert (committed(clients), clients.state) == ({("t", 0): 5}, "Empty")
    clients.ask(EndTransaction(producer_id=5, committed=False))
    clients.clean_up()
    assert (committed(clients), clients.state) == ({}, "Dead")


@pytest.mark.parametrize("scala", [False, True])
def test_an_empty_group_without_offsets_goes_at_the_next_clean_up(scala: bool) -> None:
    """The older coordinator writes no tombstone for a group without a generation."""
    clients = Clients(Settings(scala=scala))
    clients.ask(joining())
    clients.clean_up()
    assert clients.state == "Dead"
    assert written(clients)[-1:] == ([] if scala else [("group", None)])


@given(
    phase=st.sampled_from([phase for phase in Phase if phase is not Phase.DEAD]),
    protocol_type=st.sampled_from([None, "consumer", "connect"]),
    subscribed=st.sampled_from(["t", "u", ""]),
    ages=st.lists(st.tuples(st.sampled_from(["t", "u"]), st.integers(0, 2_000)), min_size=1, max_size=5),
    own=st.booleans(),
    emptied=st.integers(0, 2_000),
    now=st.integers(0, 4_000),
)
def test_what_expires_is_what_the_replay_says_is_due(
    phase: Phase,
    protocol_type: str | None,
    subscribed: str,
    ages: list[tuple[str, int]],
    own: bool,
    emptied: int,
    now: int,
) -> None:
    """The rules exist twice, in the model and in the replay; they agree for every offset."""
    clients = Clients(Settings(retention_ms=500), now=0, gap=1)
    for partition, (topic, at) in enumerate(sorted(ages, key=lambda one: one[1])):
        clients.wait(max(0, at - clients.now))
        clients.take(
            clients.coordinator.handle(
                OffsetCommit(
                    commits=(Commit(topic=topic, partition=partition, offset=1),),
                    retention_ms=700 if own else None,
                ),
                clients.now,
            )
        )
    group = clients.group
    group.state, group.protocol_type, group.current_state_timestamp_ms = phase, protocol_type, emptied
    topics = (subscribed,) if phase is not Phase.EMPTY and subscribed else ()
    group.subscribed_topics = frozenset(topics) if protocol_type == "consumer" else None
    members = (Member("m", None, "c", "/h", 1, 1, (), topics, {}),) if phase is not Phase.EMPTY else ()
    classic = ClassicGeneration(protocol_type=protocol_type, emptied_ms=emptied, members=members)
    state = GroupState(phase=phase, classic=classic)
    offsets = Offsets()
    for run in observed(clients.log).items:
        offsets.apply(run)  # type: ignore[arg-type]
    due = retention.deadlines(state, offsets, replace(CONTEXT, retention_ms=500))
    overdue = {
        place for place, at in zip(offsets.names(range(len(offsets))), due.tolist(), strict=True) if at <= now
    }
    assert set(clients.coordinator.offsets.expired(group, 500, now)) == overdue


def test_commits_in_a_transaction_are_no_signs_of_life() -> None:
    """The session ends as without them."""
    clients = Clients()
    (member_id,) = clients.stable("a", session_timeout_ms=10_000)
    clients.heartbeat(member_id)
    clients.wait(8_000)
    assert clients.commit(1, member_id=member_id, generation=1, producer_id=5) == "NONE"
    clients.wait(2_000)
    assert clients.state == "Empty"


def test_commits_in_a_transaction_have_one_error_for_a_wrong_generation() -> None:
    """Of a group that does not exist, and of a member of the consumer protocol."""
    assert Clients().commit(1, member_id="a", generation=1, producer_id=5) == "ILLEGAL_GENERATION"
    clients = ConsumerClients()
    clients.enter("n")
    for generation, error in ((9, "ILLEGAL_GENERATION"), (-2, "ILLEGAL_GENERATION"), (2, "NONE")):
        assert clients.commit(1, member_id="n", generation=generation, producer_id=5) == error
    assert clients.commit(1, generation=-2, producer_id=5) == "UNKNOWN_MEMBER_ID"
    assert clients.commit(1, generation=-1, producer_id=5) == "NONE"


def test_a_deleted_topic_has_a_tombstone_for_each_offset() -> None:
    """Also for the committed and the pending offset of one partition."""
    clients = Clients()
    clients.commit(1)
    clients.commit(2, producer_id=5)
    clients.ask(EndTransaction(producer_id=5, committed=False))
    clients.commit(3, producer_id=5)
    before = clients.coordinator.offsets.each_partition()
    assert before == [("t", 0), ("t", 0)]
    (operation,) = clients.coordinator.delete_topic("t", clients.now).operations
    assert operation.records == ((OffsetCommitKey(group="g", topic="t", partition=0), None),) * 2
    assert not clients.coordinator.offsets
