"""``/api/deployments``: rolling restarts of the last week in the events of the history, by team."""

from __future__ import annotations

import json
from pathlib import Path

from groupreplay.app.serve.history.deployment_queries import WEEK_MS, WeekOfDeployments
from support.job.sink_messages import events, stuck
from support.pictures.deployments import rolled_events
from support.pictures.live_pages import STUCK_MS
from support.serve.written_clusters import messages, served_cluster, take


def test_deployments_of_the_week(tmp_path: Path) -> None:
    """All groups first, then by team; with the least only, because no event tells of commits. Kept for ten minutes."""
    told, end_ms = rolled_events(tmp_path)
    with served_cluster(tmp_path, end_ms) as cluster:
        take(cluster, messages(told, end_ms), end_ms)
        week = WeekOfDeployments(cluster)
        found = week.now()
        assert (found.since_ms, found.until_ms, found.groups, found.left_out) == (
            end_ms - WEEK_MS,
            end_ms,
            2,
            0,
        )
        assert [(each.label, each.value) for each in found.sums] == [
            (None, None),
            *sorted([("team", "blue"), ("team", None)], key=lambda pair: _rank(found.texts, pair[1])),
        ]
        assert found.texts[0].startswith(f"{found.sums[0].deployments} deployments of 2 groups made ")
        assert all(text.endswith(" or more") for text in found.texts)
        assert found.page == "docs/advice.md#deployments"
        assert week.now() is found
        later = end_ms + 600_000
        cluster.clock = lambda: later
        assert week.now().until_ms == later


def _rank(texts: list[str], value: str | None) -> int:
    name = "no team: " if value is None else f"team {value}: "
    return next(number for number, text in enumerate(texts) if text.startswith(name))


def test_the_link_is_beside_the_runbook_of_conditions(tmp_path: Path) -> None:
    """Their events name the page that the rules have."""
    _, emitted = stuck()
    told = [json.loads(value) for value in events(emitted, "g")]
    named = [event for event in told if event["data"].get("runbook")]
    for event in named:
        event["data"]["runbook"] = "https://docs.example.com/runbook.md#rebalance-stuck"
    with served_cluster(tmp_path, STUCK_MS) as cluster:
        take(cluster, messages([json.dumps(event).encode() for event in named], STUCK_MS), STUCK_MS)
        assert WeekOfDeployments(cluster).now().page == "https://docs.example.com/advice.md#deployments"


def test_a_history_without_deployments(tmp_path: Path) -> None:
    """There is nothing to say."""
    with served_cluster(tmp_path, 1_000) as cluster:
        found = WeekOfDeployments(cluster).now()
        assert (found.sums, found.texts, found.groups) == ([], [], 0)
