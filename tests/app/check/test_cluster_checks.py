"""What ``check`` makes of a cluster's answers; the answers of a real one are in tests/integration."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from groupreplay.app.check import CheckSettings, Status, Subject, cluster_checks
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.kafka.topic_identity import TopicIdentity

SETTINGS = CheckSettings(source=Cluster(bootstrap_servers="127.0.0.1:1"))
TOPIC = TopicIdentity(
    cluster_id="cluster-1", topic="__consumer_offsets", era="era-1", partitions=8, leaders={}
)


@pytest.mark.parametrize(
    ("records", "newest_ms", "says"),
    [
        ([(700, 900)], 900, "within 0.4 s of this machine's"),
        ([(300, 9_400)], 9_400, "8.9 s ahead of this machine's"),
        ([(300, -8_600)], -8_600, "8.6 s behind this machine's"),
        # A broker before 3.0, which reports its first record for its newest one.
        ([(300, 9_400)], -9_000, "8.9 s ahead of this machine's"),
        ([], 7_000, "7.0 s ahead of this machine's"),
        ([], -9_000, "unknown"),
        ([], None, "unknown"),
        # A transaction ends: its control record is none that can be read.
        ([(300, None)], -9_000, "unknown"),
        ([(300, None), (700, 900)], 900, "within 0.4 s of this machine's"),
    ],
)
def test_clocks(
    monkeypatch: pytest.MonkeyPatch, records: list[tuple[int, int | None]], newest_ms: int | None, says: str
) -> None:
    """A record that appears while the check looks dates the brokers' clock; an old one proves nothing.

    ``records``: when each appears in partition 3, and its timestamp.
    """
    now_ms = [0]

    def high_watermarks(*_: object) -> dict[int, int]:
        return {0: 5, 3: 40 + sum(at <= now_ms[0] for at, _ in records)}

    def record_at(_source: object, partition: int, offset: int, level: str) -> SimpleNamespace | None:
        assert (partition, level) == (3, "read_uncommitted")
        later = list(enumerate((time for at, time in records if at <= now_ms[0]), 40))
        return next(
            (
                SimpleNamespace(offset=lambda at=at: at, timestamp=lambda time=time: (1, time))
                for at, time in later
                if at >= offset and time is not None
            ),
            None,
        )

    source = SimpleNamespace(newest_ms=lambda *_: newest_ms, high_watermarks=high_watermarks)

    def sleep(seconds: float) -> None:
        now_ms[0] += round(seconds * 1000)

    monkeypatch.setattr(cluster_checks.time, "sleep", sleep)
    monkeypatch.setattr(cluster_checks.time, "monotonic", lambda: now_ms[0] / 1000)
    monkeypatch.setattr(cluster_checks, "now_ms", lambda: now_ms[0])
    monkeypatch.setattr(cluster_checks.preflight, "record_at", record_at)
    subject = Subject(SETTINGS)
    subject.__dict__.update(offsets_topic=TOPIC, source=source)
    (found,) = cluster_checks.clock(subject)
    assert says in found.found
    assert found.status is (
        Status.SKIPPED if says == "unknown" else Status.WARNING if says[0] in "78" else Status.OK
    )
