"""Sessions, polls and rebalances that are too short or too long."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from groupreplay.coordinator.simulation.scenarios import SCENARIOS
from groupreplay.coordinator.simulation.script import MINUTE_MS, SECOND_MS, STATIC, About, Between
from groupreplay.coordinator.simulation.script_steps import Crash, Restart, ScriptedEvent, SlowPoll, Start
from groupreplay.timeline.advice.finding import Kind
from groupreplay.timeline.advice.words import effect_text
from support.histories.builders import commit, generation, member
from support.pictures.timelines import BEGIN, MINUTE
from support.simulated.advised import found, saved, scripted, simulated, small, true_lengths

SLOW_STARTS = scripted(
    ScriptedEvent(
        every_ms=About(10 * MINUTE_MS),
        steps=(Restart("random", Between(12 * SECOND_MS, 40 * SECOND_MS), crash=0.3),),
    ),
    **{"group.instance.id": STATIC},
    **{"session.timeout.ms": 20_000},
)


@pytest.mark.parametrize("seed", [1, 2])
def test_session_timeout_against_the_model(tmp_path: Path, seed: int) -> None:
    """The range holds the difference between the short session and the advised one, for each group."""
    for place, short in enumerate(simulated(SLOW_STARTS, tmp_path / "a.parquet", seed=seed)):
        finding = found(short, Kind.SESSION_TIMEOUT)
        assert finding is not None
        longer = SLOW_STARTS.with_client({"session.timeout.ms": int(finding.value)})
        long = simulated(longer, tmp_path / "b.parquet", seed=seed)[place]
        truth, bounds = len(short.rebalances) - len(long.rebalances), saved(finding, "rebalances")
        assert bounds[0] <= truth <= bounds[1], (short.group_id, truth, bounds)
        assert found(long, Kind.SESSION_TIMEOUT) is None


def test_sessions_of_processes_that_did_not_come_back(tmp_path: Path) -> None:
    """They are not counted: a longer session would have changed nothing. Brokers bound that of a KIP-848 group."""
    slow = ScriptedEvent(
        every_ms=About(20 * MINUTE_MS), steps=(Restart(1, Between(70_000, 80_000), crash=1.0),)
    )
    gone = ScriptedEvent(every_ms=About(40 * MINUTE_MS), steps=(Start(8), Crash(8, at_ms=5 * MINUTE_MS)))
    scenario = scripted(slow, gone, **{"group.instance.id": STATIC})
    for history in simulated(scenario, tmp_path / "a.parquet", groups=2):
        finding = found(history, Kind.SESSION_TIMEOUT)
        assert finding is not None
        expired = [
            event for event in history.named("member.left") if event.text("reason") == "session_timeout"
        ]
        back = [event for event in expired if event.text("instance_id").endswith("i1")]
        assert len(back) < len(expired)
        assert f" of {back[0].text('instance_id')} ended {len(back)} times shortly before" in finding.text
        assert (finding.setting, finding.value) == ("session.timeout.ms", "180000")
        modern = found(replace(history, group_type="consumer"), Kind.SESSION_TIMEOUT)
        assert modern is not None
        assert (modern.setting, modern.value) == (
            "consumer.session.timeout.ms",
            "180000; group.consumer.max.session.timeout.ms too",
        )


SLOW_POLLS = scripted(
    ScriptedEvent(
        every_ms=About(6 * MINUTE_MS),
        steps=(SlowPoll("random", Between(40 * SECOND_MS, 100 * SECOND_MS)),),
    ),
    **{"max.poll.interval.ms": 30_000},
)


def test_max_poll_interval_against_the_model(tmp_path: Path) -> None:
    """The range holds the difference between the short interval and Kafka's default, for each group."""
    shorts = simulated(SLOW_POLLS, tmp_path / "a.parquet", groups=2, hours=1)
    longs = simulated(
        SLOW_POLLS.with_client({"max.poll.interval.ms": 300_000}), tmp_path / "b.parquet", groups=2, hours=1
    )
    for short, long in zip(shorts, longs, strict=True):
        truth, bounds = (
            len(short.rebalances) - len(long.rebalances),
            saved(found(short, Kind.MAX_POLL_INTERVAL), "rebalances"),
        )
        assert bounds is not None
        assert bounds[0] <= truth <= bounds[1], (short.group_id, truth, bounds)
        assert found(long, Kind.MAX_POLL_INTERVAL) is None


def test_members_that_gave_up(tmp_path: Path) -> None:
    """The scenario in which a member needs 90 s for a poll, with an interval of 30 s; a healthy group is silent."""
    for history in simulated(SCENARIOS["timeouts"], tmp_path / "a.parquet", hours=3):
        finding = found(history, Kind.MAX_POLL_INTERVAL)
        assert finding is not None
        assert "max.poll.interval.ms of 30.0 s" in finding.text
        least, most = saved(finding, "rebalances")
        assert least == 0 < most <= len(history.rebalances)
    for history in simulated(SCENARIOS["steady"], tmp_path / "b.parquet", hours=1):
        assert found(history, Kind.MAX_POLL_INTERVAL) is None


def test_a_member_that_others_would_have_waited_for(tmp_path: Path) -> None:
    """Where another one joins while a member works, a longer interval makes the group wait: that is told as a cost."""
    short, long, minutes = tmp_path / "a.parquet", tmp_path / "b.parquet", {"max.poll.interval.ms": 300_000}
    simulated(SCENARIOS["timeouts"].with_client(minutes), long, hours=1, seed=2)
    for history in simulated(SCENARIOS["timeouts"], short, hours=1, seed=2):
        finding = found(history, Kind.MAX_POLL_INTERVAL)
        assert finding is not None
        before_ms, after_ms = (sum(true_lengths(path)[history.group_id].values()) for path in (short, long))
        (effect,) = (each for each in finding.effects if each.measure == "stopped_ms")
        assert effect.likely_least is not None
        assert effect.likely_most is not None
        assert (
            effect.least
            <= effect.likely_least
            <= before_ms - after_ms
            <= effect.likely_most
            <= effect.most
            < 0
        )
        assert effect_text(effect).startswith("but about ")


def test_one_member_sets_the_rebalance_timeout() -> None:
    """Half an hour where all others have five minutes; a majority is no outlier."""

    def timeouts(*values_ms: int, committed: bool = False) -> object:
        members = [member(f"m{place}", (place,), rebalance_ms=value) for place, value in enumerate(values_ms)]
        times = [BEGIN + minute * MINUTE for minute in range(5, 51, 5)] if committed else []
        commits = [commit("t", place, 1, at=at) for at in times for place in range(len(values_ms))]
        last = generation(2, *members, at=BEGIN + 60 * MINUTE)
        return small([generation(1, *members, at=BEGIN), *commits, last])

    # No record shows when the second rebalance began: it may have lasted for all of the timeout.
    finding = found(timeouts(300_000, 300_000, 1_800_000), Kind.REBALANCE_TIMEOUT)
    assert finding is not None
    assert (finding.setting, finding.value, saved(finding, "stopped_ms")) == (
        "max.poll.interval.ms",
        "300000",
        (0, 1_800_000),
    )
    assert "client-m2" in finding.text
    # Until ten minutes before its end all were polled, so with five minutes the member would have given up in it.
    committed = found(timeouts(300_000, 300_000, 1_800_000, committed=True), Kind.REBALANCE_TIMEOUT)
    assert saved(committed, "stopped_ms") == (0, 300_000)
    for values_ms in ((300_000, 300_000), (300_000, 1_800_000, 1_800_000), (300_000, 310_000)):
        assert found(timeouts(*values_ms), Kind.REBALANCE_TIMEOUT) is None
