"""The warning before offsets expire: when it fires, for whom, and what ends it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from groupreplay.state import Context, Event, Evidence, Group, Severity
from groupreplay.state.conditions.offsets_expiring import OffsetsExpiring, OffsetsExpiringDetector
from groupreplay.state.policy.rules import GroupRule, Policy
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
    no_offset,
    observed,
    placed,
)
from support.histories.modern_builders import first_join, left, operation

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK = replace(CONTEXT, retention_ms=7 * DAY)
MISSED = replace(WEEK, policy=Policy(groups=(GroupRule(groups="*", matters=True),)))
EMPTY = [generation(1, member("a", [0]), at=1), commit("t", 0, 5, at=2), emptied(2, at=HOUR)]


def told(group: Group, history: list[Raw], until_ms: int, first: int = 100) -> list[Event]:
    """What is said of expiry up to a moment."""
    events = group.apply(observed(placed(history, first=first)), until_ms)
    return [event for event in events if isinstance(event.fact, OffsetsExpiring)]


def fired(history: list[Raw], until_ms: int, context: Context = WEEK) -> list[tuple[str, int]]:
    """Status and time of every word."""
    events = told(Group(GROUP, context), history, until_ms)
    return [(event.fact.status, event.time_ms) for event in events]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("retention_ms", "limit_ms"),
    [(60_000, 6_000), (DAY, DAY // 10), (3 * DAY, DAY), (7 * DAY, DAY), (30 * DAY, 3 * DAY)],
)
def test_how_long_before(retention_ms: int, limit_ms: int) -> None:
    """A tenth of the retention; of three days and more at least a day."""
    assert OffsetsExpiringDetector().limit_ms(retention_ms) == limit_ms


def test_a_number_of_ones_own() -> None:
    """Of whatever retention."""
    assert OffsetsExpiringDetector(threshold_ms=9).limit_ms(60_000) == 9


def test_an_empty_group_a_day_before() -> None:
    """Not a millisecond earlier; everything there is to tell."""
    begin = HOUR + 6 * DAY
    assert fired(EMPTY, begin - 1) == []
    (event,) = told(Group(GROUP, MISSED), EMPTY, begin)
    fact: Any = event.fact
    assert (event.time_ms, event.severity, event.evidence) == (begin, Severity.WARN, Evidence.LOG)
    check(fact, status="firing", since_ms=begin, threshold_ms=DAY, partitions={"t": "0"}, partition_count=1)
    check(fact, deadline_ms=HOUR + 7 * DAY, remaining_ms=DAY, matters=True)


def test_a_group_that_nobody_would_miss() -> None:
    """Information, no warning: such groups are many, and nobody asks for them."""
    (event,) = told(Group(GROUP, WEEK), EMPTY, 7 * DAY)
    assert (event.severity, event.fact.matters) == (Severity.INFO, False)  # type: ignore[attr-defined]
    unmissed = replace(WEEK, policy=Policy(groups=(GroupRule(groups="*", matters=False),)))
    (event,) = told(Group(GROUP, unmissed), EMPTY, 7 * DAY)
    assert (event.severity, event.fact.matters) == (Severity.INFO, False)  # type: ignore[attr-defined]


def test_a_retention_that_nobody_told() -> None:
    """Seven days are assumed, and the event says so."""
    (event,) = told(Group(GROUP, CONTEXT), EMPTY, 7 * DAY)
    assert event.evidence is Evidence.INFERRED


def test_members_that_come_back_end_it() -> None:
    """They are subscribed to the topic again."""
    back = 6 * DAY + 2 * HOUR
    history = [*EMPTY, generation(3, member("b", [0]), at=back)]
    assert fired(history, back) == [("firing", HOUR + 6 * DAY), ("resolved", back)]


def test_a_commit_ends_it_where_commits_count() -> None:
    """Of a group without members; in an empty one it changes nothing: the time of becoming empty counts."""
    simple = [commit("t", 0, 5, at=2), commit("u", 0, 5, at=2)]
    for history, expected in (
        (simple, [("firing", 6 * DAY + 2), ("resolved", 6 * DAY + HOUR + 1)]),
        (EMPTY, [("firing", 6 * DAY + HOUR)]),
    ):
        group = Group(GROUP, WEEK)
        events = told(group, history, 6 * DAY + HOUR)
        again = [commit(topic, 0, 6, at=6 * DAY + HOUR) for topic in "tu"]
        events += told(group, again, 6 * DAY + HOUR + 1, first=900)
        assert [(event.fact.status, event.time_ms) for event in events] == expected  # type: ignore[attr-defined]


def test_its_end_in_the_log() -> None:
    """Expired or deleted: over."""
    over = HOUR + 7 * DAY + 9
    history = [*EMPTY, no_offset("t", 0, at=over), gone(at=over)]
    assert fired(history, over + 1) == [("firing", HOUR + 6 * DAY), ("resolved", over)]


def test_a_topic_that_is_let_go_of() -> None:
    """A Stable group that subscribes to something else: since then, though the commit is older."""
    changed = 20 * DAY
    history = [
        generation(1, member("a", [0]), at=1),
        commit("t", 0, 5, at=2),
        generation(2, member("a", [0], topic="u"), at=changed),
    ]
    group = Group(GROUP, WEEK)
    (event,) = told(group, history, changed)
    fact: Any = event.fact
    assert (fact.since_ms, fact.deadline_ms, fact.remaining_ms) == (changed, 2 + 7 * DAY, 0)


def test_the_newer_kinds_count_from_each_commit() -> None:
    """Though the group is only empty since yesterday."""
    history = [*first_join(at=1_000), commit("t", 0, 5, at=2_000), *operation(5 * DAY, left("a"))]
    assert fired(history, 9 * DAY) == [("firing", 6 * DAY + 2_000)]


def test_an_expiry_of_its_own() -> None:
    """It comes earlier than the others, and though the group was looked at already."""
    group = Group(GROUP, WEEK)
    assert told(group, [commit("t", 0, 5, at=2)], 3) == []
    own = commit("t", 0, 6, at=4, version=1, expire_timestamp_ms=2 * DAY)
    events = told(group, [own], 2 * DAY, first=900)
    assert [(event.fact.status, event.time_ms) for event in events] == [("firing", DAY)]  # type: ignore[attr-defined]


def test_more_partitions_are_said_again_once_a_day() -> None:
    """The first of many partitions must not hide the others, nor each be said by itself."""
    history = [commit("t", number, 1, at=1 + number * HOUR // 4) for number in range(192)]
    times = [at for _, at in fired(history, 9 * DAY)]
    assert (times[0], len(times)) == (6 * DAY + 1, 2)


def test_no_timer_for_every_commit() -> None:
    """A group that commits is looked at once a minute, not at every commit; when it stops, soon, then once a day."""
    group = Group(GROUP, WEEK)
    told(group, [commit("t", 0, 1, at=1)], 1)
    armed = group.next_deadline_ms()
    assert armed == 120_002
    told(group, [commit("t", 0, 2, at=30_000)], 30_000, first=900)
    assert group.next_deadline_ms() == armed
    assert told(group, [], 1 + DAY) == []
    deadline_ms = group.next_deadline_ms()
    assert deadline_ms is not None
    assert 1 + DAY < deadline_ms <= 1 + 2 * DAY


def test_groups_that_were_read_together_do_not_wake_together() -> None:
    """A first start evaluates all groups at once: no ten minutes of the week after have more than 3 % of them."""
    times_ms: list[int] = []
    for number in range(1_000):
        group = Group(f"group-{number}", WEEK)
        told(group, [commit("t", 0, 1, at=1)], DAY)
        while (deadline_ms := group.next_deadline_ms()) is not None and deadline_ms < 5 * DAY:
            times_ms.append(deadline_ms)
            group.expire(deadline_ms)
    counts = Counter(at_ms // 600_000 for at_ms in times_ms)
    assert len(times_ms) > 4_000
    assert max(counts.values()) <= 30


def test_a_group_whose_offsets_stay_needs_no_timer() -> None:
    """All of its topics are subscribed: once nobody expects commits any more, nothing is waited for."""
    group = Group(GROUP, WEEK)
    told(group, EMPTY[:2], DAY)
    assert group.next_deadline_ms() is None


def test_a_restart_that_lasts_longer_than_the_deadline() -> None:
    """What is still true is said with its real beginning, and called late by the job's clock."""
    group = Group(GROUP, WEEK)
    told(group, EMPTY, 2 * HOUR)
    again = Group.from_snapshot(GROUP, WEEK, group.snapshot())
    now = 20 * DAY
    events = [one for one in again.expire(now, now) if isinstance(one.fact, OffsetsExpiring)]
    assert [(one.fact.since_ms, one.fact.deadline_ms) for one in events] == [  # type: ignore[attr-defined]
        (HOUR + 6 * DAY, HOUR + 7 * DAY)
    ] * 2
    assert [one.time_ms for one in events] == [HOUR + 6 * DAY, now]


def test_a_shorter_retention_is_noticed() -> None:
    """A day later at the latest, without any record."""
    group = Group(GROUP, WEEK)
    told(group, EMPTY, 2 * HOUR)
    shorter = replace(WEEK, retention_ms=2 * DAY)
    again = Group.from_snapshot(GROUP, shorter, group.snapshot())
    assert (again.next_deadline_ms() or 0) <= 2 * HOUR + DAY
    (event,) = [one for one in again.expire(2 * DAY) if isinstance(one.fact, OffsetsExpiring)]
    assert event.fact.deadline_ms == HOUR + 2 * DAY


def test_a_longer_retention_is_noticed() -> None:
    """It ends what was told of every offset of the group: a day later at the latest, without any record."""
    group = Group(GROUP, WEEK)
    (event,) = told(group, EMPTY, HOUR + 6 * DAY)
    longer = replace(WEEK, retention_ms=30 * DAY)
    again = Group.from_snapshot(GROUP, longer, group.snapshot())
    assert (again.next_deadline_ms() or 0) <= event.time_ms + DAY
    (over,) = [one for one in again.expire(8 * DAY) if isinstance(one.fact, OffsetsExpiring)]
    check(over.fact, status="resolved", deadline_ms=HOUR + 7 * DAY)


def test_a_group_that_begins_to_matter_near_expiry() -> None:
    """It comes back from Empty within its first day: a warning when the day is over, not at the next daily look."""
    day = replace(WEEK, retention_ms=DAY)
    history = [
        generation(1, member("a", [0]), at=1_000),
        commit("t", 0, 5, at=2_000),
        emptied(2, at=3_000),
        generation(3, member("a", [0]), at=4_000),
        emptied(4, at=5_000),
    ]
    events = told(Group(GROUP, day), history, 5_000 + 3 * DAY)
    assert [(event.time_ms, event.severity, event.fact.matters) for event in events] == [  # type: ignore[attr-defined]
        (5_000 + DAY - DAY // 10, Severity.INFO, False),
        (1_000 + DAY, Severity.WARN, True),
    ]


def test_a_first_commit_near_expiry() -> None:
    """The group is Empty for longer than the retention: it is told when the moment of the commit is over."""
    begin = HOUR + 9 * DAY
    group = Group(GROUP, MISSED)
    assert told(group, [generation(1, member("a", [0]), at=1), emptied(2, at=HOUR)], begin - 1) == []
    (event,) = told(group, [commit("t", 0, 5, at=begin)], begin + 1, first=900)
    assert (event.time_ms, event.fact.status) == (begin + 1, "firing")  # type: ignore[attr-defined]


def test_a_commit_that_is_dated_back() -> None:
    """Its deadline is earlier than that of the commit before it, which was in the same minute."""
    begin = HOUR + MINUTE
    group = Group(GROUP, WEEK)
    assert told(group, [commit("t", 0, 5, at=begin)], begin) == []
    dated = commit("t", 0, 6, at=begin + 1_000, commit_at=begin - 7 * DAY)
    events = told(group, [dated], begin + DAY, first=900)
    assert [(event.fact.status, event.time_ms) for event in events] == [("firing", begin + 1_001)]  # type: ignore[attr-defined]


def test_thousands_of_groups_that_nobody_misses() -> None:
    """They begin and expire on one day: nothing of them is a warning, nothing of them stays."""
    severities, left_over = set(), 0
    over = 7 * DAY + 9
    history = placed(
        [
            asked_for(at=0),
            generation(1, member("a", [0]), at=1),
            commit("t", 0, 5, at=2),
            emptied(2, at=3),
            no_offset("t", 0, at=over),
            gone(at=over),
        ]
    )
    for number in range(50):
        group = Group(f"console-consumer-{number}", WEEK)
        events = group.apply(observed(history), over + 1)
        severities |= {event.severity for event in events}
        left_over += not group.gone
    group.take_document()
    assert (severities, left_over) == ({Severity.INFO}, 0)


def test_everything_it_rests_on() -> None:
    """The rule and its base, and what nobody has given."""
    (event,) = told(Group(GROUP, MISSED), EMPTY, HOUR + 6 * DAY)
    check(event.fact, rule="classic, Empty", base="emptied", unclear=False, assumed={}, assumed_release=None)
    (event,) = told(Group(GROUP, CONTEXT), EMPTY, HOUR + 6 * DAY)
    check(event.fact, assumed={"retention_ms": 7 * DAY})
    assert "assumed: retention 7 d 0 h" in OffsetsExpiring.firing_text(vars_of(event.fact))


def vars_of(fact: Any) -> dict[str, Any]:
    """The fields of a fact."""
    return {
        name: getattr(fact, name)
        for name in ("partitions", "partition_count", "deadline_ms", "assumed", "rule")
    }


def static(topic: str, name: str, at: int) -> Raw:
    """A record of generation 1 with one static member."""
    return generation(1, member(name, [0], topic=topic, instance_id="i"), at=at)


def test_what_only_the_coordinator_knows_is_no_fact() -> None:
    """A static member came back with u for t: both are told as unclear, and no more when two clean-ups spared them."""
    context = replace(MISSED, broker_release=(4, 0), retention_check_interval_ms=HOUR)
    history = [
        asked_for(at=1),
        static("t", "a", 2),
        static("u", "b", 3),
        commit("t", 0, 5, at=HOUR),
        commit("u", 0, 5, at=HOUR),
    ]
    group = Group(GROUP, context)
    (event,) = told(group, history, 7 * DAY)
    check(event.fact, partitions={"t": "0", "u": "0"}, unclear=True, deadline_ms=7 * DAY + HOUR, matters=True)
    assert (event.severity, event.evidence) == (Severity.INFO, Evidence.INFERRED)
    assert "only the coordinator knows" in OffsetsExpiring.firing_text({"unclear": True})
    assert group.expire(7 * DAY + 3 * HOUR - 1) == []
    (over,) = group.expire(7 * DAY + 3 * HOUR)
    check(over.fact, status="resolved", unclear=True)
