"""A broker's own folder as an input: equal to what a consumer of the topic gets, and to Kafka's DumpLogSegments."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import ConfigResource

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.config.settings import Cluster
from groupreplay.streaming.local.broker import EmbeddedBroker
from groupreplay.streaming.sources.log_folders import LogFolderSource
from groupreplay.streaming.sources.topic import read_topic
from support.kafka.clients import commit_surely, make_topics, new_consumer, open_transaction, set_configs
from support.kafka.kafka_classes import java_command
from support.kafka.waiting import wait_until

CODECS = ("uncompressed", "gzip", "snappy", "lz4", "zstd")
GROUPS = [f"group-{number}" for number in range(6)]
PLACES, TURNS = 40, 4
COMMITS = len(CODECS) * TURNS * len(GROUPS) * PLACES
#: Looks five times a second whether something can be cleaned.
SETTINGS = {"log.cleaner.backoff.ms": 200, "log.cleaner.min.cleanable.ratio": 0.01}


@dataclass(frozen=True)
class Copy:
    """A copy of the folder of a broker that was stopped, and the rows of the live topic before."""

    folder: Path
    live: pa.Table


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """Commits in every compression, with transactions of both ends, of which a cleaning has removed some."""
    folder = tmp_path_factory.mktemp("logs") / "data"
    with EmbeddedBroker(offsets_partitions=3, overrides=SETTINGS) as broker:
        server = broker.bootstrap_servers
        make_topics(server, {"orders": PLACES})
        for number, codec in enumerate(CODECS):
            # A segment for each turn, so that all but the last can be cleaned.
            configs = {"compression.type": codec, "segment.ms": 300}
            set_configs(server, ConfigResource.Type.TOPIC, [OFFSETS_TOPIC], configs)
            write_commits(server, number)
        cluster = Cluster(bootstrap_servers=server)
        wait_until(lambda: live_rows(cluster).num_rows < COMMITS // 2)
        set_configs(server, ConfigResource.Type.TOPIC, [OFFSETS_TOPIC], {"cleanup.policy": "delete"})
        # Behind all cleanings: they may have removed the records of the others.
        write_transactions(server, "last")
        broker.stop()
        broker.start()
        live = live_rows(cluster)
        broker.stop()
        shutil.copytree(broker.folder / "data", folder)
    return Copy(folder, live)


def write_commits(server: str, number: int) -> None:
    """Commits of each group, and transactions of both ends."""
    for group in GROUPS:
        with closing(new_consumer(server, group)) as consumer:
            for turn in range(TURNS):
                offsets = [TopicPartition("orders", place, 100 * number + turn) for place in range(PLACES)]
                consumer.commit(offsets=offsets, asynchronous=False)
    write_transactions(server, f"tx-{number}")


def write_transactions(server: str, name: str) -> None:
    """A transaction that is committed, and one that is aborted."""
    with closing(new_consumer(server, "transactional")) as consumer:
        for offset, end in ((5, Producer.commit_transaction), (6, Producer.abort_transaction)):
            end(open_transaction(server, name, consumer, TopicPartition("orders", 3, offset)), 30)


def live_rows(cluster: Cluster) -> pa.Table:
    """What a consumer with read_committed gets."""
    return pa.Table.from_batches(read_topic(cluster).batches)


@pytest.mark.broker
def test_a_folder_has_the_records_of_the_topic(copy: Copy) -> None:
    """Record by record as the consumer got them, byte by byte, behind segments, cleanings and transactions."""
    rows = LogFolderSource([copy.folder]).open()
    assert pa.Table.from_batches(rows.batches).to_pylist() == copy.live.to_pylist()
    segments = [path for path in copy.folder.rglob("*.log") if path.parent.name.startswith(OFFSETS_TOPIC)]
    assert len(segments) > 3, "one segment a partition: there was nothing to put together"
    assert "orders" in rows.topic_names.values()


@pytest.mark.broker
def test_equal_to_kafkas_own_dump(copy: Copy) -> None:
    """With --read-uncommitted, every record that DumpLogSegments prints, and no marker."""
    source = LogFolderSource([copy.folder], uncommitted=True)
    rows = pa.Table.from_batches(source.open().batches).to_pylist()
    records = [
        (row["partition"], row["offset"], row["timestamp"], size(row["key"]), size(row["value"]))
        for row in rows
    ]
    assert records == sorted(dumped(copy.folder))
    assert len(records) > copy.live.num_rows, "no transaction was aborted"


def size(content: bytes | None) -> int:
    """As the dump prints it."""
    return -1 if content is None else len(content)


def dumped(folder: Path) -> Iterator[tuple[int, ...]]:
    """Partition, offset, time and sizes of key and value of each record of a client."""
    line = re.compile(r"\| offset: (\d+) CreateTime: (-?\d+) keySize: (-?\d+) valueSize: (-?\d+) (.*)")
    paths = sorted(folder.glob(f"{OFFSETS_TOPIC}-*/*.log"))
    command = java_command(
        *("org.apache.kafka.tools.DumpLogSegments", "--print-data-log"),
        *("--files", ",".join(map(str, paths))),
    )
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=True, timeout=240)
    partition = -1
    for text in done.stdout.splitlines():
        if text.startswith("Dumping "):
            partition = int(text.rpartition("/")[0].rpartition("-")[2])
        elif (match := line.match(text)) and "endTxnMarker" not in match[5]:
            yield (partition, *(int(match[number]) for number in range(1, 5)))


@pytest.mark.long
@pytest.mark.broker
def test_replicas_that_went_apart(tmp_path: Path) -> None:
    """What a broker wrote that lost its leadership is left out: a copy went on alone, the original was led again."""
    with EmbeddedBroker(offsets_partitions=1) as broker:
        make_topics(broker.bootstrap_servers, {"orders": 1})
        commit_surely(broker.bootstrap_servers, "before")
        broker.stop()
        data = broker.folder / "data"
        shutil.copytree(data, tmp_path / "old")
        broker.start()
        commit_surely(broker.bootstrap_servers, "lost")
        broker.stop()
        shutil.move(data, tmp_path / "lost")
        shutil.copytree(tmp_path / "old", data)
        # Each start is a new leader epoch; the first one would have that of the copy that is lost.
        broker.start()
        for name in ("kept", "kept-too"):
            broker.stop()
            broker.start()
            commit_surely(broker.bootstrap_servers, name)
        live = live_rows(Cluster(bootstrap_servers=broker.bootstrap_servers)).to_pylist()
        broker.stop()
        shutil.copytree(data, tmp_path / "new")
    for folders in (["old", "lost", "new"], ["new", "lost"], ["lost", "new", "old"]):
        rows = LogFolderSource([tmp_path / name for name in folders]).open()
        assert pa.Table.from_batches(rows.batches).to_pylist() == live
    assert [b"kept" in row["key"] for row in live] == [False, True, True]
