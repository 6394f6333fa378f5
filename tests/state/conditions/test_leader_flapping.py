"""``leader.flapping``: a leadership that goes back and forth, until it has stayed for as long as its window."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from groupreplay.codecs import MemberMetadata
from groupreplay.coordinator.simulation.script import START as STARTED
from groupreplay.coordinator.simulation.script import STOP, ClientStep, Script
from groupreplay.state import Context, Severity
from groupreplay.state.conditions.leader_flapping import LeaderFlappingDetector
from groupreplay.state.policy.rules import Policy
from support.histories.builders import (
    CONTEXT,
    Raw,
    asked_for,
    check,
    emptied,
    generation,
    gone,
    member,
    names,
    placed,
    read_in_batches,
)
from support.histories.probed import MINUTE
from support.histories.simulated import SECOND, rolling_restart, simulated, starts
from support.histories.slot_lives import HOUR, START, said

NAME = "leader.flapping"


def pod(place: str, start: int = 0, **fields: Any) -> MemberMetadata:
    """The member of a place at its n-th start."""
    return member(f"{place}-{start}", [0], client_id="c", host=f"/{place}", **fields)


def led_by(*leaders: tuple[int, MemberMetadata]) -> list[Raw]:
    """A new group's generations at these times after START, each with its leader beside a member that never leads."""
    rounds = [generation(n, one, pod("z"), at=START + at) for n, (at, one) in enumerate(leaders, 1)]
    return [asked_for(at=START - 1), *rounds]


def alternating(*times: int) -> list[Raw]:
    """Two places lead in turn: each time the one that leads is restarted, and a third member stays."""
    history = [asked_for(at=START - 1), generation(1, pod("a"), pod("b"), pod("z"), at=START)]
    for turn, at in enumerate(times):
        leaving, leader = "ab"[turn % 2], pod("ba"[turn % 2], turn)
        back = pod(leaving, turn + 1)
        history.append(generation(2 * turn + 2, leader, pod("z"), at=START + at))
        history.append(
            generation(2 * turn + 3, back, leader, pod("z"), at=START + at + 5_000, leader=leader.member_id)
        )
    return history


def test_a_leader_that_changes_three_times() -> None:
    """Not at two; at the third, until it has led for ten minutes; who led is named, the latest one first."""
    assert said(alternating(MINUTE, 2 * MINUTE), NAME)[0] == []
    found, events = said(alternating(MINUTE, 2 * MINUTE, 3 * MINUTE), NAME)
    assert found == [(NAME, "firing", START + 3 * MINUTE), (NAME, "resolved", START + 13 * MINUTE)]
    times = tuple(START + number * MINUTE for number in (1, 2, 3))
    fact: Any = events[0].fact
    check(fact, since_ms=times[-1], changed_ms=times, threshold_ms=10 * MINUTE, window_ms=10 * MINUTE)
    assert [(one.member_id, one.client_host) for one in fact.members] == [("b-2", "/b"), ("a-1", "/a")]
    assert events[0].severity is Severity.WARN


def test_it_lasts_while_the_leader_changes() -> None:
    """A change within ten minutes of the one before continues it, one after eleven begins nothing new."""
    found, _ = said(alternating(*(at * MINUTE for at in (1, 2, 3, 12, 21, 32))), NAME)
    assert found == [(NAME, "firing", START + 3 * MINUTE), (NAME, "resolved", START + 31 * MINUTE)]


def test_changes_too_far_apart() -> None:
    """The first is exactly ten minutes old when the third comes, or a moment less."""
    assert said(alternating(MINUTE, 2 * MINUTE, 11 * MINUTE), NAME)[0] == []
    assert len(said(alternating(MINUTE, 2 * MINUTE, 11 * MINUTE - 1), NAME)[0]) == 2


@pytest.mark.parametrize(
    ("leaders", "why"),
    [
        ([pod("a"), pod("b"), pod("d"), pod("e"), pod("f")], "a rolling restart: each loses it once"),
        ([pod("a", number) for number in range(5)], "one slot that comes back"),
        ([pod("ab"[number % 2], instance_id="i") for number in range(5)], "a static member that moves"),
        (
            [
                member(f"t-{n}", [0], client_id="connector-consumer-files-0", host=f"/{'ab'[n % 2]}")
                for n in range(5)
            ],
            "tasks of a Connect sink",
        ),
    ],
)
def test_what_is_no_flapping(leaders: list[MemberMetadata], why: str) -> None:
    """Other members lead four times in four minutes, and nothing is said."""
    history = led_by(*((number * MINUTE, leader) for number, leader in enumerate(leaders)))
    assert said(history, NAME)[0] == [], why


def test_two_rolling_restarts_in_ten_minutes() -> None:
    """The slot that lost the leadership in the first one loses it again, after all members were restarted."""
    members = [pod("a"), pod("b"), pod("d")]
    history, at = [asked_for(at=START - 1), generation(1, *members, at=START)], START
    for turn in range(6):
        place, at = "abd"[turn % 3], at + MINUTE
        members = [one for one in members if one.client_host != f"/{place}"]
        history += [generation(2 * turn + 2, *members, at=at)]
        members = [*members, pod(place, turn + 1)]
        history += [generation(2 * turn + 3, *members, at=at + 10_000)]
    assert said(history, NAME)[0] == []


def test_the_third_loss_of_one_slot() -> None:
    """Of two members both are restarted each time, as in rolling restarts; but not three times in ten minutes."""
    history = [asked_for(at=START - 1)]
    for number in range(7):
        at = START + number * MINUTE
        history += [generation(2 * number + 1, pod("ab"[number % 2], number), at=at)]
        history += [emptied(2 * number + 2, at=at + 1_000)]
    assert said(history, NAME)[0][0] == (NAME, "firing", START + 5 * MINUTE)


def test_a_group_that_is_deleted_resolves_it() -> None:
    """Its history ends with it."""
    history = alternating(MINUTE, 2 * MINUTE, 3 * MINUTE)
    history += [emptied(8, at=START + 4 * MINUTE), gone(at=START + 5 * MINUTE)]
    assert said(history, NAME)[0][-1] == (NAME, "resolved", START + 5 * MINUTE)


def test_it_survives_restarts_and_is_bounded() -> None:
    """A restart after each record changes nothing, and the state of a leadership without end stays small."""
    history = placed(alternating(*(number * MINUTE for number in range(1, 200))))
    until = START + HOUR * 5
    group, events = read_in_batches(([record] for record in history), CONTEXT, until)
    _, at_once = read_in_batches([history], CONTEXT, until)
    assert [one for one in events if one.fact.NAME == NAME] == [
        one for one in at_once if one.fact.NAME == NAME
    ]
    assert names(events).count(NAME) == 2
    slot_history = group._snapshot.slot_history
    assert slot_history is not None
    assert len(slot_history.leaders) == 33


def test_a_clock_that_is_set_back_begins_anew() -> None:
    """Changes of a time that never was are forgotten with the next generation, and do not count before."""
    history = alternating(HOUR, HOUR + MINUTE)
    history += [generation(6, pod("b", 9), pod("z"), at=START + MINUTE)]
    history += [generation(7, pod("b", 9), pod("a", 10), pod("z"), at=START + MINUTE + 5_000)]
    history += [generation(8, pod("a", 10), pod("z"), at=START + 2 * MINUTE)]
    assert said(history, NAME)[0] == []


def test_the_numbers_are_thresholds() -> None:
    """Changes in a minute for whoever wants that; more than the history keeps is refused."""
    policy = Policy(thresholds={NAME: {"window_ms": MINUTE}})
    context: Context = replace(CONTEXT, policy=policy)
    assert said(alternating(10_000, 80_000), NAME, context=context)[0] == []
    found = said(alternating(10_000, 20_000, 30_000), NAME, context=context)[0]
    assert found == [(NAME, "firing", START + 30_000), (NAME, "resolved", START + 90_000)]
    for refused in ({"times": 33}, {"window_ms": 2 * HOUR + 1}):
        with pytest.raises(ValueError, match=NAME):
            LeaderFlappingDetector(**refused)


def test_simulated_members_that_are_restarted_in_turn() -> None:
    """Two of three every two minutes flap; a rolling restart of the same members does not."""
    steps = starts(range(3))
    for turn in range(8):
        at_ms = (60 + 2 * turn) * MINUTE
        steps += [ClientStep(at_ms, STOP, turn % 2), ClientStep(at_ms + 5 * SECOND, STARTED, turn % 2)]
    script = Script(steps=tuple(steps), partitions=6)
    flapping = simulated(script, 80 * MINUTE)
    rolling = simulated(rolling_restart(3, pause_ms=20 * SECOND), 80 * MINUTE)
    fired = [
        [event.fact.NAME for event in read_in_batches([records], CONTEXT, records[-1].at + HOUR)[1]]
        for records in (flapping, rolling)
    ]
    assert [NAME in events for events in fired] == [True, False]
