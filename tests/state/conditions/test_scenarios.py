"""Thirty-two scenarios of the coordinator's own tests, as an observer of the log has to see them.

They are in ``GroupMetadataManagerTest``, ``OffsetMetadataManagerTest`` and the tests of the groups. Where the
coordinator decides something that no record holds (which offsets expire, how a transaction ends), the test
holds what the records do say: what the decision is made from, and what its tombstones take away.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from groupreplay.codecs import Malformed, Skipped, decode_key, decode_value
from groupreplay.codecs.consumer import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    TopicMetadata,
)
from groupreplay.codecs.kafka_terms import GroupType
from groupreplay.state.events import group_events
from groupreplay.state.events.event import History, Severity
from groupreplay.state.events.offset_events import OffsetsExpired
from support.histories.builders import (
    CONTEXT,
    GROUP,
    Raw,
    asked_for,
    check,
    commit,
    emptied,
    facts,
    generation,
    gone,
    member,
    names,
    no_offset,
    replay,
)
from support.histories.group_records import Described, HeldPartitions, Share, Streams
from support.histories.group_writer import GroupWriter
from support.histories.modern_builders import (
    TOPIC,
    TOPIC_ID,
    UNRELEASED,
    UNREVOKED,
    current,
    described,
    ended,
    first_join,
    group_epoch,
    left,
    operation,
    target,
    target_epoch,
)
from support.model.classic_clients import joining
from support.model.consumer_clients import ConsumerClients

NAMED = replace(CONTEXT, topic_names={TOPIC: "t"})


def state(history: list[Raw]) -> str:
    """The group's state once the history is over."""
    return str(replay(history)[0].describe()["state"])


def offsets(history: list[Raw]) -> dict[tuple[str, int], int]:
    """Committed offsets once the history is over."""
    return {
        (one["topic"], one["partition"]): one["offset"] for one in replay(history)[0].describe()["offsets"]
    }


def test_01_first_dynamic_join_of_an_unknown_group() -> None:
    """One record of generation 0 without members: created, Empty, not yet of any protocol type."""
    group, events = replay([asked_for(at=1_000)])
    assert facts(events) == [group_events.GroupCreated(generation=0, since_ms=1_000)]
    now = group.describe()
    check(now, type="classic", state="Empty", generation=0, protocol_type=None)


def two_static_members(rebalance_ms: int) -> dict[str, Any]:
    """What is remembered of a record with two static members of generation 1, leader ``member-0``."""
    members = [
        member(f"member-{n}", instance_id=f"i-{n}", rebalance_ms=rebalance_ms, session_ms=4_000)
        for n in range(2)
    ]
    group, _ = replay([generation(1, *members, at=9)])
    kept = group._snapshot.group.classic.members  # the timeouts are in no picture of the group
    return {**group.describe(), "timeouts_ms": [one.rebalance_timeout_ms for one in kept]}


def test_02_a_record_without_a_rebalance_timeout() -> None:
    """-1 means the session timeout; Stable, and the recorded leader stays."""
    loaded = two_static_members(-1)
    check(loaded, state="Stable", leader="member-0", timeouts_ms=[4_000, 4_000])


def test_03_a_record_with_a_rebalance_timeout() -> None:
    """It is taken as it is."""
    assert two_static_members(9_000)["timeouts_ms"] == [9_000, 9_000]


def test_04_a_loaded_group_above_its_maximum_size() -> None:
    """The coordinator starts a rebalance and writes nothing: the log says Stable, and no fact is made up."""
    history = [generation(1, member("a"), member("b"), at=9)]
    group, events = replay(history)
    assert group.describe()["state"] == "Stable"
    assert "rebalance.started" not in names(events)


def test_05_a_leader_rejoins_without_syncing() -> None:
    """Generation 2 is in the answer to the join only; the log stays at 1, and 3 comes with one skipped."""
    history = [asked_for(at=1), generation(1, member("a"), at=9)]
    assert replay(history)[0].describe()["generation"] == 1
    _, events = replay([*history, generation(3, member("a"), at=99)])
    check(facts(events)[-1], generation=3, skipped_generations=1, trigger="unknown")


def test_06_the_only_member_leaves() -> None:
    """One record, generation + 1, no members, no protocol, the type kept."""
    group, events = replay([asked_for(at=1), generation(1, member("a"), at=19), emptied(2, at=99)])
    now = group.describe()
    check(now, state="Empty", generation=2, protocol=None, protocol_type="consumer", members=[])
    assert facts(events)[-2] == group_events.GroupEmptied(generation=2, since_ms=99)
    check(facts(events)[-1], member_id="a", reason="left")


def test_07_a_static_member_rejoins_while_stable() -> None:
    """The same generation with a new member id and new timeouts: a replacement and no rebalance."""
    old = member("i-1", [0], instance_id="i", client_id="c", host="/h1", session_ms=6_000)
    new = member("i-2", [0], instance_id="i", client_id="c", host="/h2", session_ms=9_000)
    group, events = replay([asked_for(at=1), generation(1, old, at=9), generation(1, new, at=99)])
    assert names(events)[3:] == ["static.replaced", "member.updated"]
    assert facts(events)[3] == group_events.StaticReplaced(
        instance_id="i", old_member_id="i-1", new_member_id="i-2", old_host="/h1", new_host="/h2"
    )
    assert facts(events)[4].changed == ("session_timeout_ms",)
    assert (group.describe()["leader"], group.describe()["generation"]) == ("i-2", 1)


def test_08_nobody_syncs() -> None:
    """No record at the timeout; when nobody is left, Empty at two generations above the last one written."""
    history = [asked_for(at=1), generation(1, member("a"), at=9), emptied(3, at=60_009)]
    group, events = replay(history)
    assert names(events)[3:] == ["group.emptied", "member.left"]
    assert (group.describe()["state"], group.describe()["generation"]) == ("Empty", 3)


def expiries(history: list[Raw]) -> list[int | None]:
    """When the broker may remove each offset: a retention of 500 ms in these scenarios."""
    now = replay(history, replace(CONTEXT, retention_ms=500))[0].describe()
    return [one["expires_at_ms"] for one in now["offsets"]]


def test_09_the_expiry_condition_of_a_classic_group() -> None:
    """Simple: the commit's time; another type Empty: that time; with members: none; consumers: the commit's."""
    committed = commit("t", 0, 5, at=50)
    connect = [committed, generation(1, member("a"), at=60, protocol_type="connect")]
    assert expiries([committed]) == [550]
    assert expiries([*connect, emptied(2, at=99)]) == [599]
    assert expiries(connect) == [None]
    assert expiries([committed, generation(1, member("a", topic="u"), at=60)]) == [550]
    # In a rebalance nothing expires; only a probe can tell of one (tests/state/replay/test_retention.py).


def test_10_subscribed_topics_of_a_classic_group() -> None:
    """Only a consumer-type group with members is subscribed to anything."""
    subscribed = [
        replay(history)[0].describe()["subscribed_topics"]
        for history in (
            [commit("t", 0, 5, at=50)],
            [generation(1, member("a"), at=60, protocol_type="connect")],
            [emptied(2, at=99)],
            [generation(1, member("a"), at=60)],
        )
    ]
    # Null: members of another type have subscriptions that nobody can read, and nothing expires.
    assert subscribed == [[], None, [], ["t"]]


def test_11_an_offset_with_an_expiry_of_its_own() -> None:
    """With one, that moment counts, else the commit's time and the retention; at that moment it is due."""
    history = [commit("t", 0, 5, at=500, version=1, expire_timestamp_ms=1_500), commit("t", 1, 5, at=500)]
    assert expiries(history) == [1_500, 1_000]


def test_12_offsets_that_expire_one_after_another() -> None:
    """Only topics that nobody is subscribed to; with the last offset of an empty group goes the group."""
    minute = replace(CONTEXT, retention_ms=60_000)
    history = [
        generation(1, member("a", topic="first"), at=1),
        *(commit("second", number, 5, at=10 + 500 * number) for number in (0, 1)),
        commit("first", 0, 5, at=600),
        no_offset("second", 0, at=60_010),
        no_offset("second", 1, at=60_510),
    ]
    group, events = replay(history, minute)
    assert offsets(history) == {("first", 0): 5}
    assert group.describe()["offsets"][0]["expires_at_ms"] is None
    history += [emptied(2, at=61_000), no_offset("first", 0, at=121_000), gone(at=121_000)]
    group, events = replay(history, minute)
    expired = [fact for fact in facts(events) if isinstance(fact, OffsetsExpired)]
    assert [(fact.partition_count, fact.deadline_ms, fact.late_ms) for fact in expired] == [
        (1, 60_010, 0),
        (1, 60_510, 0),
        (1, 121_000, 0),
    ]
    assert group_events.GroupDeleted(generation=2, since_ms=121_000) in facts(events)
    assert group.gone


def test_13_a_pending_transaction_holds_back_expiry() -> None:
    """A group whose offsets are all gone but which has no tombstone yet is not deleted."""
    group, events = replay([asked_for(at=1), commit("t", 0, 5, at=10), no_offset("t", 0, at=60_000)])
    assert names(events) == ["group.created", "offsets.deleted"]
    assert (group.describe()["state"], group.gone) == ("Empty", False)


def test_14_transactions_end_one_way_or_another() -> None:
    """Read committed, an aborted commit is never seen and a committed one counts by its place in the log."""
    plain, of_producer_5 = commit("t", 0, 99, at=10), commit("t", 0, 100, at=20)
    assert offsets([plain]) == {("t", 0): 99}
    assert offsets([plain, of_producer_5]) == {("t", 0): 100}


def test_15_the_most_recent_commit_stays() -> None:
    """A transaction that was written before a plain commit and ended after it loses to it."""
    assert offsets([commit("t", 0, 100, at=10), commit("t", 0, 101, at=20)]) == {("t", 0): 101}
    later = [commit("t", 0, 101, at=20), commit("t", 0, 100, at=30)]
    assert offsets(later) == {("t", 0): 100}


def test_16_a_tombstone_takes_pending_offsets_too() -> None:
    """It stands behind them in the log; only a commit behind it brings the partition back."""
    history = [commit("t", 0, 99, at=10), commit("t", 0, 100, at=20), no_offset("t", 0, at=30)]
    assert offsets(history) == {}
    assert offsets([*history, commit("t", 0, 7, at=40)]) == {("t", 0): 7}


def test_17_the_states_of_a_consumer_group() -> None:
    """Assigning, Reconciling, Reconciling, Stable, from one more record each."""
    history = operation(1_000, group_epoch(10))
    seen = [state(history)]
    for at, records in (
        (2_000, [described("a"), group_epoch(11)]),
        (3_000, [target("a", [0]), target_epoch(11)]),
        (4_000, [current("a", 11, [0], state=UNREVOKED, revoking=[1])]),
        (5_000, [current("a", 11, [0])]),
    ):
        history += operation(at, records)
        seen.append(state(history))
    assert seen == ["Empty", "Assigning", "Reconciling", "Reconciling", "Stable"]


def test_18_the_first_member_of_a_consumer_group() -> None:
    """Five records of one operation: created, and one rebalance that took no time."""
    group, events = replay(first_join(), NAMED)
    assert names(events) == ["group.created", "rebalance.started", "member.joined", "rebalance.completed"]
    completed = facts(events)[3]
    assert (completed.duration_ms, completed.generation, completed.trigger) == (0, 2, "first_join")
    assert {event.history for event in events} == {History.FULL}
    now = group.describe()
    check(now, type="consumer", state="Stable", group_epoch=2, target_epoch=2)
    assert now["members"][0]["partitions"] == {"t": [0, 1]}


def test_19_metadata_in_a_record_becomes_a_hash() -> None:
    """The group's epoch rises with the hash and type 4 is tombstoned; the names it told stay known."""
    key = ConsumerGroupPartitionMetadataKey(group=GROUP)
    told = TopicMetadata(topic_id=TOPIC_ID, topic_name="orders", num_partitions=2, partition_metadata=())
    first = operation(
        1_000, first_join(), Raw(key, ConsumerGroupPartitionMetadataValue(version=0, topics=(told,)))
    )
    history = [
        *first,
        *operation(
            9_000,
            group_epoch(3, metadata_hash=8),
            Raw(key, None),
            target_epoch(3),
            current("a", 3, [0, 1], previous=2),
        ),
    ]
    group, events = replay(history)
    assert [fact.trigger for fact in facts(events)[4:]] == ["metadata_changed", "metadata_changed"]
    now = group.describe()
    assert (now["state"], now["members"][0]["partitions"]) == ("Stable", {"orders": [0, 1]})


def test_20_a_static_member_leaves_for_a_moment() -> None:
    """Epoch -2: Reconciling and no rebalance; then the old id goes and the new one has it all back."""
    clients = ConsumerClients()
    clients.enter("i-1", instance_id="i")
    before = len(clients.log)
    clients.away("i-1")
    assert state(clients.log) == "Reconciling"
    clients.enter("i-2", instance_id="i")
    _, events = replay(clients.log)
    assert facts(events)[4:] == [
        group_events.StaticReplaced(
            instance_id="i",
            old_member_id="i-1",
            new_member_id="i-2",
            old_host="/10.0.0.1",
            new_host="/10.0.0.1",
        )
    ]
    assert [type(raw.key).__name__.removeprefix("ConsumerGroup") for raw in clients.log[before:]] == [
        "CurrentMemberAssignmentKey",
        "CurrentMemberAssignmentKey",
        "TargetAssignmentMemberKey",
        "MemberMetadataKey",
        "MemberMetadataKey",
        "TargetAssignmentMemberKey",
        "CurrentMemberAssignmentKey",
        "CurrentMemberAssignmentKey",
    ]
    assert state(clients.log) == "Stable"


def test_21_a_join_inside_the_assignment_interval() -> None:
    """Assigning until the target is written; one rebalance from the join to the last reconciled member."""
    life = GroupWriter(interval=True)
    life.join("a")
    life.settle()
    begin = life.at
    life.join("b")
    assert state(life.log) == "Assigning"
    life.settle()
    _, events = replay(life.log)
    assert names(events)[4:] == ["rebalance.started", "member.joined", "rebalance.completed"]
    completed = facts(events)[-1]
    assert (state(life.log), completed.joined) == ("Stable", ("b",))
    assert completed.duration_ms == events[-1].time_ms - begin


def test_22_a_member_ignores_a_revocation() -> None:
    """Fenced at its rebalance timeout, which is told from leaving by the time alone."""
    life = GroupWriter()
    life.join("a")
    life.join("b")
    life.heartbeat("a")
    life.leave("a", fenced=True)
    lost = next(fact for fact in facts(replay(life.log)[1]) if fact.NAME == "member.left")
    assert (lost.member_id, lost.reason, lost.elapsed_ms) == ("a", "rebalance_timeout", 30_000)
    assert lost.severity is Severity.WARN


def test_23_upgrade_and_downgrade() -> None:
    """One conversion each way; nobody left but the last native member, and the generation is the epoch."""
    clients = ConsumerClients()
    ids = clients.stable("a", "b")
    clients.enter("n")
    clients.settle_all()
    clients.depart("n")
    group, events = replay(clients.log, NAMED)
    conversions = [fact for fact in facts(events) if isinstance(fact, group_events.GroupConverted)]
    assert [(one.from_type, one.to_type, one.generation) for one in conversions] == [
        (GroupType.CLASSIC, GroupType.CONSUMER, 2),
        (GroupType.CONSUMER, GroupType.CLASSIC, 2),
    ]
    assert [fact.member_id for fact in facts(events) if fact.NAME == "member.left"] == ["n"]
    now = group.describe()
    assert (now["type"], now["state"], now["generation"]) == ("classic", "Stable", 2)
    assert sorted(one["member_id"] for one in now["members"]) == sorted(ids)


def test_24_conversions_of_empty_groups() -> None:
    """Epoch and generation begin anew, whatever they were before; the new group's first round is told."""
    clients = ConsumerClients()
    (member_id,) = clients.stable("a")
    for _ in range(2):
        clients.rejoin(member_id)
        clients.sync(member_id)
    clients.leave(member_id)
    clients.enter("n")
    _, events = replay(clients.log)
    assert names(events)[-4:] == [
        "group.converted",
        "rebalance.started",
        "member.joined",
        "rebalance.completed",
    ]
    assert facts(events)[-4].generation == 2
    clients.depart("n")
    clients.ask(joining("c"))
    group, events = replay(clients.log)
    assert (names(events)[-1], facts(events)[-1].generation) == ("group.converted", 0)
    assert (group.describe()["type"], group.describe()["state"]) == ("classic", "Empty")


@pytest.mark.parametrize("rest", [[1], []], ids=["another partition", "nothing of the topic"])
def test_25_two_owners_of_a_partition(rest: list[int]) -> None:
    """Compaction dropped "A gives up p0": A @11, B @12, A @13 with the rest; B has p0, nothing is raised."""
    history = [
        *operation(1_000, described("a"), described("b")),
        *operation(2_000, current("a", 11, [0])),
        *operation(3_000, current("b", 12, [0])),
        *operation(4_000, current("a", 13, rest)),
    ]
    group, events = replay(history, NAMED)
    held = {one["member_id"]: (one["epoch"], one["partitions"]) for one in group.describe()["members"]}
    assert held == {"a": (13, {"t": rest} if rest else {}), "b": (12, {"t": [0]})}
    assert events == []


@pytest.mark.parametrize("writer", [Share(), Streams(), None], ids=["share", "streams", "consumer"])
def test_26_tombstones_of_what_is_unknown(writer: Share | Streams | None) -> None:
    """Of every type, for a group and for members nobody knows: nothing is said and nothing remains."""
    tombstones = [*left("x"), *ended()] if writer is None else [*writer.left("x"), *writer.ended()]
    group, events = replay(operation(1_000, tombstones))
    assert (events, group.gone) == ([], True)
    group, events = replay([gone(at=5)])
    assert (events, group.gone) == ([], True)
    assert replay([no_offset("t", 0, at=5)])[1] == []


def test_27_a_share_group_is_empty_or_stable() -> None:
    """Whatever its epochs are; a leave raises the epoch."""
    write = Share()
    history = operation(1_000, write.described(Described("a", "c")), write.group_epoch(1, 7))
    assert state(history) == "Stable"
    history += operation(
        2_000,
        write.target("a", [0]),
        write.target_epoch(1),
        write.current("a", HeldPartitions(1, assigned=(0,))),
    )
    assert state(history) == "Stable"
    history += operation(3_000, write.left("a"), write.group_epoch(2, 7))
    group, events = replay(history)
    assert (group.describe()["state"], group.describe()["group_epoch"]) == ("Empty", 2)
    assert names(events)[-2:] == ["group.emptied", "member.left"]


def test_28_the_states_of_a_streams_group() -> None:
    """No topology, or one that was not validated: NotReady; then as a consumer group."""
    write = Streams()
    history = operation(1_000, write.described(Described("a", "c")), write.group_epoch(1, 7, validated=-1))
    seen = [state(history)]
    for at, record in (
        (2_000, write.topology(1)),
        (3_000, write.group_epoch(2, 7, validated=1)),
        (4_000, write.target_epoch(2)),
        (5_000, write.current("a", HeldPartitions(2, state=UNRELEASED))),
        (6_000, write.current("a", HeldPartitions(2, assigned=(0, 1)))),
    ):
        history += operation(at, record)
        seen.append(state(history))
    assert seen == ["NotReady", "NotReady", "Assigning", "Reconciling", "Reconciling", "Stable"]
    _, events = replay(history)
    assert names(events) == ["group.created", "rebalance.started", "member.joined", "rebalance.completed"]
    assert (facts(events)[-1].duration_ms, facts(events)[-1].members[0].partitions) == (5_000, {"0": "0-1"})


def test_29_subscribed_topics_of_a_streams_group() -> None:
    """Source and repartition topics of its topology, and none once it is Empty."""
    life = GroupWriter(kind="streams")
    life.join("a")
    assert replay(life.log)[0].describe()["subscribed_topics"] == ["again", "t"]
    life.leave("a")
    now = replay(life.log)[0].describe()
    assert (now["state"], now["subscribed_topics"]) == ("Empty", [])


def test_30_unknown_types_unknown_versions_and_nothing() -> None:
    """Type 255 and versions 1 and -1 are skipped with their number, no bytes are malformed; never a throw."""
    assert isinstance(decode_key(bytes.fromhex("00ff")), Skipped)
    key = decode_key(bytes.fromhex("0003000167"))
    assert not isinstance(key, Skipped | Malformed)
    for version in ("0001", "ffff"):
        assert isinstance(decode_value(key, bytes.fromhex(version + "00000005000000000000004d00")), Skipped)
    assert isinstance(decode_key(b""), Malformed)
    assert isinstance(decode_value(key, b""), Malformed)


def test_31_a_topic_is_deleted() -> None:
    """The coordinator writes tombstones for the offsets it drops; the others and the group stay."""
    history = [
        asked_for(at=1),
        *(commit(topic, 0, 5, at=10) for topic in ("kept", "gone")),
        commit("gone", 1, 6, at=20),
        no_offset("gone", 0, at=99),
        no_offset("gone", 1, at=99),
    ]
    assert offsets(history) == {("kept", 0): 5}
    assert state(history) == "Empty"
    # Another incarnation of the topic commits under the same name.
    assert offsets([*history, commit("gone", 0, 1, at=200)]) == {("gone", 0): 1, ("kept", 0): 5}


def test_32_a_simple_group_is_deleted() -> None:
    """Offset tombstones, then the group's, in one operation: deleted once, and nothing is left."""
    history = [commit("t", 0, 5, at=10), commit("t", 1, 5, at=20)]
    group, _ = replay(history)
    assert (group.describe()["simple"], group.describe()["state"]) == (True, "Empty")
    group, events = replay([*history, no_offset("t", 0, at=99), no_offset("t", 1, at=99), gone(at=99)])
    assert names(events) == ["offsets.deleted", "group.deleted"]
    assert facts(events)[1] == group_events.GroupDeleted(generation=None, since_ms=99)
    assert group.gone
