"""The built-in scenarios: each script is consistent, and equal random numbers give equal scripts."""

from __future__ import annotations

import random

import pytest

from groupreplay.coordinator.simulation.scenarios import SCENARIOS
from groupreplay.coordinator.simulation.script import (
    CRASH,
    HANG,
    HOUR_MS,
    RESUME,
    START,
    STOP,
    ClientAction,
    Committer,
    Script,
    max_running,
)


def hour_of(name: str, seed: int) -> Script:
    """A scenario's script for an hour."""
    return SCENARIOS[name].draw(random.Random(seed), HOUR_MS)


def test_every_scenario_has_a_title() -> None:
    """Each its own; the list is in the order of the names."""
    assert list(SCENARIOS) == sorted(SCENARIOS)
    assert len({scenario.title for scenario in SCENARIOS.values()} - {""}) == len(SCENARIOS) == 43
    assert all(scenario.contradiction() is None for scenario in SCENARIOS.values())


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_script_can_be_played(name: str) -> None:
    """Steps are in order; only a running client ends, only one that is not running starts; partitions suffice."""
    scenario = SCENARIOS[name]
    for seed in range(12 if "-50-" in name else 50):
        script = scenario.draw(random.Random(seed), HOUR_MS)
        assert list(script.steps) == sorted(script.steps, key=lambda step: step.at_ms)
        running: set[int] = set()
        for step in script.steps:
            assert (step.client in running) == (step.action is not START), (seed, step)
            if step.action is START:
                running.add(step.client)
            elif step.action in (STOP, CRASH):
                running.discard(step.client)
        assert (script.partitions >= max_running(script.steps)) is (name != "idle")


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_same_numbers_give_the_same_script(name: str) -> None:
    """Other numbers give another script."""
    assert hour_of(name, 1) == hour_of(name, 1)
    assert hour_of(name, 1) != hour_of(name, 2)


def test_a_mixed_cluster_has_groups_of_every_kind() -> None:
    """Most of them have members and are healthy."""
    mixed = SCENARIOS["mixed"]
    scripts = [mixed.draw(random.Random(seed), HOUR_MS) for seed in range(400)]
    verbs = [{step.action for step in script.steps} for script in scripts]
    assert sum(script.simple for script in scripts) > 20
    assert sum(verb == {START} for verb in verbs) > 200
    assert all(any(action in verb for verb in verbs) for action in set(ClientAction) - {RESUME})
    assert {script.committer for script in scripts} == set(Committer)


def test_a_simple_group_has_no_members() -> None:
    """Its client only commits."""
    assert hour_of("simple", 0).simple


def test_a_stuck_group_hangs_before_another_member_comes() -> None:
    """So the rebalance that the new member starts cannot end."""
    steps = hour_of("stuck", 0).steps
    hanging = next(place for place, step in enumerate(steps) if step.action is HANG)
    assert steps[hanging + 1].action is START
    assert steps[hanging + 1].client not in {step.client for step in steps[: hanging + 1]}


def test_an_autoscaler_starts_new_members() -> None:
    """A client that starts again with its name and host would be taken for a crash loop."""
    steps = hour_of("autoscale", 3).steps
    started = [step.client for step in steps if step.action is START]
    assert len(started) == len(set(started)) > 2


def test_processes_in_conflict_share_an_instance_id_and_take_turns() -> None:
    """The second one starts first; from then on each start fences the other."""
    one = hour_of("conflict", 0)
    assert [one.instance_id_of(client, "g") for client in range(4)] == ["g-i0", "g-i1", "g-i2", "g-i1"]
    later = [(step.action, step.client) for step in one.steps[3:8]]
    assert later == [(START, 3), (CRASH, 1), (START, 1), (CRASH, 3), (START, 3)]


def test_consumer_groups_are_known_before_anything_is_drawn() -> None:
    """Their records have topic ids, so a capture needs the topics' names."""
    with_consumers = {name for name in SCENARIOS if SCENARIOS[name].uses_consumer_groups}
    assert with_consumers == {
        *("kip848", "migration", "rolling-restart-10-kip848", "stuck-kip848", "loading")
    }
