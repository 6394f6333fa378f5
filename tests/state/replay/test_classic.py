"""Events of classic groups, one history per test."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupreplay.state.events import group_events
from groupreplay.state.events.event import Evidence, History, MemberForm, MemberPicture
from groupreplay.state.snapshot.members import read_members, rebalance_timeout_ms
from support.histories.builders import (
    CONTEXT,
    asked_for,
    check,
    commit,
    emptied,
    facts,
    generation,
    gone,
    member,
    names,
    replay,
)

#: The clients of ``member("a")`` and ``member("bb")``.
CLIENT_A = {"client_id": "client-a", "client_host": "/10.0.0.1", "instance_id": None}
CLIENT_BB = {"client_id": "client-bb", "client_host": "/10.0.0.2", "instance_id": None}
#: What every member of these histories asks for.
ASKED = {"session_timeout_ms": 45_000, "rebalance_timeout_ms": 300_000, "topics": ("t",)}


def test_a_life_from_the_first_join_to_the_deletion() -> None:
    """Created, one member, a second, one leaves, the other leaves, deleted: each event once, in order."""
    group, events = replay(
        [
            asked_for(at=1_000),
            generation(1, member("a", [0, 1]), at=2_000),
            generation(2, member("a", [0]), member("bb", [1]), at=5_000),
            generation(3, member("bb", [0, 1]), at=9_000),
            emptied(4, at=12_000),
            gone(at=20_000),
        ]
    )
    assert names(events) == [
        "group.created",
        "rebalance.completed",
        "member.joined",
        "rebalance.completed",
        "member.joined",
        "rebalance.completed",
        "member.left",
        "group.emptied",
        "member.left",
        "group.deleted",
    ]
    assert facts(events)[0] == group_events.GroupCreated(generation=0, since_ms=1_000)
    check(facts(events)[6], member_id="a", **CLIENT_A, reason="left", elapsed_ms=3_990, unplanned=False)
    assert facts(events)[7] == group_events.GroupEmptied(generation=4, since_ms=12_000)
    assert facts(events)[9] == group_events.GroupDeleted(generation=4, since_ms=20_000)
    assert {event.history for event in events} == {History.FULL}
    # That the application polls is seen by its commits only, and it has none.
    assert {event.evidence for event in events if event.fact.NAME != "member.left"} == {Evidence.LOG}
    assert group.gone


def test_a_completed_rebalance_in_full() -> None:
    """Every field of a second generation: members that joined and stayed, durations, moved partitions."""
    _, events = replay(
        [
            asked_for(at=1_000),
            generation(1, member("a", [0, 1, 2]), at=2_000),
            generation(2, member("a", [0]), member("bb", [1]), at=5_000, since=4_960, leader="a"),
        ]
    )
    assert facts(events)[3] == group_events.RebalanceCompleted(
        rebalance_id="era-1-3-102",
        generation=2,
        previous_generation=1,
        skipped_generations=0,
        protocol_type="consumer",
        protocol="range",
        previous_protocol="range",
        leader="a",
        previous_leader="a",
        rebalance_timeout_ms=300_000,
        rebalance_timeout_member="a",
        members=(
            MemberPicture(member_id="a", **CLIENT_A, **ASKED, partitions={"t": "0"}),
            MemberPicture(member_id="bb", **CLIENT_BB, **ASKED, partitions={"t": "1"}),
        ),
        member_count=2,
        joined=("bb",),
        left=(),
        kept=("a",),
        gone=(),
        trigger="member_joined",
        sync_ms=40,
        silent_ms=None,
        join_ms_min=None,
        join_ms_max=None,
        duration_ms=None,
        duration_upper_bound_ms=2_960,
        partitions_moved=1,
        partitions_unassigned=1,
    )


def test_the_log_begins_in_the_middle() -> None:
    """A first record with generation 7 has unknown members before it; the next generation is exact."""
    _, events = replay(
        [generation(7, member("a", [0]), at=1_000), generation(8, member("a"), member("bb", [0]), at=2_000)]
    )
    first, second = (event for event in events if event.fact.NAME == "rebalance.completed")
    assert first.history is History.PARTIAL
    unknown = dict.fromkeys(("joined", "left", "kept", "previous_generation", "skipped_generations"))
    check(first.fact, **unknown, trigger="unknown", partitions_moved=None)
    assert second.history is History.FULL
    check(second.fact, joined=("bb",), left=(), kept=("a",), partitions_moved=1)


def test_a_hole_in_a_partial_history_claims_nothing() -> None:
    """Generation 7, then 12: compaction may have removed four records; none is reported as skipped."""
    _, events = replay(
        [generation(7, member("a", [0]), at=1_000), generation(12, member("bb", [0]), at=2_000)]
    )
    assert names(events) == ["rebalance.completed", "rebalance.completed"]
    assert events[1].history is History.PARTIAL
    check(facts(events)[1], skipped_generations=None, joined=None, previous_generation=7)


def test_an_older_coordinator_begins_with_generation_1() -> None:
    """The Scala coordinator wrote no record at creation: generation 1 is a beginning, too."""
    _, events = replay([generation(1, member("a", [0]), at=100)])
    assert events[0].history is History.FULL
    check(facts(events)[0], joined=("a",), trigger="first_join", skipped_generations=None)


def test_a_static_member_comes_back() -> None:
    """Same generation, same instance id, new member id: a replacement, no rebalance and no new state."""
    group, events = replay(
        [
            asked_for(at=1),
            generation(1, member("i-old", [0], instance_id="i", client_id="c", host="/h1"), at=100),
            generation(
                1, member("i-new", [0], instance_id="i", client_id="c", host="/h2"), at=900, since=101
            ),
        ]
    )
    assert facts(events)[3:] == [
        group_events.StaticReplaced(
            instance_id="i", old_member_id="i-old", new_member_id="i-new", old_host="/h1", new_host="/h2"
        )
    ]
    check(group.describe(), state="Stable", since_ms=100)


def test_a_sync_written_twice_says_nothing() -> None:
    """A leader that repeats its SyncGroup makes a second record with the same content."""
    record = generation(1, member("a", [0]), at=100)
    _, events = replay([asked_for(at=1), record, replace(record, at=105)])
    assert names(events) == ["group.created", "rebalance.completed", "member.joined"]


def test_a_restarted_member_keeps_its_slot() -> None:
    """A new member id at a client id and host that is unique in both generations: kept, nothing moved."""
    _, events = replay(
        [
            asked_for(at=1),
            generation(1, member("c-1", [0, 1], client_id="c", host="/h"), at=100),
            generation(2, member("c-2", [0, 1], client_id="c", host="/h"), at=900),
        ]
    )
    completed = facts(events)[3]
    check(completed, joined=(), left=(), kept=("c-2",), trigger="members_changed", partitions_moved=0)
    client = {"client_id": "c", "client_host": "/h", "instance_id": None}
    assert facts(events)[4] == group_events.MemberUpdated(
        member_id="c-2",
        **client,
        changed=("member_id",),
        old=MemberForm(member_id="c-1", **client, **ASKED),
        new=MemberForm(member_id="c-2", **client, **ASKED),
    )


def test_owners_are_remembered_through_an_empty_group() -> None:
    """All members stop and start again: partitions that return to the same slot have not moved."""
    _, events = replay(
        [
            asked_for(at=1),
            generation(1, member("a-1", [0], client_id="a"), member("b-1", [1], client_id="b"), at=100),
            emptied(2, at=500),
            generation(3, member("a-2", [1], client_id="a"), member("b-2", [0], client_id="b"), at=900),
            emptied(4, at=1_500),
            generation(5, member("a-3", [1], client_id="a"), member("b-3", [0], client_id="b"), at=1_900),
        ]
    )
    rounds = [fact for fact in facts(events) if isinstance(fact, group_events.RebalanceCompleted)]
    assert [(fact.trigger, fact.partitions_moved) for fact in rounds] == [
        ("first_join", 0),
        ("first_join", 2),
        ("first_join", 0),
    ]


def test_a_cooperative_rebalance_moves_a_partition_once() -> None:
    """Revoked in one generation, assigned in the next: one move, counted when the partition has its new owner."""
    _, events = replay(
        [
            asked_for(at=1),
            generation(1, member("a", [0, 1]), at=100),
            generation(2, member("a", [0]), member("bb"), at=200),
            generation(3, member("a", [0]), member("bb", [1]), at=300),
        ]
    )
    rounds = [fact for fact in facts(events) if isinstance(fact, group_events.RebalanceCompleted)]
    assert [(fact.trigger, fact.partitions_moved, fact.partitions_unassigned) for fact in rounds] == [
        ("first_join", 0, 0),
        ("member_joined", 0, 1),
        ("cooperative_followup", 1, 0),
    ]


def test_a_commit_is_a_sign_of_life() -> None:
    """Ten minutes after its generation a member can only have left by itself if it committed just before."""
    history = [
        asked_for(at=1),
        generation(1, member("a", [0]), member("bb", [1]), at=1_000),
        commit("t", 1, 5, at=598_000),
        generation(2, member("a", [0, 1]), at=600_000),
    ]
    _, events = replay(history)
    left = next(fact for fact in facts(events) if isinstance(fact, group_events.MemberLeft))
    assert (left.member_id, left.reason, left.elapsed_ms) == ("bb", "left", 1_990)
    _, events = replay([*history[:2], history[3]])
    left = next(fact for fact in facts(events) if isinstance(fact, group_events.MemberLeft))
    assert (left.reason, left.elapsed_ms) == ("unknown", 598_990)


def test_a_join_that_came_to_nothing() -> None:
    """Members joined and left without an assignment: the group is still Empty, and no event is emitted."""
    group, events = replay([asked_for(at=1), emptied(2, at=900)])
    assert names(events) == ["group.created"]
    assert (group.describe()["state"], group.describe()["generation"]) == ("Empty", 2)


def test_a_group_tombstone_leaves_offsets_alone() -> None:
    """Offsets have their own tombstones: without these they are kept after the group is deleted."""
    group, events = replay([asked_for(at=1), commit("t", 0, 5, at=2), gone(at=9)])
    assert names(events) == ["group.created", "group.deleted"]
    assert group.describe()["state"] == "Dead"
    assert [offset["offset"] for offset in group.describe()["offsets"]] == [5]
    assert not group.gone


def test_a_group_begins_again_after_its_deletion() -> None:
    """Generations restart at 0, and the history of the new group is complete."""
    _, events = replay(
        [
            generation(9, member("a", [0]), at=10),
            gone(at=20),
            asked_for(at=30),
            generation(1, member("a", [0]), at=40),
        ]
    )
    assert names(events) == [
        "rebalance.completed",
        "group.deleted",
        "group.created",
        "rebalance.completed",
        "member.joined",
    ]
    assert facts(events)[3].joined == ("a",)


def test_a_restart_whose_deletion_was_compacted_away() -> None:
    """A lower generation belongs to a new group: with 0 and 1 its history is complete, else partial."""
    _, events = replay([generation(9, member("a", [0]), at=10), generation(3, member("bb", [0]), at=20)])
    assert events[1].history is History.PARTIAL
    assert (facts(events)[1].previous_generation, facts(events)[1].joined) == (None, None)


def test_a_simple_group_is_created_by_its_first_commit() -> None:
    """The creation is known only where the whole log before it was read: the job passes that time."""
    history = [commit("t", 0, 5, at=50_000)]
    group, events = replay(history, replace(CONTEXT, complete_since_ms=40_000))
    assert facts(events) == [group_events.GroupCreated(generation=None, since_ms=50_000)]
    assert (events[0].simple, events[0].cause.offset) == (True, 100)
    assert (group.describe()["state"], group.describe()["simple"]) == ("Empty", True)
    for unknown in (None, 50_001):
        _, events = replay(history, replace(CONTEXT, complete_since_ms=unknown))
        assert events == []


def test_events_before_the_first_start_are_silent() -> None:
    """The state is built from the whole log, but only events from the first start on are emitted."""
    history = [
        asked_for(at=1_000),
        generation(1, member("a", [0]), at=2_000),
        generation(2, member("a", [0]), member("bb"), at=5_000),
    ]
    _, events = replay(history, replace(CONTEXT, emit_since_ms=5_000))
    assert names(events) == ["rebalance.completed", "member.joined"]
    assert facts(events)[0].joined == ("bb",)


def test_member_events_are_off_by_default() -> None:
    """The event of the rebalance has the members; ids of other events do not depend on the switch."""
    history = [asked_for(at=1), generation(1, member("i1", [0], instance_id="i"), at=2)]
    history += [generation(2, member("i2", [0], instance_id="i"), member("bb"), at=3)]
    _, loud = replay(history)
    _, quiet = replay(history, replace(CONTEXT, member_events=False))
    assert quiet == [
        event
        for event in loud
        if not isinstance(
            event.fact, group_events.MemberJoined | group_events.MemberUpdated | group_events.MemberLeft
        )
    ]
    assert names(quiet) == ["group.created", "rebalance.completed", "rebalance.completed", "static.replaced"]


def test_a_group_of_another_protocol_type() -> None:
    """Connect's blobs are not read as subscriptions: partitions and moves are unknown, the rebalance is known."""
    worker = replace(member("w"), subscription=b"\x00\x01whatever", assignment=b"\xff")
    group, events = replay([generation(1, worker, at=5, protocol_type="connect")])
    assert (facts(events)[0].members[0].partitions, facts(events)[0].partitions_moved) == (None, None)
    assert group.describe()["subscribed_topics"] is None


def test_an_undecodable_assignment_does_not_fail_the_record() -> None:
    """A member whose blobs are damaged is a member all the same."""
    bad = replace(member("a", [0]), assignment=b"\x00\x01\x7f\xff\xff\xff", subscription=b"\x00")
    group, events = replay([generation(1, bad, member("bb", [1]), at=5)])
    assert [picture.partitions for picture in facts(events)[0].members] == [None, {"t": "1"}]
    assert group.describe()["subscribed_topics"] is None


def test_leader_and_timeouts_as_the_coordinator_loads_them() -> None:
    """No leader: the first member of the record. Rebalance timeout -1: the session timeout."""
    both = (member("m-0", rebalance_ms=-1, session_ms=4_000), member("m-1", rebalance_ms=9_000))
    record = generation(1, *both, at=7, since=-1)
    record = replace(record, value=replace(record.value, leader=None))
    members = read_members(record.value)
    assert [one.rebalance_timeout_ms for one in members] == [4_000, 9_000]
    assert rebalance_timeout_ms(members) == 9_000
    group, events = replay([record])
    assert group.describe()["leader"] == "m-0"
    assert (facts(events)[0].sync_ms, facts(events)[0].duration_upper_bound_ms) == (None, None)


@pytest.mark.parametrize("number", [1, 7])
def test_a_static_member_in_the_first_record_may_have_been_replaced(number: int) -> None:
    """Its record replaces that of the rebalance; after compaction the two cannot be distinguished."""
    _, events = replay([generation(number, member("i-2", [0], instance_id="i"), at=90_000, since=1_000)])
    assert names(events) == ["rebalance.completed"]
    assert (events[0].history, events[0].evidence) == (History.PARTIAL, Evidence.INFERRED)
    assert (facts(events)[0].joined, facts(events)[0].sync_ms) == (None, None)


def test_an_empty_first_generation_is_no_creation() -> None:
    """The group was created with generation 0; that record may have been cleaned away."""
    group, events = replay([emptied(1, at=90_000)])
    assert (names(events), group.describe()["history"]) == ([], "full")


def test_owners_before_the_log_begins_are_not_known() -> None:
    """A partition without an owner in the first record may have had one: not moved, not new, not unassigned."""
    _, events = replay(
        [
            generation(7, member("a", [0]), at=1_000),
            generation(8, member("a", [0, 1]), at=2_000),
            generation(9, member("a", [0, 1, 2]), at=3_000),
        ]
    )
    rounds = [(fact.trigger, fact.partitions_moved, fact.partitions_unassigned) for fact in facts(events)]
    assert rounds == [("unknown", None, None), ("unknown", None, None), ("metadata_changed", 0, 0)]
