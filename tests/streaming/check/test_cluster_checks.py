"""What ``check`` makes of a cluster's answers; the answers of a real one are in tests/integration."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from groupreplay.streaming.check import cluster_checks
from groupreplay.streaming.check.result import CheckSettings, Status, Subject
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.clients import TopicIdentity

SETTINGS = CheckSettings(source=Cluster(bootstrap_servers="127.0.0.1:1"))
TOPIC = TopicIdentity(
    cluster_id="cluster-1", topic="__consumer_offsets", era="era-1", partitions=8, leaders={}
)


@pytest.mark.parametrize(
    ("looks", "says"),
    [
        ([(0, 1_000), (500, 1_000), (1_000, 900)], "within 0.4 s of this machine's"),
        ([(0, 1_000), (500, 9_400)], "8.9 s ahead of this machine's"),
        ([(0, -9_000), (500, -8_600)], "8.6 s behind this machine's"),
        ([(0, 7_000)], "7.0 s ahead of this machine's"),
        ([(0, -9_000)], "unknown"),
        ([(0, None)], "unknown"),
    ],
)
def test_clocks(monkeypatch: pytest.MonkeyPatch, looks: list[tuple[int, int | None]], says: str) -> None:
    """The newest record at each look: one that appears dates the brokers' clock, an old one proves nothing."""
    now_ms = [0]
    source = SimpleNamespace(newest_ms=lambda *_: [newest for at, newest in looks if at <= now_ms[0]][-1])

    def sleep(seconds: float) -> None:
        now_ms[0] += round(seconds * 1000)

    monkeypatch.setattr(cluster_checks.time, "sleep", sleep)
    monkeypatch.setattr(cluster_checks.time, "monotonic", lambda: now_ms[0] / 1000)
    monkeypatch.setattr(cluster_checks, "now_ms", lambda: now_ms[0])
    subject = Subject(SETTINGS)
    subject.__dict__.update(offsets_topic=TOPIC, source=source)
    (found,) = cluster_checks.clock(subject)
    assert says in found.found
    assert found.status is (
        Status.SKIPPED if says == "unknown" else Status.WARNING if says[0] in "78" else Status.OK
    )
