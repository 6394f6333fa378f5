"""Scenarios: the scripts of every built-in one are consistent, and equal random numbers give equal scripts."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from groupreplay.app.simulate.scenario_files import built_in_names, load_scenario
from groupreplay.coordinator.simulation.scenario import Scenario
from groupreplay.coordinator.simulation.scenario_file import Choice, ScenarioFile
from groupreplay.coordinator.simulation.script import (
    CRASH,
    EVERY_START,
    HANG,
    RESUME,
    START,
    STATIC,
    STOP,
    ClientAction,
    ClientStep,
    Committer,
    Script,
    max_running,
)

HOUR_MS = 3_600_000


def script(name: str, seed: int) -> Script:
    """A scenario's script for an hour."""
    return load_scenario(name).draw(random.Random(seed), HOUR_MS)


def made(client: Mapping[str, Any] | None = None, **group: Any) -> Scenario:
    """A scenario with these settings of clients and of the group."""
    raw = {"title": "t", "client": dict(client or {}), "group": {"members": 1, **group}}
    return Scenario(name="s", file=msgspec.convert(raw, ScenarioFile))


def drawn(scenario: Scenario, seed: int = 0) -> Script:
    """A script of ten seconds."""
    return scenario.draw(random.Random(seed), 10_000)


@pytest.mark.parametrize("name", built_in_names())
def test_a_script_can_be_played(name: str) -> None:
    """Steps are in order; only a running client ends, only one that is not running starts; partitions suffice."""
    scenario = load_scenario(name)
    for seed in range(12 if "-50-" in name else 50):
        one = scenario.draw(random.Random(seed), HOUR_MS)
        assert list(one.steps) == sorted(one.steps, key=lambda step: step.at_ms)
        running: set[int] = set()
        for step in one.steps:
            assert (step.client in running) == (step.action is not START), (seed, step)
            if step.action is START:
                running.add(step.client)
            elif step.action in (STOP, CRASH):
                running.discard(step.client)
        assert (one.partitions >= max_running(one.steps)) is (name != "idle")


@pytest.mark.parametrize("name", built_in_names())
def test_the_same_numbers_give_the_same_script(name: str) -> None:
    """Other numbers give another script."""
    assert script(name, 1) == script(name, 1)
    assert script(name, 1) != script(name, 2)


def test_a_mixed_cluster_has_groups_of_every_kind() -> None:
    """Most of them have members and are healthy."""
    mixed = load_scenario("mixed")
    scripts = [mixed.draw(random.Random(seed), HOUR_MS) for seed in range(400)]
    verbs = [{step.action for step in one.steps} for one in scripts]
    assert sum(one.simple for one in scripts) > 20
    assert sum(one == {START} for one in verbs) > 200
    assert all(any(action in one for one in verbs) for action in set(ClientAction) - {RESUME})
    assert {one.committer for one in scripts} == set(Committer)


def test_a_simple_group_has_no_members() -> None:
    """Its client only commits."""
    assert script("simple", 0).simple


def test_a_stuck_group_hangs_before_another_member_comes() -> None:
    """So the rebalance that the new member starts cannot end."""
    steps = script("stuck", 0).steps
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


def test_processes_in_conflict_share_an_instance_id_and_take_turns() -> None:
    """The second one starts first; from then on each start fences the other."""
    one = script("conflict", 0)
    assert [one.instance_id_of(client, "g") for client in range(4)] == ["g-i0", "g-i1", "g-i2", "g-i1"]
    later = [(step.action, step.client) for step in one.steps[3:8]]
    assert later == [(START, 3), (CRASH, 1), (START, 1), (CRASH, 3), (START, 3)]


def test_what_a_file_leaves_out_is_as_kafka_has_it() -> None:
    """Only the steps of the first members are drawn."""
    one = drawn(made())
    assert one == Script(steps=one.steps)
    assert [(step.action, step.client) for step in one.steps] == [(START, 0)]


def test_settings_and_the_group_are_in_the_script() -> None:
    """Each by its own name."""
    client = {
        "session.timeout.ms": 10_000,
        "heartbeat.interval.ms": 1_000,
        "max.poll.interval.ms": 60_000,
        "group.protocol": "consumer",
        "group.instance.id": STATIC,
        "partition.assignment.strategy": ("cooperative-sticky",),
        "group.remote.assignor": "range",
        "auto.commit.interval.ms": 2_000,
        "group.membership.operation": "REMAIN_IN_GROUP",
    }
    group = {
        "partitions": 2,
        "simple": True,
        "irregular": True,
        "repeats": 0.5,
        "committer": "both",
        "poisoned-after": "1s",
        "metadata-bytes": 7,
        "same-instance-id": [[0, 1]],
    }
    one = drawn(made(client, **group))
    assert one == Script(
        steps=one.steps,
        simple=True,
        consumer_starts=EVERY_START,
        partitions=2,
        irregular=True,
        repeats=0.5,
        committer=Committer.BOTH,
        poisoned_ms=one.steps[0].at_ms + 1_000,
        metadata_bytes=7,
        shared_instance_ids={1: 0},
        instance_id=STATIC,
        strategies=("cooperative-sticky",),
        remote_assignor="range",
        commit_interval_ms=2_000,
        session_timeout_ms=10_000,
        heartbeat_interval_ms=1_000,
        rebalance_timeout_ms=60_000,
        close="REMAIN_IN_GROUP",
    )


def test_a_topic_has_a_partition_for_each_member() -> None:
    """Unless members may be idle."""
    group = {"members": 5, "partitions": 3}
    assert drawn(made(**group)).partitions == 5
    assert drawn(made(**group, **{"idle-members": True})).partitions == 3


@pytest.mark.parametrize(
    ("group", "starts"),
    [
        ({"migrates-at-start": 2}, range(2, 1 << 30)),
        ({"migrates-at-start": 2, "returns-at-start": 0}, range(2, 1 << 30)),
        ({"migrates-at-start": 2, "returns-at-start": 3}, range(2, 3)),
    ],
)
def test_a_migration_is_between_two_starts(group: dict[str, int], starts: range) -> None:
    """The second one may be missing; either way there are consumer groups."""
    assert drawn(made(**group)).consumer_starts == starts
    assert made(**group).uses_consumer_groups


def test_a_choice_is_drawn_for_each_group() -> None:
    """In the proportion of its weights; a value with weight 0 never."""
    choice = Choice(one_of=(1_000, 2_000, 3_000), weights=(3, 1, 0))
    scenario = made({"auto.commit.interval.ms": choice})
    values = [drawn(scenario, seed).commit_interval_ms for seed in range(200)]
    assert set(values) == {1_000, 2_000}
    assert 120 < values.count(1_000) < 180


def test_settings_win_over_those_of_every_part() -> None:
    """A drawn one is drawn no more."""
    scenario = load_scenario("mixed").with_client({"auto.commit.interval.ms": 77})
    assert {scenario.draw(random.Random(seed), 60_000).commit_interval_ms for seed in range(50)} == {77}


def test_settings_that_a_client_refuses_are_found_in_any_combination() -> None:
    """Also if only one of several drawn values contradicts another setting."""
    session = Choice(one_of=(45_000, 6_000))
    wrong = made({"session.timeout.ms": session, "heartbeat.interval.ms": 6_000})
    sentence = "heartbeat.interval.ms = 6000 must be less than session.timeout.ms = 6000"
    whole = Scenario(name="m", file=wrong.file, parts=((1, made()), (1, wrong)))
    assert [one.contradiction() for one in (made(), wrong, whole)] == [None, sentence, sentence]


def test_consumer_groups_are_known_before_anything_is_drawn() -> None:
    """Their records have topic ids, so a capture needs the topics' names."""
    with_consumers = {name for name in built_in_names() if load_scenario(name).uses_consumer_groups}
    assert with_consumers == {
        *("kip848", "migration", "rolling-restart-10-kip848", "stuck-kip848", "loading")
    }
