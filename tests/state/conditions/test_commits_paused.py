"""``commits.paused``: a group that commits regularly commits nothing for long, live and in a capture alike."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupreplay.state import Context, Event, Evidence, Group, Severity
from groupreplay.state.conditions.commits_paused import CommitsPaused
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
    member,
    observed,
    placed,
    read,
)
from support.histories.commit_lives import BEGIN, HOUR, START, beat, live
from support.histories.modern_builders import first_join
from support.histories.probed import MINUTE

MATTERS = replace(CONTEXT, policy=Policy(groups=(GroupRule(groups="*", matters=True),)))
#: Twelve commits of two partitions, five seconds apart.
MINUTE_OF_COMMITS = beat((0, 1), 5_000, MINUTE + 1)


def pauses(events: list[Event]) -> list[Event]:
    """Begin and end of each pause."""
    return [one for one in events if isinstance(one.fact, CommitsPaused)]


def told(history: list[Raw], until: int, context: Context = CONTEXT) -> list[Event]:
    """What is said of pauses: read in one go, as from a capture, it is what the job says live."""
    _, events = read(placed(history), context, until)
    found = pauses(events)
    assert found == pauses(live(history, until, context))
    return found


def test_a_group_that_becomes_regular_within_a_minute() -> None:
    """A program was not when it was evaluated last; its later commits are of that minute, then there are none."""
    seconds = [*range(21), 40, 60, *range(61, 111)]
    history = [commit("t", 0, second, at=START + second * 1_000) for second in seconds]
    (firing,) = told(history, START + 10 * MINUTE)
    check(firing.fact, status="firing", since_ms=START + 110_000, usual_gap_ms=1_024)
    assert firing.time_ms == START + 230_001


def test_a_pause_from_beginning_to_end() -> None:
    """The question of a night: no commits from 00:01 to 00:06:36, usually every five seconds."""
    history = [*BEGIN, *MINUTE_OF_COMMITS, *beat((0, 1), 6 * MINUTE, 7 * MINUTE)]
    firing, resolved = told(history, START + 8 * MINUTE)
    begin = START + MINUTE
    expected: dict[str, Any] = {
        "since_ms": begin,
        "threshold_ms": 2 * MINUTE,
        "usual_gap_ms": 8_192,
        "partitions": {"t": "0-1"},
        "partition_count": 2,
    }
    check(firing.fact, status="firing", until_ms=None, elapsed_ms=2 * MINUTE + 1, **expected)
    check(resolved.fact, status="resolved", until_ms=START + 6 * MINUTE, elapsed_ms=5 * MINUTE, **expected)
    assert (firing.time_ms, firing.cause) == (begin + 2 * MINUTE + 1, None)
    assert (resolved.time_ms, resolved.cause and resolved.cause.offset) == (START + 6 * MINUTE, 140)


def test_it_is_never_a_warning() -> None:
    """Nor for a group that matters: the topic may just have no records."""
    (event,) = told([*BEGIN, *MINUTE_OF_COMMITS], START + HOUR, MATTERS)
    assert (event.severity, event.evidence) == (Severity.INFO, Evidence.LOG)


def test_a_rebalance_in_between_is_no_commit() -> None:
    """It ends with the next commit, not with the generation that the log shows before."""
    over = generation(2, member("a", [0]), member("b", [1]), at=START + 6 * MINUTE)
    history = [*BEGIN, *MINUTE_OF_COMMITS, over, *beat((0, 1), 6 * MINUTE + 500, 7 * MINUTE)]
    _, resolved = told(history, START + 8 * MINUTE)
    assert resolved.time_ms == START + 6 * MINUTE + 500


def test_members_that_come_back_are_given_time() -> None:
    """A group without members pauses nothing; after that, the wait counts from their return."""
    history = [*BEGIN, *MINUTE_OF_COMMITS, emptied(2, at=START + 2 * MINUTE)]
    back = generation(3, member("a", [0, 1]), at=START + HOUR)
    assert told([*history, back], START + HOUR + 2 * MINUTE) == []
    (event,) = told([*history, back], START + HOUR + 3 * MINUTE)
    check(event.fact, since_ms=START + HOUR)
    ended = emptied(4, at=START + 2 * HOUR)
    assert [one.time_ms for one in told([*history, back, ended], START + 3 * HOUR)][1:] == [START + 2 * HOUR]


def test_groups_of_all_kinds_that_commit() -> None:
    """KIP-848 groups, and groups that never had members, such as Flink's."""
    modern = [*first_join(at=START), *MINUTE_OF_COMMITS]
    for history in (modern, MINUTE_OF_COMMITS):
        assert [one.time_ms for one in told(history, START + HOUR)] == [START + 3 * MINUTE + 1]


def test_a_slow_group() -> None:
    """A checkpoint every ten minutes: the wait grows with the usual gap."""
    history = [*BEGIN, *beat((0,), 0, 5 * HOUR, every=10 * MINUTE)]
    (event,) = told(history, START + 12 * HOUR)
    check(
        event.fact, usual_gap_ms=1_048_576, threshold_ms=10_485_760, since_ms=START + 5 * HOUR - 10 * MINUTE
    )


def randomly(seed: int) -> list[Raw]:
    """Commits at random moments, six a minute on the average."""
    random, at = Random(seed), 0
    history = []
    for number in range(300):
        at += max(1, round(random.expovariate(1 / 10_000)))
        history.append(commit("t", 0, number, at=START + at))
    return [*BEGIN, *history]


@pytest.mark.parametrize(
    "history",
    [
        *(pytest.param(randomly(seed), id=f"at random {seed}") for seed in range(5)),
        pytest.param([*BEGIN, *beat((0,), 5_000, 99_000)], id="nineteen commits"),
        pytest.param([asked_for(at=START), *MINUTE_OF_COMMITS[:1]], id="one commit"),
        pytest.param([*BEGIN, *MINUTE_OF_COMMITS, emptied(2, at=START + 2 * MINUTE)], id="nobody is there"),
    ],
)
def test_no_pause_is_found(history: list[Raw]) -> None:
    """Where commits are irregular, few, or not expected."""
    assert told(history, START + HOUR) == []


@st.composite
def lives(draw: Any) -> list[Raw]:
    """Stretches of regular commits and pauses of any length; now and then the members leave or rebalance."""
    history, at, number = [*BEGIN], START + 1_000, 1
    for _ in range(draw(st.integers(1, 6))):
        every = draw(st.sampled_from([1_000, 5_000, 30_000]))
        for _ in range(draw(st.integers(1, 30))):
            history += [
                commit("t", partition, at // 1_000, at=at) for partition in range(draw(st.integers(1, 2)))
            ]
            at += every
        at += draw(st.sampled_from([0, 60_000, 99_999, 200_000, 900_000]))
        kind = draw(st.sampled_from(["go on", "go on", "rebalance", "leave and come back"]))
        if kind != "go on":
            gone = [emptied(number + 1, at=at)] if kind == "leave and come back" else []
            number, at = number + 1 + len(gone), at + 1_000
            history += [*gone, generation(number, member("a", [0, 1]), at=at)]
            at += draw(st.sampled_from([1, 150_000]))
    return placed(history)


@given(lives(), st.data())
def test_batches_do_not_matter(records: list[Raw], data: st.DataObject) -> None:
    """One call or many, with a restart after each: the same pauses, to the millisecond."""
    end_ms = records[-1].at + HOUR
    _, whole = read(records, CONTEXT, end_ms)
    times = sorted(data.draw(st.sets(st.sampled_from([one.at for one in records]), max_size=8)))
    blob, events = Group(GROUP, CONTEXT).snapshot(), list[Event]()
    for low, high in pairwise([-1, *times, end_ms]):
        group = Group.from_snapshot(GROUP, CONTEXT, blob)
        events += group.apply(observed([one for one in records if low < one.at <= high]), high)
        blob = group.snapshot()
    assert pauses(events) == pauses(whole)
