"""Eager rebalances against the model's incremental ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupreplay.coordinator.simulation.script import MINUTE_MS, About
from groupreplay.coordinator.simulation.script_steps import Roll, ScriptedEvent
from groupreplay.timeline.advice.finding import Kind
from support.histories.builders import generation, member
from support.pictures.timelines import BEGIN, MINUTE
from support.simulated.advised import found, saved, scripted, simulated, small, truly_held_ms

ROLLED = scripted(ScriptedEvent(every_ms=About(20 * MINUTE_MS, 2 * MINUTE_MS), steps=(Roll(),)))
COOPERATIVE = {"partition.assignment.strategy": "cooperative-sticky"}


@pytest.mark.parametrize("seed", [1, 2])
def test_incremental_rebalances_against_the_model(tmp_path: Path, seed: int) -> None:
    """Both ranges hold what the cooperative assignor saves: stops of partitions, and how long they were."""
    path = tmp_path / "a.parquet"
    before = simulated(ROLLED, path, groups=4, seed=seed)
    after = simulated(ROLLED.with_client(COOPERATIVE), tmp_path / "b.parquet", groups=4, seed=seed)
    for eager, cooperative in zip(before, after, strict=True):
        finding = found(eager, Kind.INCREMENTAL_REBALANCES)
        stopped_ms = truly_held_ms(path, eager)
        pairs = zip(cooperative.rebalances, cooperative.rebalances[1:], strict=False)
        moved = sum(each.held - each.kept for each in cooperative.rebalances)
        moved_ms = sum((first.held - first.kept) * (second.at_ms - first.at_ms) for first, second in pairs)
        for measure, truth in (
            ("partition_stopped_ms", stopped_ms - moved_ms),
            ("partition_stops", sum(each.held for each in eager.rebalances) - moved),
        ):
            bounds = saved(finding, measure)
            assert bounds is not None
            assert bounds[0] <= truth <= bounds[1], (eager.group_id, measure, truth, bounds)
        assert found(cooperative, Kind.INCREMENTAL_REBALANCES) is None


def test_a_group_of_kip_848_is_incremental(tmp_path: Path) -> None:
    """There is nothing to advise on it."""
    modern = ROLLED.with_client({"group.protocol": "consumer"})
    for history in simulated(modern, tmp_path / "a.parquet"):
        assert found(history, Kind.INCREMENTAL_REBALANCES) is None


def test_partitions_of_a_process_that_was_killed_are_not_kept() -> None:
    """Its successor has its place and its partitions, which stood still all the same: the other member kept its own."""
    records = [
        generation(
            number,
            member("a", (0,)),
            member(f"b-{number}", (1,), client_id="b", host="/10.0.0.2"),
            at=BEGIN + number * 10 * MINUTE,
        )
        for number in range(1, 7)
    ]
    finding = found(small(records), Kind.INCREMENTAL_REBALANCES)
    assert saved(finding, "partition_stops") == (5, 5)
