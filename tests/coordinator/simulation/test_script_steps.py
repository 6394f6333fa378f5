"""The steps of clients: each kind of step, and steps that have no effect."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from groupreplay.coordinator.simulation.scenario_file import STEPS, ScriptedEvent
from groupreplay.coordinator.simulation.script import CRASH, HANG, RESUME, START, STOP, ClientStep
from groupreplay.coordinator.simulation.script_steps import StepPlan

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
#: A step as a tuple: seconds since the event, action, client.
Act = tuple[float, Any, int]


def plan_of(*events: dict[str, Any], members: int = 3, seed: int = 0, duration_ms: int = HOUR_MS) -> StepPlan:
    """The plan with all steps, those of the first members included."""
    plan = StepPlan(numbers=random.Random(seed), duration_ms=duration_ms, members=members)
    plan.draw(msgspec.convert(events, tuple[ScriptedEvent, ...]))
    return plan


def after(*events: dict[str, Any], members: int = 3, seed: int = 0) -> list[Act]:
    """The steps behind the starts of the first members, in seconds since a minute after the last start."""
    steps = plan_of(*events, members=members, seed=seed).steps
    first_ms = steps[members - 1].at_ms + MINUTE_MS
    return [((step.at_ms - first_ms) / 1_000, step.action, step.client) for step in steps[members:]]


def once(*steps: dict[str, Any], **fields: Any) -> list[Act]:
    """The steps of one event that happens once."""
    return after({"steps": steps}, **fields)


def test_every_member_starts_within_four_seconds() -> None:
    """In the first tenth of the time, for long times in the first ten minutes; always in the order of time."""
    for seed in range(50):
        for duration_ms in (MINUTE_MS, 24 * HOUR_MS):
            steps = plan_of(members=5, seed=seed, duration_ms=duration_ms).steps
            assert {(step.action, step.client) for step in steps} == {(START, number) for number in range(5)}
            assert steps == sorted(steps, key=lambda step: step.at_ms)
            assert steps[-1].at_ms - steps[0].at_ms < 4_000
            assert steps[0].at_ms < min(duration_ms // 10, 10 * MINUTE_MS) + 4_000


PLAIN: dict[str, tuple[list[dict[str, Any]], list[Act]]] = {
    "start of a new client": ([{"do": "start", "member": 7}], [(0, START, 7)]),
    "stop": ([{"do": "stop", "member": 1}], [(0, STOP, 1)]),
    "stop that is a crash": ([{"do": "stop", "member": 1, "crash": 1.0}], [(0, CRASH, 1)]),
    "crash": ([{"do": "crash", "member": 1}], [(0, CRASH, 1)]),
    "hang and resume": (
        [{"do": "hang", "member": 1}, {"at": "5s", "do": "resume", "member": 1}],
        [(0, HANG, 1), (5, RESUME, 1)],
    ),
    "slow poll": (
        [{"do": "slow-poll", "member": 2, "takes": "90s"}],
        [(0, HANG, 2), (90, RESUME, 2)],
    ),
    "restart": (
        [{"do": "restart", "member": 1, "down": "8s", "crash": 1.0}],
        [(0, CRASH, 1), (8, START, 1)],
    ),
    "all": (
        [{"do": "stop", "member": "all"}, {"at": "1s", "do": "start", "member": "all"}],
        [*((0, STOP, one) for one in range(3)), *((1, START, one) for one in range(3))],
    ),
    "rolling": (
        [{"do": "rolling", "pace": "10s", "down": "2s"}],
        [(t + d, action, one) for one, t in enumerate((0, 10, 20)) for d, action in ((0, STOP), (2, START))],
    ),
    "only those that run are rolled": (
        [{"do": "stop", "member": 1}, {"at": "1s", "do": "rolling", "pace": "10s", "down": "2s"}],
        [(0, STOP, 1), (1, STOP, 0), (3, START, 0), (11, STOP, 2), (13, START, 2)],
    ),
    "steps without effect": (
        [
            {"do": "start", "member": 1},
            {"do": "stop", "member": 5},
            {"do": "crash", "member": 5},
            {"do": "hang", "member": 5},
            {"do": "resume", "member": 1},
            {"do": "restart", "member": 5},
            {"do": "slow-poll", "member": 5, "takes": "1s"},
        ],
        [],
    ),
    "a client that ends hangs no more": (
        [{"do": "hang", "member": 1}, {"do": "crash", "member": 1}, {"do": "resume", "member": 1}],
        [(0, HANG, 1), (0, CRASH, 1)],
    ),
    "a slow poll of a client that ends before": (
        [
            {"do": "slow-poll", "member": 1, "takes": "9s"},
            {"at": "1s", "do": "restart", "member": 1, "down": "1s"},
        ],
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
    plain = {step["do"] for steps, _ in PLAIN.values() for step in steps}
    assert plain | {"deploy", "scale"} == {one.__struct_config__.tag for one in STEPS}


@pytest.mark.parametrize("order", ["stop-first", "start-first"])
def test_a_deployment_replaces_all_members(order: str) -> None:
    """The new clients have never run; one set is gone, or there, before the other one begins to change."""
    steps = once({"do": "deploy", "order": order, "gap": "30s"})
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
    orders = {once({"do": "deploy", "order": "either"}, seed=seed)[0][1] for seed in range(20)}
    assert orders == {START, STOP}


def test_a_group_is_scaled_between_two_sizes() -> None:
    """Both are reached; each client that starts is new."""
    steps = after({"every": "1m", "steps": [{"do": "scale", "least": 2, "most": 5}]}, members=3)
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

    def chosen(member: str) -> list[int]:
        step = {"do": "restart", "member": member, "down": "1s"}
        return [one for _, action, one in after({"every": "30s", "steps": [step]}) if action is STOP]

    assert chosen("next")[:7] == [0, 1, 2, 0, 1, 2, 0]
    assert set(chosen("random")) == {0, 1, 2}
    steps = once({"do": "stop", "member": 0}, *[{"at": "1s", "do": "crash", "member": "next"}] * 3)
    assert [one for _, action, one in steps if action is CRASH] == [1, 2]


def test_a_share_of_the_ends_are_crashes() -> None:
    """A restart draws for each member; members that stop together end in the same way."""
    step = {"do": "restart", "member": 1, "down": "1s", "crash": 0.25}
    ends = [action for _, action, _ in after({"every": "10s", "steps": [step]}) if action is not START]
    assert 50 < ends.count(CRASH) < 130
    together = {
        tuple(action for _, action, _ in once({"do": "stop", "member": "all", "crash": 0.5}, seed=seed))
        for seed in range(20)
    }
    assert together == {(STOP,) * 3, (CRASH,) * 3}


def test_an_event_occurs_until_the_end() -> None:
    """First after its time since the last start, then again and again; steps of a cycle take turns."""
    plan = plan_of(
        {
            "after": "10m",
            "every": "20m",
            "cycle": [[{"do": "stop", "member": 1}], [{"do": "start", "member": 1}]],
        }
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
    stop = {"after": "2m", "steps": [{"do": "stop", "member": "all"}]}
    roll = {"after": "2m", "steps": [{"at": "1s", "do": "rolling"}]}
    assert [action for _, action, _ in after(roll, stop)] == [STOP, STOP, STOP]


def test_new_clients_have_numbers_that_no_step_names() -> None:
    """Otherwise a client that was scaled up could be one that a step starts."""
    scale = {"every": "1m", "steps": [{"do": "scale", "least": 1, "most": 8}]}
    named = {"steps": [{"do": "start", "member": 9}]}
    assert min(one for _, action, one in after(scale, named) if action is START and one != 9) > 9


def test_one_member_of_a_roll_out_is_killed() -> None:
    """Each time another one; all come back, or new clients take their places."""
    chosen = set()
    for seed in range(20):
        steps = once({"do": "rolling", "killed": 1}, members=4, seed=seed)
        ends = {client: action for _, action, client in steps if action is not START}
        assert sorted(ends) == [0, 1, 2, 3]
        (killed,) = [client for client, action in ends.items() if action is CRASH]
        chosen.add(killed)
        assert sum(action is START for _, action, _ in steps) == 4
        replaced = once({"do": "deploy", "killed": 1}, members=4, seed=seed)
        assert sorted(str(action) for _, action, _ in replaced) == sorted(
            map(str, [CRASH, STOP, STOP, STOP, START, START, START, START])
        )
    assert chosen == {0, 1, 2, 3}


def test_no_more_members_are_killed_than_run() -> None:
    """A group may have become smaller."""
    ends = [action for _, action, _ in once({"do": "rolling", "killed": 9}, members=2) if action is not START]
    assert ends == [CRASH, CRASH]
