"""Offsets that are removed, committed again or go back: the reason, one event per occasion."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupreplay.state import Context, Event, Evidence, Group, Severity
from groupreplay.state.events.offset_events import (
    OffsetRewound,
    OffsetsDeleted,
    OffsetsExpired,
    OffsetsReset,
    PartitionOffset,
    ResetOffset,
    RewoundOffset,
)
from groupreplay.state.policy.rules import GroupRule, Policy
from groupreplay.state.replay.offset_losses import MEMORY_MS, MOST_REMEMBERED
from groupreplay.state.snapshot.observations import CommitRun
from state.conditions.test_offsets_expiring import static
from support.histories.builders import (
    CONTEXT,
    GROUP,
    Raw,
    asked_for,
    check,
    commit,
    emptied,
    generation,
    gone,
    member,
    names,
    no_offset,
    observed,
    placed,
    replay,
)
from support.histories.modern_builders import first_join, left, operation

MINUTE = 60_000
DAY = 24 * 3_600_000
SHORT = replace(CONTEXT, retention_ms=MINUTE)
MISSED = replace(SHORT, policy=Policy(groups=(GroupRule(groups="*", matters=True),)))
EMPTY = [generation(1, member("a", [0]), at=1), commit("t", 0, 5, at=2), emptied(2, at=1_000)]


def said(history: list[Raw], context: Context = SHORT) -> list[Event]:
    """The events about offsets, without conditions."""
    _, events = replay(history, context)
    kinds = (OffsetsExpired, OffsetsDeleted, OffsetsReset, OffsetRewound)
    return [event for event in events if isinstance(event.fact, kinds)]


def reasons(history: list[Raw], context: Context = SHORT) -> list[tuple[str, str, Evidence]]:
    """Event, reason and evidence of every loss."""
    return [(event.fact.NAME, event.fact.reason, event.evidence) for event in said(history, context)]  # type: ignore[attr-defined]


def test_expired_with_everything_there_is_to_tell() -> None:
    """Several partitions of one clean-up are one event, by topic and partition; late from the deadline on."""
    history = [*EMPTY, commit("a", 1, 7, at=2_000)]
    at = 1_000 + MINUTE + 700
    (event,) = said([*history, no_offset("t", 0, at=at), no_offset("a", 1, at=at), gone(at=at)])
    assert event.fact == OffsetsExpired(
        partitions=(
            PartitionOffset(topic="a", partition=1, offset=7),
            PartitionOffset(topic="t", partition=0, offset=5),
        ),
        partition_count=2,
        reason="retention",
        deadline_ms=1_000 + MINUTE,
        late_ms=700,
        check_interval_ms=600_000,
        rule="classic, Empty",
        base="emptied",
        assumed={"check_interval_ms": 600_000},
        matters=False,
    )
    assert (event.evidence, event.severity) == (Evidence.LOG, Severity.INFO)


@pytest.mark.parametrize(("early", "name"), [(5_000, "offsets.expired"), (5_001, "offsets.deleted")])
def test_only_when_the_clock_agrees(early: int, name: str) -> None:
    """Clocks of brokers may differ by five seconds, not by more."""
    at = 1_000 + MINUTE - early
    assert [event.fact.NAME for event in said([*EMPTY, no_offset("t", 0, at=at)])] == [name]


def test_one_offset_that_was_not_due_proves_a_deletion() -> None:
    """The clean-up removes nothing before its deadline, so the offset that was due was deleted, too."""
    history = [commit("t", 0, 5, at=1), commit("t", 1, 6, at=MINUTE)]
    at = MINUTE + 9_000
    (event,) = said([*history, no_offset("t", 0, at=at), no_offset("t", 1, at=at)])
    assert event.fact == OffsetsDeleted(
        partitions=(
            PartitionOffset(topic="t", partition=0, offset=5),
            PartitionOffset(topic="t", partition=1, offset=6),
        ),
        partition_count=2,
        reason="unknown",
        deadline_ms=MINUTE + 1,
    )


def test_a_retention_that_nobody_told() -> None:
    """Kafka's default is used, and the evidence is that of an assumption."""
    history = [commit("t", 0, 5, at=1), no_offset("t", 0, at=7 * DAY + 1)]
    assert reasons(history, CONTEXT) == [("offsets.expired", "retention", Evidence.INFERRED)]


def test_a_group_that_is_deleted() -> None:
    """The group's tombstone is in the operation."""
    history = [*EMPTY, no_offset("t", 0, at=9_000), gone(at=9_000)]
    assert reasons(history) == [("offsets.deleted", "group_deleted", Evidence.LOG)]


def test_a_topic_that_its_members_are_subscribed_to() -> None:
    """The broker would have refused a request: only the deletion of the topic removes such offsets."""
    history = [generation(1, member("a", [0]), at=1), commit("t", 0, 5, at=2), no_offset("t", 0, at=9_000)]
    assert reasons(history) == [("offsets.deleted", "topic_deleted", Evidence.LOG)]
    modern = [*first_join(at=1), commit("t", 0, 5, at=2), no_offset("t", 0, at=9_000)]
    assert reasons(modern) == [("offsets.deleted", "topic_deleted", Evidence.LOG)]


def test_a_topic_of_members_that_subscribe_to_nothing() -> None:
    """The broker refuses to delete offsets of a group with workers."""
    workers = [generation(1, member("a"), at=1, protocol_type="connect"), commit("t", 0, 5, at=2)]
    assert reasons([*workers, no_offset("t", 0, at=9_000)]) == [
        ("offsets.deleted", "topic_deleted", Evidence.LOG)
    ]


@pytest.mark.parametrize("known", [{}, {"1": "t"}, {"1": "other"}])
def test_a_topic_that_nobody_is_subscribed_to(known: dict[str, str]) -> None:
    """A request and the deletion of the topic look alike; a login may not see all topics of the cluster."""
    context = replace(SHORT, topic_names=known)
    assert reasons([*EMPTY, no_offset("t", 0, at=9_000)], context) == [
        ("offsets.deleted", "unknown", Evidence.INFERRED)
    ]


def test_a_part_of_a_topic() -> None:
    """The deletion of a topic removes all of its offsets."""
    context = replace(SHORT, topic_names={"1": "other"})
    history = [*EMPTY, commit("t", 1, 5, at=2_000), no_offset("t", 0, at=9_000)]
    assert reasons(history, context) == [("offsets.deleted", "admin", Evidence.INFERRED)]


def test_what_nobody_has_seen_is_not_lost() -> None:
    """Compaction may have removed the value of a tombstone."""
    assert said([asked_for(at=1), no_offset("t", 0, at=9_000)]) == []


def test_a_member_that_leaves_after_a_week_of_silence() -> None:
    """Its offsets were due long ago; the delay counts from the group's last record."""
    history = [*first_join(at=1_000), commit("t", 0, 5, at=2_000)]
    history += [*operation(10 * MINUTE, left("a")), no_offset("t", 0, at=10 * MINUTE + 300)]
    (event,) = said(history)
    check(event.fact, NAME="offsets.expired", deadline_ms=2_000 + MINUTE, late_ms=300)


def test_a_loss_of_a_group_that_matters_is_a_warning() -> None:
    """By policy here; ``test_group_activity`` has the other rules."""
    history = [*EMPTY, no_offset("t", 0, at=9_000), gone(at=9_000)]
    assert [event.severity for event in said(history, MISSED)] == [Severity.WARN]
    assert [event.severity for event in said(history)] == [Severity.INFO]


def test_an_expiry_in_a_group_that_matters_is_an_error() -> None:
    """By its history or by rules; in other groups it is counted for the day."""
    history = [*EMPTY, no_offset("t", 0, at=1_000 + MINUTE), gone(at=1_000 + MINUTE)]
    unmissed = replace(SHORT, policy=Policy(groups=(GroupRule(groups="*", matters=False),)))
    found = [
        (event.severity, event.fact.matters)  # type: ignore[attr-defined]
        for context in (MISSED, SHORT, unmissed)
        for event in said(history, context)
    ]
    assert found == [(Severity.ERROR, True), (Severity.INFO, False), (Severity.INFO, False)]


def lost_and_back(new_offset: int, *, context: Context = MISSED, after: int = 9_000) -> list[Event]:
    """An offset 5 that expired, and a first commit afterwards."""
    at = 1_000 + MINUTE
    return said([*EMPTY, no_offset("t", 0, at=at), commit("t", 0, new_offset, at=at + after)], context)[1:]


@pytest.mark.parametrize(("new_offset", "direction"), [(9, "forward"), (0, "backward"), (5, "unchanged")])
def test_the_first_commit_after_a_loss(new_offset: int, direction: str) -> None:
    """The direction of the first commit after a loss."""
    (event,) = lost_and_back(new_offset)
    assert event.fact == OffsetsReset(
        partitions=(ResetOffset(topic="t", partition=0, lost_offset=5, new_offset=new_offset),),
        partition_count=1,
        direction=direction,  # type: ignore[arg-type]
        reason="retention",
        lost_ms=1_000 + MINUTE,
    )
    assert (event.severity, event.evidence) == (Severity.WARN, Evidence.LOG)


def test_a_reset_is_said_once() -> None:
    """The second commit is progress; another loss is another occasion."""
    history = [
        *EMPTY,
        no_offset("t", 0, at=9_000),
        commit("t", 0, 1, at=10_000),
        commit("t", 0, 2, at=11_000),
    ]
    assert [event.fact.NAME for event in said(history)] == ["offsets.deleted", "offsets.reset"]


def test_one_request_is_one_occasion() -> None:
    """Partitions that are committed again at one moment are one event, in both directions."""
    history = [commit("t", number, 10 * number, at=1 + number) for number in range(3)]
    history += [no_offset("t", number, at=9_000) for number in range(3)]
    history += [commit("t", number, 10, at=20_000) for number in range(3)]
    *_, event = said(history)
    assert isinstance(event.fact, OffsetsReset)
    assert (event.fact.partition_count, event.fact.direction) == (3, "mixed")
    assert [one.lost_offset for one in event.fact.partitions] == [0, 10, 20]


def test_a_topic_that_begins_anew_is_no_warning() -> None:
    """The records of the topic do not exist any more; none was skipped."""
    history = [generation(1, member("a", [0]), at=1), commit("t", 0, 5, at=2), no_offset("t", 0, at=9_000)]
    *_, event = said([*history, commit("t", 0, 1, at=9_500)], MISSED)
    assert (event.fact.NAME, event.severity) == ("offsets.reset", Severity.INFO)


def test_a_loss_is_remembered_for_thirty_days() -> None:
    """Also when the group does not exist any more; then nothing is left."""
    at = 1_000 + MINUTE
    history = [*EMPTY, no_offset("t", 0, at=at), gone(at=at)]
    group, _ = replay(history, MISSED)
    assert (group.gone, group.next_deadline_ms()) == (False, at + MEMORY_MS)
    group = Group.from_snapshot(GROUP, MISSED, group.snapshot())
    group.expire(at + MEMORY_MS - 1)
    assert not group.gone
    group.expire(at + MEMORY_MS)
    assert group.gone
    (back,) = observed(placed([commit("t", 0, 1, at=at + MEMORY_MS)], first=900)).items
    assert isinstance(back, CommitRun)
    assert [event.fact.NAME for event in said([*history, commit("t", 0, 1, at=at + 29 * DAY)], MISSED)] == [
        "offsets.expired",
        "offsets.reset",
    ]
    assert [event.fact.NAME for event in said([*history, commit("t", 0, 1, at=at + 30 * DAY)], MISSED)] == [
        "offsets.expired"
    ]


def test_groups_that_come_and_go_leave_no_memory() -> None:
    """Thousands of short-lived groups a day must not be kept for a month."""
    group, _ = replay([*EMPTY, no_offset("t", 0, at=9_000), gone(at=9_000)], SHORT)
    assert group.gone


def test_the_memory_is_bounded() -> None:
    """A limited number of partitions per group is kept; the event of the loss counts all of them."""
    many = range(MOST_REMEMBERED + 50)
    history = [commit("t", number, 1, at=1) for number in many]
    history += [no_offset("t", number, at=9_000) for number in many]
    events = said([*history, *(commit("t", number, 0, at=20_000) for number in many)])
    counts = [event.fact.partition_count for event in events]  # type: ignore[attr-defined]
    assert counts == [len(many), MOST_REMEMBERED]


def test_a_rewind_inside_one_batch() -> None:
    """100 -> 50 -> 120: the reader folds them into one row, and the decrease is still reported."""
    (event,) = said([commit("t", 0, offset, at=at) for at, offset in ((1, 100), (2, 50), (3, 120))])
    assert event.fact == OffsetRewound(
        kind="small",
        partitions=(RewoundOffset(topic="t", partition=0, old_offset=100, new_offset=50),),
        partition_count=1,
    )
    assert (event.time_ms, event.cause and event.cause.offset) == (2, 102)


def test_a_rewind_between_two_batches() -> None:
    """The first commit of a run is compared with the known offset, also after a restart."""
    records = placed([commit("t", 0, 9_000, at=1), commit("t", 0, 50, at=2)])
    group = Group(GROUP, CONTEXT)
    assert group.apply(observed(records[:1]), 2) == []
    group = Group.from_snapshot(GROUP, CONTEXT, group.snapshot())
    assert group.apply(observed(records[1:]), 2) == []
    group = Group.from_snapshot(GROUP, CONTEXT, group.snapshot())
    assert group.next_deadline_ms() == 3
    (event,) = group.expire(3)
    rewound = RewoundOffset(topic="t", partition=0, old_offset=9_000, new_offset=50)
    check(event.fact, NAME="offset.rewound", kind="other", partitions=(rewound,))


def test_a_group_of_which_nothing_but_commits_is_known() -> None:
    """It may have members, whose record comes later in a compacted log: nobody says that it has none."""
    (event,) = said([commit("t", 0, 9_000, at=1), commit("t", 0, 5, at=2)])
    check(event.fact, NAME="offset.rewound", kind="other")


def test_a_topic_with_another_id() -> None:
    """A topic that was created again with the same name begins at 0."""
    group = Group(GROUP, CONTEXT)
    events = []
    for number, raw in enumerate(placed([commit("t", 0, 9_000, at=1), commit("t", 0, 5, at=2)])):
        (run,) = observed([raw]).items
        assert isinstance(run, CommitRun)
        told = replace(run, topic_ids={0: bytes([number + 1] * 16)})
        events += group.apply(replace(observed([]), items=[told]), 0)
    events += group.expire(9)
    assert names(events) == ["offset.rewound"]
    assert events[0].fact.kind == "topic_recreated"  # type: ignore[attr-defined]


KNOWN = replace(SHORT, broker_release=(4, 0))
REPLACED = [
    asked_for(at=1),
    static("t", "a", 2),
    static("u", "b", 3),
    commit("t", 0, 5, at=4),
    commit("u", 0, 5, at=4),
]


@pytest.mark.parametrize("topic", ["t", "u"])
def test_an_expiry_that_only_the_coordinator_can_explain(topic: str) -> None:
    """A static member came back with u for t: which of them is protected no record says, so neither was deleted."""
    (event,) = said([*REPLACED, no_offset(topic, 0, at=MINUTE + 5)], KNOWN)
    check(
        event.fact, reason="retention", unclear=True, deadline_ms=MINUTE + 4, rule="classic consumers, Stable"
    )
    assert event.evidence is Evidence.INFERRED
    (early,) = said([*REPLACED, no_offset(topic, 0, at=9_000)], KNOWN)
    assert (early.fact.NAME, early.evidence) == ("offsets.deleted", Evidence.INFERRED)


IN_REBALANCE = [
    generation(1, member("a", [0]), at=1),
    commit("t", 0, 5, at=2),
    no_offset("t", 0, at=MINUTE + 5),
]


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ((2, 3), ("offsets.deleted", "topic_deleted", Evidence.LOG)),
        ((2, 8), ("offsets.expired", "retention", Evidence.INFERRED)),
        ((3, 2), ("offsets.deleted", "topic_deleted", Evidence.LOG)),
        (None, ("offsets.deleted", "topic_deleted", Evidence.INFERRED)),
    ],
)
def test_an_expiry_in_an_unseen_rebalance(
    release: tuple[int, int] | None, expected: tuple[str, str, Evidence]
) -> None:
    """Old brokers let the offsets of subscribed topics expire then; an unknown release is named as an assumption."""
    context = replace(SHORT, broker_release=release)
    assert reasons(IN_REBALANCE, context) == [expected]
    (event,) = said(IN_REBALANCE, context)
    assumed = None if release else "3.2 or later"
    assert event.fact.assumed_release == assumed  # type: ignore[attr-defined]


def test_a_group_that_may_have_expired_instead() -> None:
    """With a retention that nobody has given, a group whose offsets go with it was perhaps not deleted by a request."""
    history = [*EMPTY, no_offset("t", 0, at=MINUTE + 2_000), gone(at=MINUTE + 2_000)]
    (event,) = said(history, replace(CONTEXT, broker_release=(4, 0)))
    check(event.fact, reason="group_deleted", assumed={"retention_ms": 7 * DAY})
    assert event.evidence is Evidence.INFERRED
    # Kafka has no retention below a minute.
    (early,) = said([*EMPTY, no_offset("t", 0, at=9_000), gone(at=9_000)], CONTEXT)
    check(early.fact, reason="group_deleted", assumed={})
    assert early.evidence is Evidence.LOG
