"""Clusters that are served without Kafka: their history is written by the test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from groupreplay.app.exporter.feed import Limits
from groupreplay.app.serve.history.writer import Bounds, TopicMessage
from groupreplay.app.serve.watched_cluster import ClusterToServe, WatchedCluster
from groupreplay.streaming.config.settings import Cluster, TopicNames
from groupreplay.streaming.kafka import clients

DAY_MS = 86_400_000
TOPICS = {"group-events": "E", "group-states": "S"}


@contextmanager
def served_cluster(
    folder: Path,
    now_ms: int | Callable[[], int],
    name: str = "kafka",
    *,
    age_ms: int = 7 * DAY_MS,
    size_bytes: int = 1 << 30,
    **more: Any,
) -> Iterator[WatchedCluster]:
    """A cluster whose topics nobody reads; ``now_ms``: the present, or a clock."""
    nowhere = Cluster(bootstrap_servers="127.0.0.1:1")
    served = ClusterToServe(name=name, source=nowhere, sink=nowhere, topics=TopicNames())
    clock = now_ms if callable(now_ms) else lambda: now_ms
    bounds = Bounds(age_ms=age_ms, size_bytes=size_bytes)
    made = WatchedCluster(served, folder / f"{name}.db", bounds, Limits(), clock, **more)
    made.history.begin(TOPICS)
    with pytest.MonkeyPatch.context() as patch:
        # A timeline asks for the records first: nobody will answer.
        patch.setattr(clients, "REQUEST_SECONDS", 0.2)
        try:
            yield made
        finally:
            made.close()


def messages(events: Iterable[bytes | None] = (), written_ms: int = 0, first: int = 0) -> list[TopicMessage]:
    """Messages of ``group-events``, at offsets in a row."""
    return [
        TopicMessage(True, 0, first + number, b"", value, written_ms) for number, value in enumerate(events)
    ]


def states(documents: Sequence[tuple[str, bytes | None]]) -> list[TopicMessage]:
    """Messages of ``group-states``."""
    return [
        TopicMessage(False, 0, number, group.encode("utf-8", "surrogatepass"), value, 0)
        for number, (group, value) in enumerate(documents)
    ]


def take(cluster: WatchedCluster, taken: Sequence[TopicMessage], now_ms: int) -> None:
    """Stores messages, as the feed does."""
    cluster.history.take("group-events", taken, now_ms)
