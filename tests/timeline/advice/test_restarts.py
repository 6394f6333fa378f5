"""Static membership, random instance ids and two waves: found where planted, and as large as the model says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from groupreplay.coordinator.simulation.scenario import Scenario
from groupreplay.coordinator.simulation.script import MINUTE_MS, SECOND_MS, STATIC, About, Between
from groupreplay.coordinator.simulation.script_steps import Restart, Roll, ScriptedEvent, Start, Stop
from groupreplay.state.policy.context import SessionSettings
from groupreplay.timeline.advice.finding import Kind
from support.histories.builders import generation, member
from support.pictures.timelines import BEGIN, MINUTE
from support.simulated.advised import found, saved, scripted, simulated, small

ROLLED = scripted(ScriptedEvent(every_ms=About(20 * MINUTE_MS, 2 * MINUTE_MS), steps=(Roll(),)))
#: Half of the restarts are crashes, and half of them take longer than a session.
MIXED = scripted(
    ScriptedEvent(
        every_ms=About(10 * MINUTE_MS),
        steps=(Restart("random", Between(5 * SECOND_MS, 90 * SECOND_MS), crash=0.5),),
    )
)


MODERN = ROLLED.with_client({"group.protocol": "consumer"})


@pytest.mark.parametrize("scenario", [ROLLED, MIXED, MODERN], ids=["rolled", "mixed", "modern"])
@pytest.mark.parametrize("seed", [1, 2])
def test_static_membership_against_the_model(tmp_path: Path, scenario: Scenario, seed: int) -> None:
    """The range holds the difference between the dynamic members and the same script with instance ids."""
    before = simulated(scenario, tmp_path / "a.parquet", groups=3, hours=1.5, seed=seed)
    after = simulated(
        scenario.with_client({"group.instance.id": STATIC}),
        tmp_path / "b.parquet",
        groups=3,
        hours=1.5,
        seed=seed,
    )
    told = 0
    for dynamic, static in zip(before, after, strict=True):
        truth = len(dynamic.rebalances) - len(static.rebalances)
        bounds = saved(found(dynamic, Kind.STATIC_MEMBERSHIP), "rebalances")
        told += bounds is not None
        assert bounds is None or bounds[0] <= truth <= bounds[1], (dynamic.group_id, truth, bounds)
        assert found(static, Kind.STATIC_MEMBERSHIP) is None
    assert told >= 1


def test_the_range_of_rolling_restarts_is_narrow(tmp_path: Path) -> None:
    """Members that are away for seconds are surely back within a session of 45 s."""
    for history in simulated(ROLLED, tmp_path / "a.parquet", seed=4):
        least, most = saved(found(history, Kind.STATIC_MEMBERSHIP), "rebalances")
        assert 0.9 * most <= least <= most


def test_the_session_of_a_consumer_group_is_that_of_its_brokers(tmp_path: Path) -> None:
    """Nobody's is Kafka's default for such groups, 5 s of heartbeats; what the group has set is not assumed."""
    (history,) = simulated(MODERN, tmp_path / "a.parquet", groups=1, hours=1.5, seed=4)
    assumed = found(history, Kind.STATIC_MEMBERSHIP)
    assert assumed is not None
    assert assumed.assumed == {"session_timeout_ms": 45_000, "heartbeat_interval_ms": 5_000}
    use = replace(history.use, session=SessionSettings(60_000, 60_000, 4_000))
    known = found(replace(history, use=use), Kind.STATIC_MEMBERSHIP)
    assert known is not None
    assert (known.assumed, "back within the session of 1 min 0 s" in known.text) == ({}, True)


def test_instance_ids_that_nobody_takes_again() -> None:
    """Each start has another id; members that keep theirs are no finding."""

    def lived(names: list[list[str]]) -> object:
        records = [generation(0, at=BEGIN, since=BEGIN, protocol_type="")]
        for number, present in enumerate(names, 1):
            members = [member(f"m-{name}", (place,), instance_id=name) for place, name in enumerate(present)]
            records.append(generation(number, *members, at=BEGIN + 10 * number * MINUTE))
        return small(records)

    random = lived([["p-1", "p-2"], ["p-2", "p-3"], ["p-3", "p-4"], ["p-4", "p-5"], ["p-5", "p-6"]])
    finding = found(random, Kind.RANDOM_INSTANCE_IDS)
    assert finding is not None
    assert (saved(finding, "rebalances"), finding.setting) == ((0, 4), "group.instance.id")
    kept = lived([["p-1", "p-2"], ["p-1"], ["p-1", "p-2"], ["p-2"], ["p-1", "p-2"]])
    assert found(kept, Kind.RANDOM_INSTANCE_IDS) is None


def test_deployments_in_two_waves(tmp_path: Path) -> None:
    """Every few hours all members are restarted twice: the second wave is the effect."""
    waves = ScriptedEvent(
        after_ms=20 * MINUTE_MS,
        every_ms=120 * MINUTE_MS,
        steps=(Roll(), Roll(at_ms=12 * MINUTE_MS)),
    )
    (history,) = simulated(scripted(waves, members=3), tmp_path / "a.parquet", groups=1, hours=6)
    bounds = saved(found(history, Kind.TWO_WAVES), "rebalances")
    assert bounds is not None
    assert 15 <= bounds[0] == bounds[1] <= 18
    (single,) = simulated(
        scripted(ScriptedEvent(every_ms=120 * MINUTE_MS, steps=(Roll(),)), members=3),
        tmp_path / "b.parquet",
        groups=1,
        hours=6,
    )
    assert found(single, Kind.TWO_WAVES) is None


def test_who_comes_to_stay_is_no_restart(tmp_path: Path) -> None:
    """A new client is no restart of one that has left."""
    scaled = ScriptedEvent(every_ms=15 * MINUTE_MS, steps=(Start(4), Stop(4, at_ms=5 * MINUTE_MS)))
    for history in simulated(scripted(scaled), tmp_path / "a.parquet", hours=2):
        finding = found(history, Kind.STATIC_MEMBERSHIP)
        assert finding is None
