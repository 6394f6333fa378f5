"""What a capture begins with, when it follows, and when it stops."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.inspection import capture as capture_module
from groupreplay.streaming.inspection.capture import capture
from groupreplay.streaming.inspection.capture_file import read_captures
from groupreplay.streaming.kafka.clients import Connection, TopicIdentity
from groupreplay.streaming.kafka.topic_reader import ProgressCallback, Rows, no_progress
from groupreplay.streaming.prober.probes_topic import ProbesPlace
from support.histories.raw_records import Raw
from support.job.captures import rows_batch
from support.job.probes import probes_batch, summed_up

CLUSTER = Cluster(bootstrap_servers="h:1")
BACKLOG = [[Raw(0, 0, 1, b"k", b"v"), Raw(0, 1, 2, b"k", b"v")], [Raw(1, 0, 3, b"k", None)]]
LATER = [[Raw(1, 1, 4, b"k", b"v")], [Raw(0, 2, 5, b"k", b"v")]]


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[int, int]]:
    """A topic with a backlog, to which records are added while it is followed; notes where that began."""
    followed_from: list[Mapping[int, int]] = []

    def read(cluster: Cluster, *, progress: ProgressCallback = no_progress) -> Rows:
        identity = TopicIdentity("c", "__consumer_offsets", "e", 2, {})
        batches = (rows_batch(rows) for rows in BACKLOG)
        return Rows("c", "e", batches, Connection(cluster), identity, {0: 2, 1: 1})

    def follow(
        _: Connection, topic: str, starts: Mapping[int, int], until: Callable[[], bool]
    ) -> Iterator[pa.RecordBatch]:
        followed_from.append(starts)
        for rows in LATER:
            if until():
                return
            yield rows_batch(rows)

    names = iter([{"id-1": "orders"}, {"id-2": "payments"}])
    monkeypatch.setattr(Connection, "topic_names", lambda _: next(names))
    monkeypatch.setattr(capture_module, "read_topic", read)
    monkeypatch.setattr(capture_module, "follow_topic", follow)
    return followed_from


def positions(path: Path) -> list[tuple[int, int]]:
    """Partition and offset of all rows of a capture."""
    rows = read_captures([path])
    assert (rows.cluster_id, rows.era) == ("c", "e")
    batches = rows.batches
    return [(row["partition"], row["offset"]) for batch in batches for row in batch.to_pylist()]


def test_backlog_only(topic: list[Mapping[int, int]], tmp_path: Path) -> None:
    """Without a duration the capture ends where the topic ended when it began."""
    path = tmp_path / "a.parquet"
    assert capture(CLUSTER, path) == 3
    assert (positions(path), topic) == ([(0, 0), (0, 1), (1, 0)], [])


def test_following_begins_where_the_backlog_ended(topic: list[Mapping[int, int]], tmp_path: Path) -> None:
    """No record between the two is lost or read twice; the time counts from the end of the backlog."""
    times = iter([100.0, 109.0, 111.0])
    path = tmp_path / "a.parquet"
    assert capture(CLUSTER, path, follow_seconds=10, clock=lambda: next(times)) == 4
    assert (positions(path), topic) == ([(0, 0), (0, 1), (1, 0), (1, 1)], [{0: 2, 1: 1}])


def test_probes_go_along(
    topic: list[Mapping[int, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that stand there, and those that came while the log was followed; the log is read as before."""
    batches = [probes_batch([summed_up(at=at)]) for at in (1, 2)]
    place = ProbesPlace(CLUSTER, "group-probes")

    class Found:
        """A topic of probes that grows."""

        batches = (probes_batch([summed_up(at=1)]),)

        def since(self) -> list[pa.RecordBatch]:
            """What came later, at the next offset."""
            later = probes_batch([summed_up(at=1), summed_up(at=2)])
            return [later.slice(1)]

    monkeypatch.setattr(capture_module, "open_probes", lambda asked: Found() if asked is place else None)
    path = tmp_path / "a.parquet"
    times = iter([0.0, 1.0, 2.0, 99.0])
    assert capture(CLUSTER, path, probes=place, follow_seconds=10, clock=lambda: next(times)) == 7
    assert positions(path) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    read = pa.Table.from_batches(read_captures([path]).probes)
    assert read["value"].to_pylist() == [batch["value"][0].as_py() for batch in batches]


def test_topics_are_named(topic: list[Mapping[int, int]], tmp_path: Path) -> None:
    """As the cluster knew them when the capture began, and those that came while it was followed."""
    times = iter([100.0, 111.0])
    path = tmp_path / "a.parquet"
    capture(CLUSTER, path, follow_seconds=10, clock=lambda: next(times))
    assert read_captures([path]).topic_names == {"id-1": "orders", "id-2": "payments"}


def test_an_interrupt_ends_the_following(topic: list[Mapping[int, int]], tmp_path: Path) -> None:
    """Ctrl-C keeps what was read so far."""
    seen: list[int] = []

    def progress(done: int, total: int | None) -> None:
        seen.append(done)
        os.kill(os.getpid(), signal.SIGINT)

    path = tmp_path / "a.parquet"
    assert capture(CLUSTER, path, follow_seconds=10, progress=progress, clock=lambda: 0.0) == 4
    assert (seen, pq.ParquetFile(path).metadata.num_rows) == ([4], 4)


def test_an_interrupt_before_that_leaves_no_file(
    topic: list[Mapping[int, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a backlog is no capture."""

    def broken(rows: list[Raw]) -> Iterator[pa.RecordBatch]:
        yield rows_batch(rows)
        raise KeyboardInterrupt

    whole = capture_module.read_topic(CLUSTER)
    half = Rows("c", "e", broken(BACKLOG[0]), whole.connection, whole.identity, whole.ends)
    monkeypatch.setattr(capture_module, "read_topic", lambda *_, **__: half)
    with pytest.raises(KeyboardInterrupt):
        capture(CLUSTER, tmp_path / "a.parquet", follow_seconds=10)
    assert list(tmp_path.iterdir()) == []
