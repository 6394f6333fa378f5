"""Scenarios: what is drawn from one, and what cannot be one."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from groupreplay.coordinator.simulation.scenario import BrokerRestarts, FailedAppends, GroupSettings, Scenario
from groupreplay.coordinator.simulation.scenarios import SCENARIOS
from groupreplay.coordinator.simulation.script import (
    EVERY_START,
    HANG,
    START,
    STATIC,
    STOP,
    Between,
    ClientStep,
    Committer,
    OneOf,
    Script,
    max_running,
)
from groupreplay.coordinator.simulation.script_steps import ScriptedEvent, Stop

HOUR_MS = 3_600_000


def made(client: Mapping[str, Any] | None = None, **group: Any) -> Scenario:
    """A scenario with these settings of clients and of the group."""
    return Scenario(name="s", client=client or {}, group=GroupSettings(**{"members": 1, **group}))


def drawn(scenario: Scenario, seed: int = 0) -> Script:
    """A script of ten seconds."""
    return scenario.draw(random.Random(seed), 10_000)


def test_who_runs_at_once_is_counted_while_it_runs() -> None:
    """A hanging client still runs; a stopped or crashed one does not."""
    started = [ClientStep(at_ms, START, at_ms) for at_ms in (0, 1)]
    assert max_running([*started, ClientStep(2, STOP, 0), ClientStep(3, START, 2)]) == 2
    assert max_running([*started, ClientStep(2, HANG, 0), ClientStep(3, START, 2)]) == 3


def test_what_a_scenario_leaves_out_is_as_kafka_has_it() -> None:
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
        "committer": Committer.BOTH,
        "poisoned_after_ms": 1_000,
        "metadata_bytes": 7,
        "same_instance_id": ((0, 1),),
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
    assert drawn(made(**group, idle_members=True)).partitions == 3


@pytest.mark.parametrize(
    ("group", "starts"),
    [
        ({"migrates_at_start": 2}, range(2, 1 << 30)),
        ({"migrates_at_start": 2, "returns_at_start": 0}, range(2, 1 << 30)),
        ({"migrates_at_start": 2, "returns_at_start": 3}, range(2, 3)),
    ],
)
def test_a_migration_is_between_two_starts(group: dict[str, int], starts: range) -> None:
    """The second one may be missing; either way there are consumer groups."""
    assert drawn(made(**group)).consumer_starts == starts
    assert made(**group).uses_consumer_groups


def test_a_choice_is_drawn_for_each_group() -> None:
    """In the proportion of its weights; a value with weight 0 never."""
    choice = OneOf((1_000, 2_000, 3_000), (3, 1, 0))
    scenario = made({"auto.commit.interval.ms": choice})
    values = [drawn(scenario, seed).commit_interval_ms for seed in range(200)]
    assert set(values) == {1_000, 2_000}
    assert 120 < values.count(1_000) < 180


def test_settings_win_over_those_of_every_part() -> None:
    """A drawn one is drawn no more."""
    scenario = SCENARIOS["mixed"].with_client({"auto.commit.interval.ms": 77})
    assert {scenario.draw(random.Random(seed), 60_000).commit_interval_ms for seed in range(50)} == {77}


def test_settings_that_a_client_refuses_are_found_in_any_combination() -> None:
    """Also if only one of several drawn values contradicts another setting."""
    session = OneOf((45_000, 6_000))
    wrong = made({"session.timeout.ms": session, "heartbeat.interval.ms": 6_000})
    sentence = "heartbeat.interval.ms = 6000 must be less than session.timeout.ms = 6000"
    whole = Scenario(name="m", mixture=((1, made()), (1, wrong)))
    assert [scenario.contradiction() for scenario in (made(), wrong, whole)] == [None, sentence, sentence]


def test_what_wins_in_a_mixture() -> None:
    """What is given last, in every part; what is not given stays as each part has it."""
    inner = made({"session.timeout.ms": 9_001, "auto.commit.interval.ms": 9_004}, partitions=4)
    mixture = Scenario(name="m", mixture=((1, inner.with_group(members=2)),))
    script = drawn(mixture.with_client({"session.timeout.ms": 9_002}).with_group(partitions=7))
    assert (script.session_timeout_ms, script.commit_interval_ms) == (9_002, 9_004)
    assert (script.partitions, len(script.steps)) == (7, 2)


def test_the_weights_of_a_mixture() -> None:
    """How often each part is drawn."""
    mixture = Scenario(name="m", mixture=((3, made(members=1)), (1, made(members=2))))
    sizes = [len(drawn(mixture, seed).steps) for seed in range(200)]
    assert set(sizes) == {1, 2}
    assert 120 < sizes.count(1) < 180


WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: GroupSettings(members=0), "members and partitions must be 1 or more"),
    (lambda: GroupSettings(partitions=Between(0, 3)), "members and partitions must be 1 or more"),
    (lambda: GroupSettings(mirrored_every_ms=999), "mirrored_every_ms must be 1000 or more"),
    (lambda: GroupSettings(returns_at_start=2), "must be more than migrates_at_start"),
    (lambda: GroupSettings(returns_at_start=2, migrates_at_start=2), "must be more than migrates_at_start"),
    (
        lambda: GroupSettings(returns_at_start=OneOf((0, 1)), migrates_at_start=2),
        "must be more than migrates_at_start",
    ),
    (lambda: BrokerRestarts(down_ms=120_000), "pace_ms must be at least twice down_ms"),
    (lambda: BrokerRestarts(every_ms=480_000), "every_ms must be at least three times pace_ms"),
    (lambda: BrokerRestarts(pace_ms=0, down_ms=0), "pace_ms more than 0"),
    (lambda: BrokerRestarts(election_ms=20_000, loading_ms=21_000), "together must be at most down_ms"),
    (lambda: FailedAppends(last_ms=7_200_000), "less than every_ms"),
    (lambda: FailedAppends(last_ms=0), "more than 0"),
    (lambda: Scenario(name="a b"), "part of group ids"),
    (lambda: Scenario(name="s", broker={"group.max.sise": 2}), "unknown setting 'group.max.sise'"),
    (
        lambda: Scenario(name="s", broker={"group.max.size": 0}),
        "group.max.size must be a whole number, 1 or more, not 0",
    ),
    (
        lambda: made({"group.protocol": OneOf(("classic", "new"))}),
        "group.protocol must be one of classic, consumer, not new",
    ),
    (lambda: Scenario(name="m", mixture=((math.inf, made()),)), "weights of a mixture must be finite"),
    (
        lambda: Scenario(name="m", mixture=((1, made()),), events=(ScriptedEvent(steps=(Stop(0),)),)),
        "a mixture has no events",
    ),
    (
        lambda: Scenario(name="m", mixture=((1, made()),), client={"group.protocol": "consumer"}),
        "a mixture has no",
    ),
    (
        lambda: Scenario(name="m", mixture=((1, SCENARIOS["cluster-restart"]),)),
        "cluster-restart has settings of the brokers",
    ),
]


@pytest.mark.parametrize(("make", "sentence"), WRONG)
def test_what_cannot_be(make: Callable[[], object], sentence: str) -> None:
    """Each is refused when it is made, not when it is drawn."""
    with pytest.raises(ValueError, match=re.escape(sentence)):
        make()
