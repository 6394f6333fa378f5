"""The scripts of the scenarios: each is consistent, and equal random numbers give equal scripts."""

from __future__ import annotations

import random

import pytest

from groupreplay.state.simulation.scenarios import SCENARIOS, simple, stuck
from groupreplay.state.simulation.script import ClientAction, ClientStep, Script, max_running

START, STOP, CRASH, HANG, RESUME = ClientAction

HOUR_MS = 3_600_000


def script(name: str, seed: int) -> Script:
    """A scenario's script for an hour."""
    return SCENARIOS[name](random.Random(seed), HOUR_MS)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_script_can_be_played(name: str) -> None:
    """Steps are in order; only a running client ends, only one that is not running starts; partitions suffice."""
    for seed in range(50):
        one = script(name, seed)
        assert list(one.steps) == sorted(one.steps, key=lambda step: step.at_ms)
        running: set[int] = set()
        for step in one.steps:
            assert (step.client in running) == (step.action is not START), (seed, step)
            if step.action is START:
                running.add(step.client)
            elif step.action in (STOP, CRASH):
                running.discard(step.client)
        assert (one.partitions >= max_running(one.steps)) is (name != "idle")


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_same_numbers_give_the_same_script(name: str) -> None:
    """Other numbers give another script."""
    assert script(name, 1) == script(name, 1)
    assert script(name, 1) != script(name, 2)


def test_a_mixed_cluster_has_groups_of_every_kind() -> None:
    """Most of them have members and are healthy."""
    scripts = [script("mixed", seed) for seed in range(400)]
    verbs = [{step.action for step in one.steps} for one in scripts]
    assert sum(one.simple for one in scripts) > 20
    assert sum(one == {START} for one in verbs) > 200
    assert all(any(action in one for one in verbs) for action in set(ClientAction) - {RESUME})


def test_a_simple_group_has_no_members() -> None:
    """Its client only commits."""
    assert simple(random.Random(0), HOUR_MS).simple


def test_a_stuck_group_hangs_before_another_member_comes() -> None:
    """So the rebalance that the new member starts cannot end."""
    steps = stuck(random.Random(0), HOUR_MS).steps
    hanging = next(place for place, step in enumerate(steps) if step.action is HANG)
    assert steps[hanging + 1].action is START
    assert steps[hanging + 1].client not in {step.client for step in steps[: hanging + 1]}


def test_who_runs_at_once_is_counted_while_it_runs() -> None:
    """A hanging client still runs; a stopped or crashed one does not."""
    started = [ClientStep(at_ms, START, at_ms) for at_ms in (0, 1)]
    assert max_running([*started, ClientStep(2, STOP, 0), ClientStep(3, START, 2)]) == 2
    assert max_running([*started, ClientStep(2, HANG, 0), ClientStep(3, START, 2)]) == 3


def test_an_autoscaler_starts_new_members() -> None:
    """A client that starts again with its name and host would be taken for a crash loop."""
    steps = script("autoscale", 3).steps
    started = [step.client for step in steps if step.action is START]
    assert len(started) == len(set(started)) > 2
