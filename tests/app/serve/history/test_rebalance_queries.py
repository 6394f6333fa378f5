"""Rebalances with begin and end: only what is proven is between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from groupreplay.state.events.event import Event
from groupreplay.state.events.group_events import RebalanceCompleted
from support.job.sink_messages import START, events, stable
from support.serve.asked_site import AskedSite
from support.serve.written_clusters import messages, served_cluster, take

NOW = START + 3_600_000
NOTHING_KNOWN = {
    "sync_ms": None,
    "join_ms_min": None,
    "join_ms_max": None,
    "duration_ms": None,
    "duration_upper_bound_ms": None,
}
#: What an event says -> how long the rebalance took at least, and at most.
DURATIONS: list[tuple[dict[str, int], int, int | None]] = [
    ({}, 0, None),
    ({"duration_ms": 700}, 700, 700),
    ({"sync_ms": 200}, 200, None),
    ({"sync_ms": 200, "duration_upper_bound_ms": 9_000}, 200, 9_200),
    (
        {"sync_ms": 200, "join_ms_min": 3_000, "join_ms_max": 4_000, "duration_upper_bound_ms": 9_000},
        3_200,
        4_200,
    ),
]


def completed(at_s: int, **known: int) -> Event:
    """The end of a rebalance so many seconds after the begin, with these durations."""
    _, told = stable()
    one = next(event for event in told if isinstance(event.fact, RebalanceCompleted))
    changed: dict[str, Any] = {**NOTHING_KNOWN, **known}
    fact = replace(one.fact, **changed)  # type: ignore[type-var]
    assert one.cause is not None
    return replace(one, fact=fact, time_ms=START + 1_000 * at_s, cause=replace(one.cause, offset=at_s))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AskedSite]:
    """One rebalance a minute in ``orders``, and one in ``pay``."""
    with served_cluster(tmp_path_factory.mktemp("rebalances"), NOW) as cluster:
        said = [completed(60 * number, **known) for number, (known, *_) in enumerate(DURATIONS)]
        take(cluster, messages(events(said, "orders"), NOW), NOW)
        take(cluster, messages(events([completed(1_000)], "pay"), NOW, first=100), NOW)
        yield AskedSite(NOW, cluster)


def test_begin_and_end(site: AskedSite) -> None:
    """It ends with the assignment, and begins where that is proven; the earliest begin is named where there is one."""
    shown = site.json("/api/rebalances?groups=orders")
    found = [
        (one["until_ms"] - one["since_ms"], one["earliest_ms"] and one["until_ms"] - one["earliest_ms"])
        for one in reversed(shown["rebalances"])
    ]
    assert found == [(least, most) for _, least, most in DURATIONS]
    assert {(one["label"], one["group_id"]) for one in shown["rebalances"]} == {("orders", "orders")}
    assert "took 3.2 s .. 4.2 s" in shown["rebalances"][0]["text"]


def test_groups_and_times(site: AskedSite) -> None:
    """Some groups, also as Grafana names several or all of them; by the time of the assignment; in parts."""
    paths = {
        "": 6,
        "groups=.*": 6,
        "groups=pay": 1,
        "groups=pay&groups=orders": 6,
        "groups=nobody|pay": 1,
        "groups=nobody": 0,
        f"since={START + 60_000}&until={START + 180_000}": 2,
    }
    counts = {query: len(site.json(f"/api/rebalances?{query}")["rebalances"]) for query in paths}
    assert counts == paths
    first = site.json("/api/rebalances?limit=4")
    rest = site.json(f"/api/rebalances?limit=4&cursor={first['next']}")
    times = [one["until_ms"] for page in (first, rest) for one in page["rebalances"]]
    assert (len(times), rest["next"]) == (6, None)
    assert times == sorted(times, reverse=True)
