"""The steps of clients: each kind of step, and steps that have no effect."""

from __future__ import annotations

import random
from typing import Any

import pytest

from groupreplay.coordinator.simulation.script import (
    CRASH,
    HANG,
    HOUR_MS,
    MINUTE_MS,
    RESUME,
    SECOND_MS,
    START,
    STOP,
    About,
    Between,
    ClientStep,
    ShareOfTime,
)
from groupreplay.coordinator.simulation.script_steps import (
    Crash,
    Deploy,
    DeployOrder,
    Hang,
    Member,
    Restart,
    Resume,
    Roll,
    Scale,
    ScriptedEvent,
    ScriptedStep,
    SlowPoll,
    Start,
    StepPlan,
    Stop,
)

#: A step as a tuple: seconds since the event, action, client.
Act = tuple[float, Any, int]


def plan_of(*events: ScriptedEvent, members: int = 3, seed: int = 0, duration_ms: int = HOUR_MS) -> StepPlan:
    """The plan with all steps, those of the first members included."""
    plan = StepPlan(numbers=random.Random(seed), duration_ms=duration_ms, members=members)
    plan.draw(events)
    return plan


def after(*events: ScriptedEvent, members: int = 3, seed: int = 0) -> list[Act]:
    """The steps behind the starts of the first members, in seconds since a minute after the last start."""
    steps = plan_of(*events, members=members, seed=seed).steps
    first_ms = steps[members - 1].at_ms + MINUTE_MS
    return [((step.at_ms - first_ms) / 1_000, step.action, step.client) for step in steps[members:]]


def once(*steps: ScriptedStep, **fields: Any) -> list[Act]:
    """The steps of one event that happens once."""
    return after(ScriptedEvent(steps=steps), **fields)


def test_every_member_starts_within_four_seconds() -> None:
    """In the first tenth of the time, for long times in the first ten minutes; always in the order of time."""
    for seed in range(50):
        for duration_ms in (MINUTE_MS, 24 * HOUR_MS):
            steps = plan_of(members=5, seed=seed, duration_ms=duration_ms).steps
            assert {(step.action, step.client) for step in steps} == {(START, number) for number in range(5)}
            assert steps == sorted(steps, key=lambda step: step.at_ms)
            assert steps[-1].at_ms - steps[0].at_ms < 4_000
            assert steps[0].at_ms < min(duration_ms // 10, 10 * MINUTE_MS) + 4_000


PLAIN: dict[str, tuple[list[ScriptedStep], list[Act]]] = {
    "start of a new client": ([Start(7)], [(0, START, 7)]),
    "stop": ([Stop(1)], [(0, STOP, 1)]),
    "stop that is a crash": ([Stop(1, crash=1.0)], [(0, CRASH, 1)]),
    "crash": ([Crash(1)], [(0, CRASH, 1)]),
    "hang and resume": ([Hang(1), Resume(1, at_ms=5 * SECOND_MS)], [(0, HANG, 1), (5, RESUME, 1)]),
    "slow poll": ([SlowPoll(2, 90 * SECOND_MS)], [(0, HANG, 2), (90, RESUME, 2)]),
    "restart": ([Restart(1, down_ms=8 * SECOND_MS, crash=1.0)], [(0, CRASH, 1), (8, START, 1)]),
    "all": (
        [Stop("all"), Start("all", at_ms=SECOND_MS)],
        [*((0, STOP, one) for one in range(3)), *((1, START, one) for one in range(3))],
    ),
    "rolling": (
        [Roll(pace_ms=10 * SECOND_MS, down_ms=2 * SECOND_MS)],
        [(t + d, action, one) for one, t in enumerate((0, 10, 20)) for d, action in ((0, STOP), (2, START))],
    ),
    "only those that run are rolled": (
        [Stop(1), Roll(pace_ms=10 * SECOND_MS, down_ms=2 * SECOND_MS, at_ms=SECOND_MS)],
        [(0, STOP, 1), (1, STOP, 0), (3, START, 0), (11, STOP, 2), (13, START, 2)],
    ),
    "steps without effect": (
        [Start(1), Stop(5), Crash(5), Hang(5), Resume(1), Restart(5), SlowPoll(5, SECOND_MS)],
        [],
    ),
    "a client that ends hangs no more": ([Hang(1), Crash(1), Resume(1)], [(0, HANG, 1), (0, CRASH, 1)]),
    "a slow poll of a client that ends before": (
        [SlowPoll(1, 9 * SECOND_MS), Restart(1, down_ms=SECOND_MS, at_ms=SECOND_MS)],
        [(0, HANG, 1), (1, STOP, 1), (2, START, 1)],
    ),
}


@pytest.mark.parametrize("name", PLAIN)
def test_steps(name: str) -> None:
    """Each at its time since the event."""
    steps, expected = PLAIN[name]
    assert once(*steps) == expected


def test_each_kind_of_step_has_a_test() -> None:
    """Those that draw numbers have their own below."""
    plain = {type(step) for steps, _ in PLAIN.values() for step in steps}
    kinds = {kind for base in ScriptedStep.__subclasses__() for kind in (base.__subclasses__() or [base])}
    assert plain | {Deploy, Scale} == kinds


@pytest.mark.parametrize("order", ["stop-first", "start-first"])
def test_a_deployment_replaces_all_members(order: DeployOrder) -> None:
    """The new clients have never run; one set is gone, or there, before the other one begins to change."""
    steps = once(Deploy(order, gap_ms=30 * SECOND_MS))
    ends = [step for step in steps if step[1] is STOP]
    starts = [step for step in steps if step[1] is START]
    assert {one for _, _, one in ends} == {0, 1, 2}
    assert {one for _, _, one in starts} == {3, 4, 5}
    first, second, within = (ends, starts, 2) if order == "stop-first" else (starts, ends, 4)
    assert 0 <= first[0][0] <= first[-1][0] < within
    assert second[0][0] >= 30
    assert len(steps) == 6


def test_a_deployment_in_either_order() -> None:
    """Drawn each time."""
    orders = {once(Deploy("either"), seed=seed)[0][1] for seed in range(20)}
    assert orders == {START, STOP}


def test_a_group_is_scaled_between_two_sizes() -> None:
    """Both are reached; each client that starts is new."""
    steps = after(ScriptedEvent(every_ms=MINUTE_MS, steps=(Scale(2, 5),)), members=3)
    size, sizes = 3, set()
    for _, action, _ in steps:
        size += 1 if action is START else -1
        sizes.add(size)
    assert sizes == {2, 3, 4, 5}
    started = [one for _, action, one in steps if action is START]
    assert started == list(range(3, 3 + len(started)))
    assert len(steps) > 40


def test_members_in_turn_and_at_random() -> None:
    """``next`` goes round, ``random`` reaches everybody; a member that is down is not chosen."""

    def chosen(member: Member) -> list[int]:
        step = Restart(member, down_ms=SECOND_MS)
        return [
            one
            for _, action, one in after(ScriptedEvent(every_ms=30 * SECOND_MS, steps=(step,)))
            if action is STOP
        ]

    assert chosen("next")[:7] == [0, 1, 2, 0, 1, 2, 0]
    assert set(chosen("random")) == {0, 1, 2}
    steps = once(Stop(0), *[Crash("next", at_ms=SECOND_MS)] * 3)
    assert [one for _, action, one in steps if action is CRASH] == [1, 2]


def test_a_share_of_the_ends_are_crashes() -> None:
    """A restart draws for each member; members that stop together end in the same way."""
    step = Restart(1, down_ms=SECOND_MS, crash=0.25)
    ends = [
        action
        for _, action, _ in after(ScriptedEvent(every_ms=10 * SECOND_MS, steps=(step,)))
        if action is not START
    ]
    assert 50 < ends.count(CRASH) < 130
    together = {
        tuple(action for _, action, _ in once(Stop("all", crash=0.5), seed=seed)) for seed in range(20)
    }
    assert together == {(STOP,) * 3, (CRASH,) * 3}


def test_an_event_occurs_until_the_end() -> None:
    """First after its time since the last start, then again and again; steps of a cycle take turns."""
    plan = plan_of(
        ScriptedEvent(after_ms=10 * MINUTE_MS, every_ms=20 * MINUTE_MS, cycle=((Stop(1),), (Start(1),)))
    )
    first_ms = plan.steps[2].at_ms + 10 * MINUTE_MS
    turns = [(STOP, 0), (START, 20), (STOP, 40)]
    assert plan.steps[3:] == [
        ClientStep(first_ms + late * MINUTE_MS, action, 1)
        for action, late in turns
        if first_ms + late * MINUTE_MS < HOUR_MS
    ]


def test_events_are_in_one_order_of_time() -> None:
    """Each sees what the others have done."""
    stop = ScriptedEvent(after_ms=2 * MINUTE_MS, steps=(Stop("all"),))
    roll = ScriptedEvent(after_ms=2 * MINUTE_MS, steps=(Roll(at_ms=SECOND_MS),))
    assert [action for _, action, _ in after(roll, stop)] == [STOP, STOP, STOP]


def test_new_clients_have_numbers_that_no_step_names() -> None:
    """Otherwise a client that was scaled up could be one that a step starts."""
    scale = ScriptedEvent(every_ms=MINUTE_MS, steps=(Scale(1, 8),))
    named = ScriptedEvent(steps=(Start(9),))
    assert min(one for _, action, one in after(scale, named) if action is START and one != 9) > 9


def test_one_member_of_a_roll_out_is_killed() -> None:
    """Each time another one; all come back, or new clients take their places."""
    chosen = set()
    for seed in range(20):
        steps = once(Roll(killed=1), members=4, seed=seed)
        ends = {client: action for _, action, client in steps if action is not START}
        assert sorted(ends) == [0, 1, 2, 3]
        (killed,) = [client for client, action in ends.items() if action is CRASH]
        chosen.add(killed)
        assert sum(action is START for _, action, _ in steps) == 4
        replaced = once(Deploy(killed=1), members=4, seed=seed)
        assert sorted(str(action) for _, action, _ in replaced) == sorted(
            map(str, [CRASH, STOP, STOP, STOP, START, START, START, START])
        )
    assert chosen == {0, 1, 2, 3}


def test_no_more_members_are_killed_than_run() -> None:
    """A group may have become smaller."""
    ends = [action for _, action, _ in once(Roll(killed=9), members=2) if action is not START]
    assert ends == [CRASH, CRASH]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, "either steps or cycle"),
        ({"steps": (Stop(0),), "cycle": ((Stop(0),),)}, "either steps or cycle"),
        ({"steps": (Stop(0),), "every_ms": 999}, "1000 or more"),
        ({"steps": (Stop(0),), "every_ms": About(SECOND_MS)}, "1000 or more"),
        ({"steps": (Stop(0),), "every_ms": Between(0, 9 * SECOND_MS)}, "1000 or more"),
        ({"steps": (Stop(0),), "every_ms": ShareOfTime(0.5)}, "1000 or more"),
    ],
)
def test_an_event_that_cannot_be(fields: dict[str, Any], sentence: str) -> None:
    """Without steps, or so often that the simulation would not end."""
    with pytest.raises(ValueError, match=sentence):
        ScriptedEvent(**fields)
