"""``offsets.set``: offsets that are set while the group has no members."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from groupreplay.state import Event, Evidence, Group, Severity
from groupreplay.state.events.offset_events import OffsetsSet, SetPartition
from groupreplay.state.policy.rules import GroupRule, Policy
from groupreplay.state.replay.offset_sets import OCCASION_MS
from support.histories.builders import (
    CONTEXT,
    GROUP,
    Raw,
    asked_for,
    check,
    commit,
    emptied,
    generation,
    member,
    no_offset,
    observed,
    placed,
    read,
    read_in_batches,
    replay,
)
from support.histories.modern_builders import (
    current,
    described,
    first_join,
    left,
    operation,
    target,
    target_epoch,
)

MINUTE = 60_000
EMPTY = [
    generation(1, member("a", [0, 1]), at=1),
    commit("t", 0, 500, at=2),
    commit("t", 1, 500, at=2),
    emptied(2, at=1_000),
]
#: The whole log was read, so that a group without members is known to have none.
COMPLETE = replace(CONTEXT, complete_since_ms=0)
MISSED = replace(COMPLETE, policy=Policy(groups=(GroupRule(groups="*", matters=True),)))


def told(history: list[Raw], context: Any = COMPLETE) -> list[Event]:
    """What is said of sets when each record is read in a batch of its own; one batch says the same."""
    records = placed(history)
    end_ms = records[-1].at + OCCASION_MS
    _, whole = read(records, context, end_ms)
    _, pieces = read_in_batches([[one] for one in records], context, end_ms)
    assert [one for one in pieces if isinstance(one.fact, OffsetsSet)] == [
        one for one in whole if isinstance(one.fact, OffsetsSet)
    ]
    assert "offset.rewound" not in {one.fact.NAME for one in whole}
    return [one for one in whole if isinstance(one.fact, OffsetsSet)]


def test_clocks_behind_that_of_the_broker() -> None:
    """What follows the record of the empty group is a set by its place, not by its time; the first commit is one."""
    behind = [commit("t", 0, 600, at=900), commit("t", 0, 700, at=950)]
    (event,) = told([*EMPTY, *behind])
    assert event.fact.partitions == (place(0, 500, 600),)


def place(partition: int, before: int | None, after: int, topic: str = "t", **other: Any) -> SetPartition:
    """A partition whose offset was set."""
    fields = {"topic_recreated": False, **other}
    return SetPartition(topic=topic, partition=partition, from_offset=before, to_offset=after, **fields)


def test_a_set_forward() -> None:
    """``--reset-offsets --to-latest``: the group goes on behind what it has not read."""
    (event,) = told([*EMPTY, commit("t", 0, 900, at=5_000), commit("t", 1, 500, at=5_000)])
    assert event.fact == OffsetsSet(
        partitions=(place(0, 500, 900),),
        partition_count=1,
        direction="forward",
        offsets_moved=400,
        interval_ms=None,
    )
    assert (event.time_ms, event.cause and event.cause.offset) == (5_000, 107)
    assert (event.severity, event.evidence) == (Severity.INFO, Evidence.LOG)


@pytest.mark.parametrize(
    ("after", "direction", "moved"),
    [((100, 200), "backward", 700), ((900, 100), "mixed", 800), ((501, 501), "forward", 2)],
)
def test_a_warning_in_both_directions(after: tuple[int, int], direction: str, moved: int) -> None:
    """Records are skipped or repeated: both matter where the group does."""
    history = [commit("t", number, offset, at=5_000) for number, offset in enumerate(after)]
    (event,) = told([*EMPTY, *history], MISSED)
    check(event.fact, direction=direction, offsets_moved=moved, partition_count=2)
    assert event.severity is Severity.WARN


def test_sets_of_a_few_seconds_are_one_occasion() -> None:
    """A script sets one topic after the other; of two sets of one partition the second counts."""
    sets = [commit("t", 0, 900, at=5_000), commit("u", 0, 7, at=7_000), commit("t", 0, 100, at=9_000)]
    later = commit("t", 1, 100, at=5_000 + OCCASION_MS)
    first, second = told([*EMPTY, *sets, later])
    assert first.fact == OffsetsSet(
        partitions=(place(0, 500, 100), place(0, None, 7, "u")),
        partition_count=2,
        direction="backward",
        offsets_moved=400,
        interval_ms=None,
    )
    check(second.fact, partitions=(place(1, 500, 100),), offsets_moved=400)


def test_sets_that_end_where_they_began() -> None:
    """Nothing is skipped or repeated by a set that is taken back at once."""
    assert told([*EMPTY, commit("t", 0, 900, at=5_000), commit("t", 0, 500, at=7_000)]) == []
    assert told([*EMPTY, commit("t", 0, 500, at=5_000)]) == []


def test_a_partition_without_an_offset() -> None:
    """Nothing is known to be skipped."""
    (event,) = told([*EMPTY, commit("u", 0, 900, at=5_000)])
    check(event.fact, partitions=(place(0, None, 900, "u"),), direction=None, offsets_moved=None)


def test_an_empty_group_of_a_newer_kind() -> None:
    """KIP-848 groups refuse commits of strangers as long as they have members."""
    history = [*first_join(at=1), commit("t", 0, 5, at=2), *operation(1_000, left("a"))]
    (event,) = told([*history, commit("t", 0, 3, at=5_000)])
    check(event.fact, direction="backward", offsets_moved=2)
    assert event.group_type.value == "consumer"


@pytest.mark.parametrize("left_over", [target_epoch(2), current("a", 2, (0,)), target("a", (0,))])
def test_a_group_of_a_newer_kind_in_a_compacted_log(left_over: Raw) -> None:
    """One old record of it is left before its member's commits, whose description was written again later: no set."""
    history = [
        *operation(1, left_over),
        commit("t", 0, 10, at=MINUTE),
        *operation(2 * MINUTE, described("a")),
    ]
    assert told(history, CONTEXT) == []


def test_commits_of_members_are_none() -> None:
    """A member may go anywhere; going back is ``offset.rewound``."""
    history = [EMPTY[0], commit("t", 0, 500, at=2), commit("t", 0, 900, at=MINUTE)]
    assert told(history) == []
    _, events = replay([*history, commit("t", 0, 100, at=2 * MINUTE)], COMPLETE)
    assert [one.fact.NAME for one in events if one.fact.NAME.startswith("offset")] == ["offset.rewound"]


def test_the_first_commit_after_a_loss_is_a_reset() -> None:
    """``offsets.reset`` has the offset that was lost."""
    history = [*EMPTY, no_offset("t", 0, at=3_000), commit("t", 0, 7, at=5_000)]
    assert told(history) == []


def test_a_topic_that_was_created_again() -> None:
    """Its offsets count other records: they are not compared."""
    group = Group(GROUP, COMPLETE)
    events: list[Event] = []
    for number, raw in enumerate(placed([*EMPTY, commit("t", 0, 5, at=5_000)])):
        (item,) = observed([raw]).items
        if hasattr(item, "topic_ids"):
            item = replace(item, topic_ids={0: bytes([number // 4] * 16)})
        events += group.apply(replace(observed([]), items=[item]), 0)
    (event,) = [one for one in events + group.expire(MINUTE) if isinstance(one.fact, OffsetsSet)]
    expected = (place(0, 500, 5, topic_recreated=True),)
    check(event.fact, partitions=expected, direction=None, offsets_moved=None)


def every(interval_ms: int, times: int, first: int = 5_000, back: bool = False) -> list[Raw]:
    """A program that sets an offset at a steady pace."""
    return [
        commit("t", 0, 900 + (-number if back else number), at=first + number * interval_ms)
        for number in range(1, times + 1)
    ]


@pytest.mark.parametrize("interval_ms", [12_000, MINUTE, 10 * MINUTE])
def test_sets_at_a_steady_pace(interval_ms: int) -> None:
    """A mirror, or ``assign()`` under the same id: two sets are two, the third is a pace, then there is silence."""
    events = told([*EMPTY, *every(interval_ms, 20)], MISSED)
    assert [(one.fact.interval_ms, one.severity) for one in events] == [  # type: ignore[attr-defined]
        (None, Severity.WARN),
        (None, Severity.WARN),
        (interval_ms, Severity.INFO),
    ]


def test_a_consumer_with_assign_that_commits_every_five_seconds() -> None:
    """Its commits have leader epochs: all but the first are progress."""
    commits = [commit("t", 0, 900 + number, at=number * 5_000, leader_epoch=3) for number in range(1, 50)]
    (event,) = told([*EMPTY, *commits])
    check(event.fact, partitions=(place(0, 500, 901),), interval_ms=None)


def test_what_breaks_the_pace() -> None:
    """Another direction, a long pause, and members that came and went."""
    steady = [*EMPTY, *every(MINUTE, 5)]
    last = steady[-1].at
    back = told([*steady, commit("t", 0, 3, at=last + MINUTE)])
    assert [one.fact.direction for one in back] == ["forward"] * 3 + ["backward"]  # type: ignore[attr-defined]
    for minutes, events in ((15, 3), (16, 4)):
        assert len(told([*steady, commit("t", 0, 2_000, at=last + minutes * MINUTE)])) == events
    again = [generation(3, member("a", [0]), at=last + 1_000), emptied(4, at=last + 2_000)]
    assert len(told([*steady, *again, commit("t", 0, 2_000, at=last + MINUTE)])) == 4


def own(*commits: tuple[int, int, int]) -> list[Event]:
    """A group that never had members: (offset, time, leader epoch) of its commits."""
    history = [commit("t", 0, offset, at=at, leader_epoch=epoch) for offset, at, epoch in commits]
    return told(history, MISSED)


def test_a_group_that_never_had_members() -> None:
    """Its own program goes forwards, at any pace; what goes back was set, or its program begins again."""
    assert own((5, 1_000, 3), (9, 6_000, 3), (2_000, 20 * MINUTE, 3)) == []
    assert own((5, 1_000, -1), (9, 6_000, -1), (2_000, 20 * MINUTE, -1)) == []
    (event,) = own((5, 1_000, 3), (3, MINUTE, 3))
    check(event.fact, partitions=(place(0, 5, 3),), direction="backward", offsets_moved=2)
    assert (event.severity, event.evidence, event.simple) == (Severity.INFO, Evidence.INFERRED, True)


def test_a_commit_that_looks_like_that_of_a_tool() -> None:
    """Kafka's tools write no leader epoch; the group's own program always did."""
    (event,) = own((5, 1_000, 3), (9, 6_000, 3), (2_000, 20 * MINUTE, -1), (2_010, 20 * MINUTE + 5_000, 3))
    check(event.fact, partitions=(place(0, 9, 2_000),), direction="forward", offsets_moved=1_991)


def test_a_set_that_waits_is_kept() -> None:
    """The group is asked again when the occasion is over, also after a restart."""
    group = Group(GROUP, COMPLETE)
    group.apply(observed(placed([*EMPTY, commit("t", 0, 900, at=5_000), asked_for(at=5_001)])), 5_002)
    assert (group.gone, group.next_deadline_ms()) == (False, 5_000 + OCCASION_MS)
    group = Group.from_snapshot(GROUP, COMPLETE, group.snapshot())
    assert [one.fact.NAME for one in group.expire(5_000 + OCCASION_MS)] == ["offsets.set"]


@pytest.mark.parametrize(
    ("before", "after", "severity"),
    [
        (30_000, 20_000, Severity.INFO),
        (30_000, 8_806, Severity.WARN),
        (30_000, 30_500, Severity.INFO),
        (30_000, 30_501, Severity.ERROR),
    ],
)
def test_a_severity_by_the_consequence(before: int, after: int, severity: Severity) -> None:
    """Beyond the bounds what is read again is a warning, what nobody reads an error, however young the group is."""
    history = [generation(1, member("a", [0]), at=1), commit("t", 0, before, at=2), emptied(2, at=1_000)]
    (event,) = told([*history, commit("t", 0, after, at=5_000)])
    assert event.severity is severity
    bounds = {"offsets.moved": {"most_repeated": 10**9, "most_skipped": 10**9}}
    lenient = replace(COMPLETE, policy=Policy(thresholds=bounds))
    (event,) = told([*history, commit("t", 0, after, at=5_000)], lenient)
    assert event.severity is Severity.INFO
