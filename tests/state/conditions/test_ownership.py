"""Members without work, owners that fall silent, offsets that stay: what fires, what ends it, and what is not said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from groupreplay.state import Context, Event, Evidence, Group, Severity
from groupreplay.state.conditions.conditions import Condition
from support.histories.builders import (
    CONTEXT,
    GROUP,
    Raw,
    asked_for,
    commit,
    emptied,
    generation,
    member,
    no_offset,
    observed,
    placed,
)
from support.histories.probed import MINUTE, PROBING, conditions, told

START = 1_000 * MINUTE
HOUR = 60 * MINUTE


def live(history: list[Raw], until: int, context: Context = CONTEXT) -> list[Event]:
    """The conditions said when every record is read at its own time, and written down in between."""
    events: list[Event] = []
    blob = Group(GROUP, context).snapshot()
    for raw in placed(history):
        group = Group.from_snapshot(GROUP, context, blob)
        events += group.apply(observed([raw]), raw.at)
        blob = group.snapshot()
    events += Group.from_snapshot(GROUP, context, blob).expire(until)
    return [event for event in events if isinstance(event.fact, Condition)]


def of(events: list[Event], name: str) -> list[tuple[str, str, int]]:
    """Those of one name, short."""
    return [one for one in conditions(events) if one[0] == name]


# -- idle members


def round_of(number: int, at: int, *idle: str) -> Raw:
    """A generation in which one member has everything and these have nothing."""
    return generation(number, member("a", [0, 1]), *(member(name, []) for name in idle), at=START + at)


def test_a_member_without_work() -> None:
    """In its third round without a partition it is so, once a quarter of an hour has passed; until it gets one."""
    history = [round_of(1, 0, "b"), round_of(2, MINUTE, "b"), round_of(3, 2 * MINUTE, "b")]
    assert of(live(history[:2], START + HOUR), "member.idle") == []
    busy = generation(4, member("a", [0]), member("b", [1]), at=START + 20 * MINUTE)
    events = live([*history, busy], START + HOUR)
    assert of(events, "member.idle") == [
        ("member.idle", "firing", START + 15 * MINUTE),
        ("member.idle", "resolved", START + 20 * MINUTE),
    ]
    fact: Any = events[0].fact
    assert (fact.member_id, fact.rounds, fact.since_ms, events[0].severity, events[0].evidence) == (
        "b",
        3,
        START,
        Severity.INFO,
        Evidence.LOG,
    )


@pytest.mark.parametrize("ends", [emptied(4, at=START + 20 * MINUTE), round_of(4, 20 * MINUTE)])
def test_who_leaves_is_not_idle(ends: Raw) -> None:
    """With the member, or with all of them."""
    history = [round_of(1, 0, "b"), round_of(2, MINUTE, "b"), round_of(3, 2 * MINUTE, "b"), ends]
    assert of(live(history, START + HOUR), "member.idle")[1] == (
        "member.idle",
        "resolved",
        START + 20 * MINUTE,
    )


def test_assignments_that_cannot_be_read_make_nobody_idle() -> None:
    """Members of another protocol have no partitions that could be counted."""
    history = [
        generation(number, member("a", []), at=START + number * MINUTE, protocol_type="other")
        for number in range(1, 6)
    ]
    assert live(history, START + HOUR) == []


# -- commits that stop

TWO = generation(1, member("a", [0]), member("b", [1]), at=START)
BEGIN = [asked_for(at=START - 1), TWO]


def beat(
    partitions: tuple[int, ...], first: int, last: int, every: int = 5_000, moves: bool = False
) -> list[Raw]:
    """A commit of each partition every so often; the offset is always the same unless it moves."""
    return [
        commit("t", number, at // every if moves else 5, at=START + at)
        for at in range(first, last, every)
        for number in partitions
    ]


def test_a_group_that_falls_silent_without_a_prober() -> None:
    """After its rebalance and session timeout, by the usual gap; a commit ends it."""
    silent = beat((0, 1), 5_000, MINUTE)
    sign = START + 55_000
    events = live([*BEGIN, *silent], START + HOUR)
    assert of(events, "rebalance.suspected") == [("rebalance.suspected", "firing", sign + 345_001)]
    fact: Any = events[0].fact
    assert (fact.since_ms, fact.threshold_ms, fact.usual_gap_ms, fact.silent_ms) == (
        sign,
        345_000,
        8_192,
        345_001,
    )
    assert (events[0].severity, events[0].evidence) == (Severity.INFO, Evidence.INFERRED)
    events = live([*BEGIN, *silent, *beat((0,), 20 * MINUTE, 20 * MINUTE + 1)], START + 21 * MINUTE)
    assert of(events, "rebalance.suspected")[1:] == [("rebalance.suspected", "resolved", START + 20 * MINUTE)]


@pytest.mark.parametrize(
    ("history", "context"),
    [
        pytest.param([*BEGIN, *beat((0, 1), 5_000, MINUTE)], PROBING, id="a prober knows better"),
        pytest.param(
            [*BEGIN, *beat((0, 1), 5_000, MINUTE, moves=True)], CONTEXT, id="commits on change only"
        ),
        pytest.param([*BEGIN, *beat((0, 1), 5_000, 14_000)], CONTEXT, id="four commits"),
        pytest.param(beat((0, 1), 5_000, MINUTE), CONTEXT, id="nobody is a member"),
        pytest.param(
            [*BEGIN, *beat((0, 1), 5_000, MINUTE), emptied(2, at=START + 2 * MINUTE)],
            CONTEXT,
            id="it is empty",
        ),
    ],
)
def test_silence_that_is_not_suspected(history: list[Raw], context: Context) -> None:
    """Where commits cannot tell, or need not."""
    assert of(live(history, START + HOUR, context), "rebalance.suspected") == []


def test_five_commits_are_a_habit() -> None:
    """Four gaps, however many partitions they belong to."""
    assert len(of(live([*BEGIN, *beat((0,), 5_000, 29_000)], START + HOUR), "rebalance.suspected")) == 1
    assert of(live([*BEGIN, *beat((0,), 5_000, 24_000)], START + HOUR), "rebalance.suspected") == []


def test_an_owner_that_falls_silent_while_others_commit() -> None:
    """After ten usual gaps; it ends with the member's next commit."""
    history = [*BEGIN, *beat((0, 1), 5_000, 2 * MINUTE), *beat((0,), 2 * MINUTE, 20 * MINUTE)]
    sign = START + 115_000
    events = live(history, START + 20 * MINUTE, PROBING)
    assert of(events, "owner.silent") == [("owner.silent", "firing", sign + 81_921)]
    fact: Any = events[0].fact
    assert (fact.member_id, fact.partitions, fact.lag, fact.usual_gap_ms, fact.since_ms) == (
        "b",
        {"t": "1"},
        None,
        8_192,
        sign,
    )
    assert events[0].severity is Severity.INFO
    events = live([*history, *beat((0, 1), 20 * MINUTE, 20 * MINUTE + 1)], START + HOUR, PROBING)
    assert of(events, "owner.silent")[1:] == [("owner.silent", "resolved", START + 20 * MINUTE)]


def test_a_round_ends_the_silence_of_an_owner() -> None:
    """What it owned belongs to somebody else, or it has begun anew."""
    history = [*BEGIN, *beat((0, 1), 5_000, 2 * MINUTE), *beat((0,), 2 * MINUTE, 5 * MINUTE)]
    history.append(generation(2, member("a", [0, 1]), at=START + 6 * MINUTE))
    assert of(live(history, START + HOUR, PROBING), "owner.silent")[1:] == [
        ("owner.silent", "resolved", START + 6 * MINUTE)
    ]


def test_silence_of_all_is_no_owners_fault() -> None:
    """Nobody commits: then none of them is told from the others."""
    history = [*BEGIN, *beat((0, 1), 5_000, 5 * MINUTE)]
    assert of(live(history, START + HOUR, PROBING), "owner.silent") == []


def test_an_owner_of_quiet_partitions_in_a_group_that_commits_on_change() -> None:
    """Nothing new came into its partitions: that is all there is to it."""
    both, one = beat((0, 1), 5_000, 2 * MINUTE, moves=True), beat((0,), 2 * MINUTE, 10 * MINUTE, moves=True)
    assert of(live([*BEGIN, *both, *one], START + HOUR, PROBING), "owner.silent") == []


# -- offsets that stay


def poisoned(generations: int = 4, others: tuple[int, ...] = (1, 2)) -> list[Raw]:
    """Partition 0 comes to offset 9 and stays there; the others move with each round of six minutes."""
    history: list[Raw] = [asked_for(at=START - 1)]
    for number in range(1, generations + 1):
        at = START + (number - 1) * 6 * MINUTE
        history.append(generation(number, member("a", [0, 1, 2, 3]), at=at))
        history += [commit("t", 0, 8, at=at + 10)] if number == 1 else []
        history += [commit("t", partition, number, at=at + 20) for partition in others]
        history.append(commit("t", 0, 9, at=at + 30))
        history += [commit("t", partition, 100 + number, at=at + 40) for partition in others]
    return history


def test_an_offset_that_stays() -> None:
    """Over three generations and a quarter of an hour, while the others move: until it moves itself."""
    assert of(live(poisoned(3), START + HOUR, PROBING), "partition.poison") == []
    history = [*poisoned(4), commit("t", 0, 10, at=START + 2 * HOUR)]
    events = live(history, START + 3 * HOUR, PROBING)
    assert of(events, "partition.poison") == [
        ("partition.poison", "firing", START + 18 * MINUTE),
        ("partition.poison", "resolved", START + 2 * HOUR),
    ]
    fact: Any = events[0].fact
    assert (fact.topic, fact.partition, fact.offset, fact.generations, fact.since_ms, fact.lag) == (
        "t",
        0,
        9,
        3,
        START + 30,
        None,
    )
    assert (events[0].severity, events[0].evidence) == (Severity.INFO, Evidence.INFERRED)


def test_generations_in_a_row_are_not_enough() -> None:
    """Three of them in a minute: the quarter of an hour is waited for."""
    history = [replace(raw, at=START + (raw.at - START) // 12) for raw in poisoned(4)]
    found = of(
        live([*history, *beat((1, 2), 2 * MINUTE, 16 * MINUTE, moves=True)], START + HOUR, PROBING),
        "partition.poison",
    )
    assert found == [("partition.poison", "firing", START + 30 + 15 * MINUTE)]


def test_a_topic_without_much_traffic() -> None:
    """Where less than half of the others move, one that stays is nothing special."""
    quiet = [commit("t", number, 5, at=START + 2) for number in (3, 4, 5)]
    history = poisoned(4)
    assert of(live([*history[:2], *quiet, *history[2:]], START + HOUR, PROBING), "partition.poison") == []


def test_an_offset_that_never_moved() -> None:
    """Nothing was ever read from it as far as is known."""
    history = [raw for raw in poisoned(4) if getattr(raw.value, "offset", None) != 8]
    assert of(live(history, START + HOUR, PROBING), "partition.poison") == []


def test_an_offset_that_is_gone_is_no_poison() -> None:
    """The tombstone ends it."""
    history = [*poisoned(4), no_offset("t", 0, at=START + HOUR)]
    assert of(live(history, START + 2 * HOUR, PROBING), "partition.poison")[1:] == [
        ("partition.poison", "resolved", START + HOUR)
    ]


def test_read_in_one_go() -> None:
    """What rounds say is the same; a silence that was over when it was read is not noticed."""
    history = [*BEGIN, *beat((0, 1), 5_000, MINUTE), *beat((0, 1), 20 * MINUTE, 20 * MINUTE + 1)]
    _, events = told(history, [], START + 21 * MINUTE)
    assert of(events, "rebalance.suspected") == []
    _, events = told(poisoned(4), [], START + HOUR, PROBING)
    assert of(events, "partition.poison") == of(live(poisoned(4), START + HOUR, PROBING), "partition.poison")
