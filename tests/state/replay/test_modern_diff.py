"""Groups of the newer kinds, one operation after another; sequences as the coordinator writes them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupreplay.codecs.kafka_terms import GroupType
from groupreplay.state.events import group_events
from groupreplay.state.events.event import History
from groupreplay.state.replay.departure_reasons import FENCING_SLACK_MS, STAMP_LAG_MS
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
from support.histories.modern_builders import (
    TOPIC,
    UNRELEASED,
    UNREVOKED,
    current,
    described,
    ended,
    first_join,
    group_epoch,
    left,
    operation,
    resolved,
    target,
    target_epoch,
)


def second_join(at: int = 5_000) -> list:  # type: ignore[type-arg]
    """B joins: A must revoke partition 1, B waits for it; each step is an operation of its own."""
    return [
        *operation(
            at,
            described("b"),
            group_epoch(3),
            target("a", [0]),
            target("b", [1]),
            target_epoch(3),
            current("b", 3, [], state=UNRELEASED),
        ),
        *operation(at + 100, current("a", 2, [0], state=UNREVOKED, previous=2, revoking=[1])),
        *operation(at + 300, current("a", 3, [0], previous=2)),
        *operation(at + 500, current("b", 3, [1], previous=3)),
    ]


def test_a_duration_is_not_below_zero() -> None:
    """The clock of the coordinator went back by less than a minute, which sets no clock back."""
    history = [*first_join(), *second_join()]
    last = [replace(one, at=one.at - 30_000) if one.at == 5_500 else one for one in history]
    later = [replace(one, at=one.at + 60_000) for one in last]
    check([one for one in facts(replay(later)[1]) if hasattr(one, "duration_ms")][-1], duration_ms=0)


def test_a_second_join_takes_as_long_as_it_takes() -> None:
    """Started when the epoch rose, completed when the last member is reconciled; one partition moved."""
    _, events = replay([*first_join(), *second_join()])
    assert names(events)[4:] == ["rebalance.started", "member.joined", "rebalance.completed"]
    started, completed, started_ms = facts(events)[4], facts(events)[6], events[4].time_ms
    assert started == group_events.RebalanceStarted(
        rebalance_id=completed.rebalance_id,
        generation=3,
        trigger="member_joined",
        since_ms=started_ms,
        since_ms_earliest=started_ms,
    )
    check(completed, duration_ms=500, partitions_moved=1, joined=("b",))
    check(completed, previous_generation=2, skipped_generations=0)


def test_states_on_the_way() -> None:
    """Scenario 17: Reconciling until every member is stable at the target epoch."""
    whole = [*first_join(), *second_join()]
    by_length = {length: replay(whole[:length])[0].describe()["state"] for length in (5, 11, 12, 13, 14)}
    assert by_length == {5: "Stable", 11: "Reconciling", 12: "Reconciling", 13: "Reconciling", 14: "Stable"}


def test_an_epoch_that_was_overtaken() -> None:
    """A third member joins before the second one is settled: one rebalance, one epoch skipped."""
    history = [
        *first_join(),
        *second_join()[:6],
        *operation(5_050, described("c"), group_epoch(4), target_epoch(4), current("c", 4)),
        *operation(5_200, current("a", 4, [0]), current("b", 4, [1])),
    ]
    _, events = replay(history)
    assert names(events)[4:] == ["rebalance.started", "member.joined", "member.joined", "rebalance.completed"]
    assert (facts(events)[-1].skipped_generations, facts(events)[-1].joined) == (1, ("b", "c"))


@pytest.mark.parametrize(
    ("late_ms", "reason"),
    [
        (-STAMP_LAG_MS - 1, "unknown"),
        (-STAMP_LAG_MS, "rebalance_timeout"),
        (0, "rebalance_timeout"),
        (FENCING_SLACK_MS, "rebalance_timeout"),
    ],
)
def test_a_member_that_does_not_revoke_is_fenced(late_ms: int, reason: str) -> None:
    """Its timer was started before the record of the revocation was stamped: it may end a moment early by the log."""
    history = [*first_join(), *second_join()[:-2]]
    history += operation(5_100 + 30_000 + late_ms, left("a"), group_epoch(4))
    lost = next(fact for fact in facts(replay(history)[1]) if isinstance(fact, group_events.MemberLeft))
    assert (lost.reason, lost.elapsed_ms) == (reason, 30_000 + late_ms)


def test_a_member_leaves() -> None:
    """Tombstones 8, 7, 5 and a new epoch: the member left just after its last sign of life."""
    history = [*first_join(), *second_join()]
    history += operation(9_000, left("b"), group_epoch(4))
    history += operation(9_200, target("a", [0, 1]), target_epoch(4), current("a", 4, [0, 1], previous=3))
    _, events = replay(history)
    assert names(events)[7:] == ["rebalance.started", "member.left", "rebalance.completed"]
    assert facts(events)[7].trigger == "member_left"
    assert (facts(events)[8].reason, facts(events)[8].elapsed_ms) == ("left", 3_500)
    assert (facts(events)[9].duration_ms, facts(events)[9].partitions_moved) == (200, 1)


def test_the_last_member_leaves() -> None:
    """The epoch of an Empty group is above its target epoch: it stays Empty, without a rebalance."""
    group, events = replay([*first_join(), *operation(9_000, left("a"), group_epoch(3))])
    assert names(events)[4:] == ["group.emptied", "member.left"]
    # Nobody has said how long sessions are.
    assumed = {"session_timeout_ms": 45_000, "heartbeat_interval_ms": 5_000}
    check(facts(events)[5], reason="unknown", assumed=assumed)
    assert group.describe()["state"] == "Empty"


def test_an_emptied_group_is_deleted_with_its_offsets() -> None:
    """The clean-up writes the tombstones of offsets and group; the group existed until then."""
    history = [*first_join(), *operation(9_000, left("a"), group_epoch(3)), *operation(99_000, ended())]
    group, events = replay(history)
    assert names(events)[-1] == "group.deleted"
    assert (facts(events)[-1].generation, group.gone) == (3, True)


def test_a_changed_subscription_begins_a_rebalance() -> None:
    """Also one by regular expression, whose topics are in a record of their own."""
    history = [*first_join(topics=(), regex="t.*"), *operation(2_000, resolved("t.*", "t1", "t2"))]
    group, events = replay(history)
    assert group.describe()["subscribed_topics"] == ["t1", "t2"]
    history += operation(
        9_000, described("a", topics=["u"], regex=""), group_epoch(3), target_epoch(3), current("a", 3, [0])
    )
    _, events = replay(history)
    assert facts(events)[-1].trigger == "subscription_changed"


def test_topic_ids_become_names_where_the_log_tells() -> None:
    """A topic without a known name has its id, in Kafka's text form; the job may know names, too."""
    group, _ = replay(first_join())
    assert group.describe()["members"][0]["partitions"] == {TOPIC: [0, 1]}
    group, events = replay(first_join(), replace(CONTEXT, topic_names={TOPIC: "orders"}))
    assert group.describe()["members"][0]["partitions"] == {"orders": [0, 1]}
    assert facts(events)[3].members[0].partitions == {"orders": "0-1"}


def test_an_upgrade_is_a_conversion() -> None:
    """Scenario 23: the group does not exist for a moment inside one operation, and no member has left."""
    history = [
        asked_for(at=10),
        generation(1, member("a", [0], topic="t"), at=20),
        commit("t", 0, 5, at=30),
        *operation(
            5_000,
            gone(),
            described("a", classic=True),
            group_epoch(1),
            target("a", [0, 1]),
            target_epoch(1),
            current("a", 1, [0, 1], previous=1),
            described("b"),
            group_epoch(2),
            target("b", []),
            target_epoch(2),
            current("b", 2),
        ),
    ]
    group, events = replay(history)
    assert names(events)[3:] == ["group.converted", "rebalance.started", "member.joined", "member.updated"]
    assert facts(events)[3] == group_events.GroupConverted(
        from_type=GroupType.CLASSIC, to_type=GroupType.CONSUMER, generation=2, since_ms=5_000
    )
    assert facts(events)[4].trigger == "member_joined"
    assert [offset["offset"] for offset in group.describe()["offsets"]] == [5]
    assert group.describe()["state"] == "Reconciling"


def test_a_partial_history_claims_nothing_about_members() -> None:
    """Compaction has left records of different times: no events until two epochs follow each other."""
    history = [
        *operation(1_000, described("a")),
        *operation(2_000, group_epoch(9)),
        *operation(3_000, current("a", 9, [0])),
        *operation(4_000, target_epoch(9)),
    ]
    group, events = replay(history)
    assert events == []
    assert (group.describe()["state"], group.describe()["history"]) == ("Stable", "partial")
    history += operation(5_000, described("b"), group_epoch(10), target_epoch(10), current("b", 10))
    history += operation(5_100, current("a", 10, [0]))
    group, events = replay(history)
    assert names(events) == ["rebalance.started", "member.joined", "rebalance.completed"]
    assert (facts(events)[2].joined, facts(events)[2].previous_generation) == (("b",), None)


def test_two_owners_of_one_partition() -> None:
    """Scenario 25: compaction removed the record of A's revocation; the owner with the larger epoch wins."""
    history = [
        *first_join(),
        *operation(2_000, described("b"), group_epoch(3), target_epoch(3), current("b", 3, [0])),
        *operation(3_000, current("a", 3, [1])),
    ]
    group, events = replay(history)
    completed = [fact for fact in facts(events) if isinstance(fact, group_events.RebalanceCompleted)]
    assert completed[-1].generation == 3
    assert [one["partitions"] for one in group.describe()["members"]] == [{TOPIC: [1]}, {TOPIC: [0]}]


def test_a_classic_tombstone_does_not_touch_a_consumer_group() -> None:
    """The tombstone of a former group may come late: the newest value decides the kind of the group."""
    group, _ = replay([*first_join(), gone(at=9_000)])
    assert (group.describe()["type"], group.describe()["state"]) == ("consumer", "Stable")


def test_a_record_written_again_is_no_event() -> None:
    """A waiting member's heartbeat repeats its record with another previous epoch."""
    history = [*first_join(), *second_join()[:6]]
    quiet = replay(history)[1]
    again = operation(5_050, current("b", 3, [], state=UNRELEASED, previous=3))
    assert replay([*history, *again])[1] == quiet


def test_a_conversion_of_an_old_empty_group_begins_a_rebalance() -> None:
    """The generation of the classic group is above the first epoch, and is not compared with it."""
    history = [asked_for(at=10), emptied(8, at=20), *operation(50, gone(), first_join(at=50))]
    _, events = replay(history)
    assert names(events)[1:] == [
        "group.converted",
        "rebalance.started",
        "member.joined",
        "rebalance.completed",
    ]


def test_an_old_commit_is_no_classic_group() -> None:
    """Compaction leaves commits that are older than all records of their group: this is not a conversion."""
    _, events = replay([commit("t", 0, 5, at=10), *operation(1_000, described("a")), *first_join(at=2_000)])
    assert "group.converted" not in names(events)


def test_a_log_that_begins_inside_a_rebalance_does_not_say_when_it_began() -> None:
    """The next epoch continues it: no start and no duration, until a rebalance is read from its start."""
    history = [
        *operation(1_000, described("a"), described("b"), group_epoch(7), target_epoch(7)),
        *operation(1_100, current("a", 7, [0]), current("b", 7, state=UNRELEASED)),
        *operation(2_000, left("b"), group_epoch(8)),
        *operation(2_500, target("a", [0, 1]), target_epoch(8), current("a", 8, [0, 1])),
    ]
    _, events = replay(history)
    assert names(events) == ["member.left"]
    history += operation(3_000, described("c"), group_epoch(9), target_epoch(9), current("c", 9))
    history += operation(3_100, current("a", 9, [0, 1]))
    _, events = replay(history)
    assert names(events)[1:] == ["rebalance.started", "member.joined", "rebalance.completed"]
    assert (facts(events)[-1].duration_ms, facts(events)[-1].previous_generation) == (100, None)


def test_an_epoch_that_is_missing_is_a_hole() -> None:
    """The coordinator writes every epoch: a jump means compaction, and members are not compared."""
    history = [*first_join(), *operation(9_000, described("b"), group_epoch(6), target_epoch(6))]
    group, events = replay(history)
    assert names(events)[4:] == []
    assert group.describe()["history"] == "partial"


def test_a_deletion_is_told_with_the_history_it_ends() -> None:
    """The history up to the group's deletion is complete; the next group begins with its own history."""
    _, events = replay(
        [*first_join(), *operation(9_000, left("a"), group_epoch(3)), *operation(9_500, ended())]
    )
    assert (names(events)[-1], events[-1].history) == ("group.deleted", History.FULL)
