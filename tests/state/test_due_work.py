"""Simple groups of the coordinator in Scala, which ends them without a tombstone, and of the present one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupreplay.state import DELETED, Event, Evidence, Group, due_work
from groupreplay.state.events.event import Cause, History
from groupreplay.state.events.group_events import GroupCreated, GroupDeleted
from groupreplay.state.output.envelope import event_id
from groupreplay.state.snapshot.group_snapshot import ActiveCondition, ConditionKey, Conditions
from groupreplay.state.snapshot.observations import Probe
from support.histories.builders import (
    CONTEXT,
    GROUP,
    PARTITION,
    Raw,
    asked_for,
    commit,
    emptied,
    facts,
    generation,
    gone,
    member,
    names,
    no_offset,
    observed,
    placed,
    read,
    read_in_batches,
)

INTERVAL_MS = 600_000
KNOWN = replace(CONTEXT, complete_since_ms=0, retention_check_interval_ms=INTERVAL_MS)
#: Two partitions, removed by one request; the second tombstone has the offset 104.
REMOVED = [
    commit("t", 0, 5, at=1_000),
    commit("t", 1, 6, at=1_000),
    no_offset("t", 0, at=9_000),
    no_offset("t", 1, at=9_000),
]
DUE_MS = 9_000 + 2 * INTERVAL_MS


def lived(history: list[Raw], end_ms: int = DUE_MS) -> tuple[Group, list[Event]]:
    """The group and its events about its own life, as far as the log is known up to ``end_ms``."""
    group, events = read(placed(history), KNOWN, end_ms)
    return group, [event for event in events if event.fact.NAME.startswith("group.")]


def test_a_simple_group_ends_with_its_last_offset() -> None:
    """Two clean-ups later, when the present coordinator would have written the tombstone; nothing of it is kept."""
    group, events = lived(REMOVED, DUE_MS - 1)
    assert (names(events), group.describe()["state"]) == (["group.created"], "Empty")
    assert (group.next_deadline_ms(), group.gone) == (DUE_MS, False)
    ended = group.expire(DUE_MS)
    assert facts(ended) == [GroupDeleted(generation=None, since_ms=9_000)]
    assert (group.describe()["state"], group.next_deadline_ms(), group.gone) == ("Dead", None, True)


def test_the_event_is_named_by_the_last_tombstone() -> None:
    """Its time is when it became certain, its cause the record that removed the last offset: ids do not collide."""
    _, (_, event) = lived(REMOVED)
    cause = Cause(topic="__consumer_offsets", partition=PARTITION, offset=104, timestamp_ms=9_000)
    assert (event.time_ms, event.cause, event.evidence) == (DUE_MS, cause, Evidence.INFERRED)
    assert (event.simple, event.history) == (True, History.FULL)
    assert event_id(event, KNOWN) == "__consumer_offsets-era-1-3-104-group.deleted-0"


def test_its_document_is_removed() -> None:
    """Else ``group-states`` would list every such group for ever."""
    group, _ = lived(REMOVED, DUE_MS - 1)
    assert isinstance(group.take_document(), dict)
    group.expire(DUE_MS)
    assert group.take_document() is DELETED


def test_the_time_does_not_depend_on_batches_and_restarts() -> None:
    """What is stored of the group is enough."""
    records = placed(REMOVED)
    _, at_once = read(records, KNOWN, DUE_MS)
    group, in_parts = read_in_batches([records[:1], records[1:3], records[3:]], KNOWN, DUE_MS)
    assert (in_parts, group.gone) == (at_once, True)


def test_a_tombstone_that_comes_later_says_it_first() -> None:
    """The present coordinator writes it with its next clean-up; one that moved begins its interval anew."""
    _, events = lived([*REMOVED, gone(at=DUE_MS - 1)], DUE_MS * 2)
    assert facts(events)[1:] == [GroupDeleted(generation=None, since_ms=DUE_MS - 1)]
    assert events[1].evidence is Evidence.LOG


def test_a_tombstone_after_the_end_says_nothing() -> None:
    """The group was deleted once."""
    _, events = lived([*REMOVED, gone(at=DUE_MS + 1)], DUE_MS * 2)
    assert names(events) == ["group.created", "group.deleted"]
    assert events[1].evidence is Evidence.INFERRED


def test_a_commit_in_time_keeps_the_group() -> None:
    """Whether it was a new group by then is not in the log."""
    group, events = lived([*REMOVED, commit("t", 0, 7, at=DUE_MS - 1)], DUE_MS * 2)
    assert (names(events), group.describe()["state"]) == (["group.created"], "Empty")


def test_a_commit_afterwards_makes_a_new_group() -> None:
    """Even if both are read in one batch."""
    _, events = lived([*REMOVED, commit("t", 0, 7, at=DUE_MS + 1)], DUE_MS * 2)
    assert facts(events) == [
        GroupCreated(generation=None, since_ms=1_000),
        GroupDeleted(generation=None, since_ms=9_000),
        GroupCreated(generation=None, since_ms=DUE_MS + 1),
    ]


@pytest.mark.parametrize(
    "record",
    [asked_for(at=500), generation(1, member("a"), at=500), emptied(4, at=500)],
    ids=["asked for", "with members", "emptied"],
)
def test_a_group_with_a_record_waits_for_its_tombstone(record: Raw) -> None:
    """Both coordinators write one for a group that has had a generation; it may be Empty without offsets for long."""
    group, events = lived([record, *REMOVED], DUE_MS * 10)
    assert ("group.deleted" in names(events), group.describe()["state"] == "Dead") == (False, False)


def test_one_offset_is_enough() -> None:
    """The group exists as long as one of its offsets does."""
    group, events = lived(REMOVED[:3], DUE_MS * 10)
    assert (names(events), group.describe()["state"]) == (["group.created"], "Empty")


def test_a_tombstone_alone_is_no_group() -> None:
    """What compaction has left of a group that ended long ago."""
    group = Group(GROUP, KNOWN)
    group.apply(observed(placed([no_offset("t", 0, at=9_000)])), 0)
    assert (group.expire(DUE_MS * 2), group.gone) == ([], True)


def test_losses_of_a_group_that_does_not_matter_are_forgotten_with_it() -> None:
    """One that matters remembers them for 30 days, to tell where it goes on."""
    busy = [commit("t", partition, 5 + time, at=time) for time in range(3) for partition in (0, 1)]
    group, _ = lived([*busy, *REMOVED[2:]])
    assert (group.describe()["state"], group.gone) == ("Dead", False)


#: Events begin here, an hour after the last record.
SINCE_MS = 3_600_000
BEGUN = replace(CONTEXT, emit_since_ms=SINCE_MS)
AT_REST = [generation(1, member("a", [0]), at=1_000), commit("t", 0, 5, at=2_000)]


def test_a_group_at_rest_has_nothing_due_when_events_begin() -> None:
    """A first start calls each group once for its records, and for a deadline only if it has one."""
    group = Group(GROUP, BEGUN)
    assert group.apply(observed(placed(AT_REST)), -1) == []
    assert group.next_deadline_ms() is None
    told, events = read(placed([asked_for(at=1_000)]), replace(BEGUN, retention_ms=2 * SINCE_MS), SINCE_MS)
    assert (told.next_deadline_ms(), events) == (None, [])


def test_what_holds_when_events_begin_is_told_then() -> None:
    """The deadline is that moment, and its work is left to it."""
    context = replace(BEGUN, retention_ms=SINCE_MS + 10_000)
    group = Group(GROUP, context)
    assert group.apply(observed(placed([commit("t", 0, 5, at=2_000)])), -1) == []
    assert group.next_deadline_ms() == SINCE_MS
    (told,) = group.expire(SINCE_MS)
    assert (told.fact.NAME, told.time_ms) == ("offsets.expiring", SINCE_MS)


def test_records_of_the_past_that_are_read_later_count() -> None:
    """A batch that ends before them has found nothing; the next one finds what its records have changed."""
    context = replace(BEGUN, retention_ms=SINCE_MS + 10_000)
    raws = placed([*AT_REST, emptied(2, at=3_000)])
    group = Group(GROUP, context)
    group.apply(observed(raws[:2]), -1)
    assert group.next_deadline_ms() is None
    restarted = Group.from_snapshot(GROUP, context, group.snapshot())
    restarted.apply(observed(raws[2:], seen_to=999), -1)
    assert restarted.next_deadline_ms() == SINCE_MS
    assert names(restarted.expire(SINCE_MS)) == ["offsets.expiring"]


STORM = ConditionKey("rebalance.storm", "")
PAUSED = ConditionKey("commits.paused", "")


@pytest.mark.parametrize(
    ("active", "next_ms", "due"),
    [
        ((), None, False),
        ((), 5_002, False),
        ((), 5_001, True),
        ((STORM,), None, False),
        ((STORM, PAUSED), None, True),
    ],
)
def test_an_answer_that_shows_what_is_known(
    active: tuple[ConditionKey, ...], next_ms: int | None, due: bool
) -> None:
    """It evaluates what is due then anyway, and what commits before it may have ended; nothing else."""
    known = ActiveCondition(severity=13, dedup_key=(), evidence=Evidence.LOG, condition=b"{}")
    conditions = Conditions(dict.fromkeys(active, known), next_ms)
    answer = Probe(taken_ms=5_000, topic="group-probes", partition=0, offset=1)
    assert due_work.is_due_with_probe(conditions, answer, {PAUSED.kind}) is due
