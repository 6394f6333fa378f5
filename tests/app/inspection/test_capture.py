"""What a capture begins with, when it follows, when it stops."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaError, KafkaException

from groupreplay.app.inspection import capture as capture_module
from groupreplay.app.inspection.capture import CapturePlan, capture
from groupreplay.codecs import GroupMetadataKey, encode_key
from groupreplay.codecs.consumer import ConsumerGroupMetadataKey
from groupreplay.codecs.share import ShareGroupMetadataKey
from groupreplay.codecs.streams import StreamsGroupMetadataKey
from groupreplay.state import OFFSETS_TOPIC
from groupreplay.state.policy.context import OwnSettings
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.config.retention import Retention
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.contract.log import ProgressCallback, no_progress
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.group_admin import GroupAdmin
from groupreplay.streaming.kafka.topic_identity import TopicIdentity
from groupreplay.streaming.sources.capture import read_captures
from groupreplay.streaming.sources.capture_context import CaptureContext, PartitionExtent, decoded_context
from groupreplay.streaming.sources.source import Rows
from groupreplay.streaming.sources.topic import ProbesPlace
from groupreplay.version import __version__
from support.histories.raw_records import Raw
from support.job.captures import rows_batch
from support.job.probes import probes_batch, summed_up

CLUSTER = Cluster(bootstrap_servers="h:1")
BACKLOG = [[Raw(0, 0, 1, b"k", b"v"), Raw(0, 1, 2, b"k", b"v")], [Raw(1, 0, 3, b"k", None)]]
BEGUN_MS = 1_800_000_000_000
BROKER = {"offsets.retention.minutes": "3", "offsets.retention.check.interval.ms": "7000", "node.id": "1"}
LATER = [[Raw(1, 1, 4, b"k", b"v")], [Raw(0, 2, 5, b"k", b"v")]]


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[int, int]]:
    """A topic with a backlog, to which records are added while it is followed; notes where that began."""
    followed_from: list[Mapping[int, int]] = []

    def read(cluster: Cluster, *, progress: ProgressCallback = no_progress) -> Rows:
        identity = TopicIdentity("c", "__consumer_offsets", "e", 2, {})
        batches = (rows_batch(rows) for rows in BACKLOG)
        bounds = {"ends": {0: 2, 1: 1}, "starts": {0: 0, 1: 0}}
        return Rows(
            "c", "e", batches, Connection(cluster), identity, **bounds, partitions=2, complete_ms=BEGUN_MS
        )

    def follow(
        _: Connection, topic: str, starts: Mapping[int, int], until: Callable[[], bool]
    ) -> Iterator[pa.RecordBatch]:
        followed_from.append(starts)
        for rows in LATER:
            if until():
                return
            yield rows_batch(rows)

    def settings(_: Connection, wanted: Collection[str]) -> dict[str, str]:
        return {name: value for name, value in BROKER.items() if name in wanted}

    monkeypatch.setattr(Connection, "broker_settings", settings)
    monkeypatch.setattr(Connection, "topic_settings", lambda *_: {"cleanup.policy": "compact"})
    names = iter([{"id-1": "orders"}, {"id-2": "payments"}, {}])
    monkeypatch.setattr(Connection, "topic_names", lambda _: next(names))
    monkeypatch.setattr(capture_module, "read_topic", read)
    monkeypatch.setattr(capture_module, "follow_topic", follow)
    return followed_from


def followed(path: Path, **more: Any) -> CapturePlan:
    """A plan with ten seconds after the copy."""
    return CapturePlan(cluster=CLUSTER, path=path, follow_seconds=10, **more)


def positions(path: Path) -> list[tuple[int, int]]:
    """Partition and offset of all rows of a capture."""
    rows = read_captures([path])
    assert (rows.cluster_id, rows.era) == ("c", "e")
    batches = rows.batches
    return [(row["partition"], row["offset"]) for batch in batches for row in batch.to_pylist()]


def test_backlog_only(topic: list[Mapping[int, int]], tmp_path: Path) -> None:
    """Without a duration the capture ends where the topic ended when it began."""
    path = tmp_path / "a.parquet"
    assert capture(CapturePlan(cluster=CLUSTER, path=path)) == 3
    assert (positions(path), topic) == ([(0, 0), (0, 1), (1, 0)], [])


def test_following_begins_where_the_backlog_ended(topic: list[Mapping[int, int]], tmp_path: Path) -> None:
    """No record between the two is lost or read twice; the time counts from the end of the backlog."""
    times = iter([100.0, 109.0, 111.0])
    path = tmp_path / "a.parquet"
    assert capture(followed(path), clock=lambda: next(times)) == 4
    assert (positions(path), topic) == ([(0, 0), (0, 1), (1, 0), (1, 1)], [{0: 2, 1: 1}])


def test_probes_go_along(
    topic: list[Mapping[int, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that stand there, and those that came while the log was followed; the log is read as before."""
    batches = [probes_batch([summed_up(at=at)]) for at in (1, 2)]
    place = ProbesPlace(CLUSTER, "group-probes")

    class Found:
        """A topic of probes that grows."""

        topic = "group-probes"
        batches = (probes_batch([summed_up(at=1)]),)

        def since(self) -> list[pa.RecordBatch]:
            """What came later, at the next offset."""
            later = probes_batch([summed_up(at=1), summed_up(at=2)])
            return [later.slice(1)]

    monkeypatch.setattr(capture_module, "open_probes", lambda asked: Found() if asked is place else None)
    path = tmp_path / "a.parquet"
    times = iter([0.0, 1.0, 2.0, 99.0])
    assert capture(followed(path, probes=place), clock=lambda: next(times)) == 7
    assert positions(path) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    read = pa.Table.from_batches(read_captures([path]).probes)
    assert read["value"].to_pylist() == [batch["value"][0].as_py() for batch in batches]


def test_topics_are_named(topic: list[Mapping[int, int]], tmp_path: Path) -> None:
    """As the cluster knew them when the capture began, and those that came while it was followed."""
    times = iter([100.0, 111.0])
    path = tmp_path / "a.parquet"
    capture(followed(path), clock=lambda: next(times))
    assert read_captures([path]).topic_names == {"id-1": "orders", "id-2": "payments"}


def test_an_interrupt_ends_the_following(topic: list[Mapping[int, int]], tmp_path: Path) -> None:
    """Ctrl-C keeps what was read so far."""
    seen: list[int] = []

    def progress(done: int, total: int | None) -> None:
        seen.append(done)
        os.kill(os.getpid(), signal.SIGINT)

    path = tmp_path / "a.parquet"
    assert capture(followed(path), progress=progress, clock=lambda: 0.0) == 4
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
        capture(followed(tmp_path / "a.parquet"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_followed", [True, False])
@pytest.mark.parametrize("described", [("a", "b", "c"), ("a", "b")])
def test_the_settings_of_the_groups_in_the_log(
    topic: list[Mapping[int, int]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    described: Sequence[str],
    is_followed: bool,
) -> None:
    """Of all kinds that have any; a group that this login may not describe leaves open which have none."""
    written = [
        Raw(0, at, at, encode_key(key), b"v")
        for at, key in enumerate(
            [
                GroupMetadataKey(group="classic"),
                ConsumerGroupMetadataKey(group="a"),
                ShareGroupMetadataKey(group="b"),
                StreamsGroupMetadataKey(group="c"),
                ConsumerGroupMetadataKey(group="a"),
            ]
        )
    ]
    monkeypatch.setitem(globals(), "LATER" if is_followed else "BACKLOG", [written])
    own = {"a": {"consumer.session.timeout.ms": 8_000}, "b": {}, "c": {}}
    asked = []

    def own_settings(_: GroupAdmin, groups: Collection[str]) -> dict[str, dict[str, int]]:
        asked.append({*groups})
        return {group: own[group] for group in described}

    monkeypatch.setattr(GroupAdmin, "own_settings", own_settings)
    path = tmp_path / "a.parquet"
    times = iter([0.0, 1.0, 99.0])
    plan = followed(path) if is_followed else CapturePlan(cluster=CLUSTER, path=path)
    capture(plan, clock=lambda: next(times))
    assert asked == [{"a", "b", "c"}]
    expected = {"a": own["a"]} if len(described) == 3 else None
    assert context(path).group_settings == expected


def context(path: Path) -> CaptureContext:
    """The context in a file."""
    found = decoded_context(pq.ParquetFile(path).metadata.metadata)
    assert found is not None
    return found


def test_the_context_of_the_cluster(topic: list[Mapping[int, int]], tmp_path: Path) -> None:
    """Settings of brokers and topic, the time, and what there is of each partition, in the file's metadata."""
    path = tmp_path / "a.parquet"
    capture(CapturePlan(cluster=CLUSTER, path=path))
    assert context(path) == CaptureContext(
        tool=f"groupreplay {__version__}",
        command="capture",
        begun_ms=BEGUN_MS,
        complete_ms=BEGUN_MS,
        brokers="Kafka 4.0 or later",
        retention_ms=180_000,
        check_interval_ms=7_000,
        group_settings={},
        partitions=2,
        topic_settings={"cleanup.policy": "compact"},
        extents=[
            PartitionExtent(
                topic=OFFSETS_TOPIC,
                partition=number,
                records=2 - number,
                first_offset=0,
                last_offset=1 - number,
                first_ms=1 + 2 * number,
                last_ms=2 + number,
                log_start=0,
                log_end=2 - number,
            )
            for number in (0, 1)
        ],
    )
    rows = read_captures([path])
    assert (rows.retention, rows.partitions, rows.complete_ms) == (
        Retention(
            retention_ms=180_000, check_interval_ms=7_000, broker_release=(4, 0), own_settings=OwnSettings({})
        ),
        2,
        BEGUN_MS,
    )


def test_what_a_login_may_not_ask(
    topic: list[Mapping[int, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without DescribeConfigs the records are captured all the same; what is not known is not in the file."""

    def refused(*_: object) -> dict[str, str]:
        raise KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED))

    monkeypatch.setattr(Connection, "broker_settings", refused)
    monkeypatch.setattr(Connection, "topic_settings", refused)
    path = tmp_path / "a.parquet"
    assert capture(CapturePlan(cluster=CLUSTER, path=path)) == 3
    found = context(path)
    known = (found.brokers, found.retention_ms, found.check_interval_ms, found.topic_settings)
    assert known == (None, None, None, {})
    # There is no group whose settings somebody could ask for.
    assert read_captures([path]).retention == Retention(own_settings=OwnSettings({}))


def test_the_end_of_what_was_followed(
    topic: list[Mapping[int, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log is complete up to the end of the copy; after an interrupt, up to its begin."""
    monkeypatch.setattr(capture_module, "now_ms", lambda: BEGUN_MS + 9)
    times = iter([100.0, 109.0, 111.0])
    whole = tmp_path / "whole.parquet"
    capture(followed(whole), clock=lambda: next(times))
    assert (context(whole).begun_ms, context(whole).complete_ms) == (BEGUN_MS, BEGUN_MS + 9)


def test_a_file_that_exists(topic: list[Mapping[int, int]], tmp_path: Path) -> None:
    """It is found out before anything is read; compacted records cannot be captured again."""
    path = tmp_path / "a.parquet"
    capture(CapturePlan(cluster=CLUSTER, path=path))
    kept = path.read_bytes()
    with pytest.raises(GroupReplayError, match="the file exists"):
        capture(CapturePlan(cluster=Cluster(bootstrap_servers="nowhere:1"), path=path))
    assert path.read_bytes() == kept
    assert capture(CapturePlan(cluster=CLUSTER, path=path, force=True)) == 3
