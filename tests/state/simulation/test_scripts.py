"""Scripts of simulated groups: each can be played, and the same numbers give the same one."""

from __future__ import annotations

import random

import pytest

from groupreplay.state.simulation.acts import Act, Script, Verb, most_at_once
from groupreplay.state.simulation.scripts import SCENARIOS, simple, stuck

HOUR_MS = 3_600_000


def script(name: str, seed: int) -> Script:
    """A scenario's script for an hour."""
    return SCENARIOS[name](random.Random(seed), HOUR_MS)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_script_can_be_played(name: str) -> None:
    """Acts by time; whoever ends has started, whoever starts is not there; each member can own something."""
    for seed in range(50):
        one = script(name, seed)
        assert list(one.acts) == sorted(one.acts, key=lambda act: act.at_ms)
        running: set[int] = set()
        for act in one.acts:
            assert (act.client in running) == (act.verb is not Verb.START), (seed, act)
            if act.verb is Verb.START:
                running.add(act.client)
            elif act.verb in (Verb.STOP, Verb.KILL):
                running.discard(act.client)
        assert (one.partitions >= most_at_once(one.acts)) is (name != "idle")


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_same_numbers_give_the_same_script(name: str) -> None:
    """And others another one."""
    assert script(name, 1) == script(name, 1)
    assert script(name, 1) != script(name, 2)


def test_a_mixed_cluster_has_groups_of_every_kind() -> None:
    """Most of them have members and are well."""
    scripts = [script("mixed", seed) for seed in range(400)]
    verbs = [{act.verb for act in one.acts} for one in scripts]
    assert sum(one.alone for one in scripts) > 20
    assert sum(one == {Verb.START} for one in verbs) > 200
    assert all(any(verb in one for one in verbs) for verb in set(Verb) - {Verb.WAKE})


def test_a_simple_group_has_no_members() -> None:
    """Its client commits, nothing else."""
    assert simple(random.Random(0), HOUR_MS).alone


def test_a_stuck_group_hangs_before_another_member_comes() -> None:
    """So the rebalance that the newcomer begins cannot end."""
    acts = stuck(random.Random(0), HOUR_MS).acts
    hangs = next(place for place, act in enumerate(acts) if act.verb is Verb.HANG)
    assert acts[hangs + 1].verb is Verb.START
    assert acts[hangs + 1].client not in {act.client for act in acts[: hangs + 1]}


def test_who_runs_at_once_is_counted_while_it_runs() -> None:
    """A client that hangs still runs; one that was stopped or killed does not."""
    started = [Act(at_ms, Verb.START, at_ms) for at_ms in (0, 1)]
    assert most_at_once([*started, Act(2, Verb.STOP, 0), Act(3, Verb.START, 2)]) == 2
    assert most_at_once([*started, Act(2, Verb.HANG, 0), Act(3, Verb.START, 2)]) == 3


def test_an_autoscaler_starts_new_members() -> None:
    """One that comes back under its name and host would be taken for a crash loop."""
    acts = script("autoscale", 3).acts
    started = [act.client for act in acts if act.verb is Verb.START]
    assert len(started) == len(set(started)) > 2
