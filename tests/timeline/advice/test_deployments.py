"""Rolling restarts and their cost, alone and added up."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from groupreplay.coordinator.simulation.script import MINUTE_MS, STATIC
from groupreplay.coordinator.simulation.script_steps import Roll, ScriptedEvent
from groupreplay.timeline.advice.deployments import deployment_sums, deployments
from groupreplay.timeline.advice.finding import Deployment
from support.simulated.advised import scripted, simulated, true_lengths

HOURLY = scripted(ScriptedEvent(after_ms=20 * MINUTE_MS, every_ms=60 * MINUTE_MS, steps=(Roll(),)), members=3)


def test_each_rolling_restart_has_its_cost(tmp_path: Path) -> None:
    """Of three members: the range holds how long the group truly stood still; static ones cost nothing."""
    path = tmp_path / "a.parquet"
    (history,) = simulated(HOURLY, path, groups=1)
    truth = true_lengths(path)[history.group_id]
    made = deployments(history)
    assert [deployment.members for deployment in made] == [3, 3]
    for deployment in made:
        within = [at for at in truth if deployment.since_ms <= at <= deployment.until_ms]
        least, most = deployment.stopped_ms
        assert most is not None
        true_ms = sum(truth[at] for at in within)
        assert least <= true_ms <= most
        assert deployment.likely_stopped_ms is not None
        assert deployment.likely_stopped_ms[0] <= true_ms <= deployment.likely_stopped_ms[1]
        assert deployment.rebalances == len(deployment.events) == len(within)
    static = HOURLY.with_client({"group.instance.id": STATIC})
    (still,) = simulated(static, tmp_path / "b.parquet", groups=1)
    assert [(each.rebalances, each.stopped_ms) for each in deployments(still)] == [(0, (0, 0))] * 2


def test_a_second_wave_at_once_is_counted_once(tmp_path: Path) -> None:
    """Each rebalance is that of one deployment, also where the next one begins within half a minute."""
    rolls = Roll(pace_ms=20_000, down_ms=6_000), Roll(pace_ms=20_000, down_ms=6_000, at_ms=60_000)
    event = ScriptedEvent(after_ms=5 * MINUTE_MS, every_ms=60 * MINUTE_MS, steps=rolls)
    (history,) = simulated(scripted(event, members=3), tmp_path / "a.parquet", groups=1, hours=0.5)
    first, second = deployments(history)
    assert second.since_ms - first.until_ms < 30_000
    assert not {*first.events} & {*second.events}
    assert (first.rebalances, second.rebalances) == (6, 6)


def made(group: str, at_ms: int, team: str | None, stopped_ms: tuple[int, int | None]) -> Deployment:
    """A deployment of four rebalances."""
    return Deployment(
        group_id=group,
        since_ms=at_ms,
        until_ms=at_ms + 60,
        members=2,
        rebalances=4,
        stopped_ms=stopped_ms,
        records=None if team is None else 100,
        events=(),
        labels={} if team is None else {"team": team},
    )


def test_sums_by_label_beside_the_time_before() -> None:
    """All, then each value, the longest stop first; what has no bound makes a sum without one."""
    every = [
        made("a", 1_000, "red", (10, 20)),
        made("b", 1_100, "blue", (10, 50)),
        made("b", 500, "blue", (1, 2)),
        made("c", 1_200, None, (0, 0)),
    ]
    told = [
        (
            each.value,
            each.deployments,
            each.groups,
            each.stopped_ms,
            each.records,
            each.before,
            each.stopped_before_ms,
        )
        for each in deployment_sums(every, "team", 1_000, 0)
    ]
    assert told == [
        (None, 3, 3, (20, 70), 200, 1, (1, 2)),
        ("blue", 1, 1, (10, 50), 100, 1, (1, 2)),
        ("red", 1, 1, (10, 20), 100, 0, (0, 0)),
        (None, 1, 1, (0, 0), None, 0, (0, 0)),
    ]
    (alone,) = deployment_sums([made("a", 1_000, None, (3, None))], "team", 1_000, None)
    assert (alone.stopped_ms, alone.before, alone.stopped_before_ms) == ((3, None), None, None)
    assert deployment_sums(every, "team", 9_000, None) == []


def test_likely_stops_of_independent_deployments_are_added() -> None:
    """The widths by their squares; one of which only bounds are known counts with both of them."""
    every = [
        replace(made("a", 1_000, None, (0, 9_000)), likely_stopped_ms=(2_000, 5_000)),
        replace(made("b", 1_100, None, (0, 9_000)), likely_stopped_ms=(3_000, 7_000)),
    ]
    (both,) = deployment_sums(every, "team", 1_000, None)
    assert (both.stopped_ms, both.likely_stopped_ms) == ((0, 18_000), (6_000, 11_000))
    assert (both.before, both.likely_stopped_before_ms) == (None, None)
    (all_three,) = deployment_sums([*every, made("c", 1_200, None, (10, 500))], "team", 1_000, None)
    assert all_three.likely_stopped_ms == (6_010, 11_500)
    (unbounded,) = deployment_sums([*every, made("c", 1_200, None, (10, None))], "team", 1_000, None)
    assert unbounded.likely_stopped_ms is None
