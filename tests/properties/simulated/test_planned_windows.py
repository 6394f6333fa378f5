"""Planned windows change the severity of what is reported, and nothing else."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupreplay.app.simulate.files import CLUSTER_ID, ERA, write_simulation
from groupreplay.coordinator.simulation.scenarios import SCENARIOS
from groupreplay.coordinator.simulation.simulation import BEGIN_MS, SimulationPlan
from groupreplay.state import Context
from groupreplay.state.events.event import Severity
from groupreplay.state.phrases import timestamp
from groupreplay.state.policy.rules import Once, PlannedWindow, Policy
from groupreplay.streaming.engine.replay import Filter, Replay, events_in_order
from groupreplay.streaming.sources.capture import read_captures

MINUTE_MS = 60_000
LENGTH_MS = 60 * MINUTE_MS
Json = dict[str, Any]
_FOLDER = TemporaryDirectory()


@cache
def capture(scenario: str) -> Path:
    """An hour of two groups."""
    path = Path(_FOLDER.name) / f"{scenario}.parquet"
    found = SCENARIOS[scenario]
    write_simulation(
        SimulationPlan.of(found, found.broker, groups=2, duration_ms=LENGTH_MS, seed=1, partitions=2), path
    )
    return path


def events(scenario: str, *windows: PlannedWindow) -> list[Json]:
    """What is reported with these windows."""
    context = Context(
        cluster_id=CLUSTER_ID, era=ERA, probing=True, complete_since_ms=0, policy=Policy(windows=windows)
    )
    driver = Replay(context)
    return [
        json.loads(one) for one in events_in_order(driver.feed(read_captures([capture(scenario)])), Filter())
    ]


@cache
def without_windows(scenario: str) -> tuple[Json, ...]:
    """What is reported without a window."""
    return tuple(events(scenario))


def identity(event: Json) -> tuple[Any, ...]:
    """What a window must not change."""
    data = event["data"]
    return event["type"], event["time"], data.get("group_id"), data.get("condition_id"), data.get("status")


def is_raised(event: Json, window: Once, before: dict[str, int]) -> bool:
    """A condition that holds when the window closes, with the severity that it would have had."""
    at_end = event["time"] == timestamp(window.until_ms)
    return at_end and event["data"].get("status") == "firing" and event["data"]["condition_id"] in before


@pytest.mark.parametrize("scenario", ["stuck", "crash-loop", "conflict"])
@settings(max_examples=8)
@given(
    begin=st.integers(0, 50 * MINUTE_MS),
    length=st.integers(1, 30 * MINUTE_MS),
    cap=st.sampled_from([Severity.INFO, Severity.WARN]),
)
def test_only_the_severity_changes(scenario: str, begin: int, length: int, cap: Severity) -> None:
    """The same events at the same times; inside the window capped, and what outlasts it rises at its end."""
    window = Once(from_ms=BEGIN_MS + begin, until_ms=BEGIN_MS + begin + length)
    planned = events(scenario, PlannedWindow(groups="*", times=window, severity_cap=cap))
    usual = without_windows(scenario)
    lowered: dict[str, int] = {}
    rest = list[Json]()
    for event in planned:
        if event["data"].get("status") == "firing" and is_raised(event, window, lowered):
            lowered.pop(event["data"]["condition_id"])
            continue
        inside = window.from_ms <= BEGIN_MS + _ms_after(event) < window.until_ms
        if inside and event["data"].get("status") == "firing":
            assert event["severitynumber"] <= cap
            lowered[event["data"]["condition_id"]] = event["severitynumber"]
        rest.append(event)
    assert {identity(one) for one in usual} <= {identity(one) for one in planned}
    assert {identity(one) for one in rest} <= {identity(one) for one in usual}


def _ms_after(event: Json) -> int:
    from datetime import datetime

    at = datetime.fromisoformat(event["time"].replace("Z", "+00:00"))
    return round(at.timestamp() * 1000) - BEGIN_MS


@pytest.mark.parametrize("scenario", ["stuck"])
def test_what_outlasts_the_window_rises(scenario: str) -> None:
    """A rebalance that gets stuck inside the window is INFO, and an error at the moment at which the window closes."""
    stuck = next(
        one
        for one in without_windows(scenario)
        if one["type"] == "groupreplay.rebalance.stuck.v1" and one["data"]["status"] == "firing"
    )
    at_ms, name = BEGIN_MS + _ms_after(stuck), stuck["data"]["condition_id"]
    window = Once(from_ms=at_ms - MINUTE_MS, until_ms=at_ms + 2_000)
    mine = [
        (one["data"]["status"], one["severitytext"], one["time"])
        for one in events(scenario, PlannedWindow(groups=stuck["data"]["group_id"], times=window))
        if one["data"].get("condition_id") == name
    ]
    usual = [one for one in without_windows(scenario) if one["data"].get("condition_id") == name]
    assert mine[:2] == [
        ("firing", "INFO", timestamp(at_ms)),
        ("firing", stuck["severitytext"], timestamp(window.until_ms)),
    ]
    assert mine[-1] == ("resolved", usual[-1]["severitytext"], usual[-1]["time"])
