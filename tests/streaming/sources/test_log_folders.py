"""Folders of brokers as a source: what is found in them, in archives too, and the errors where there is nothing."""

from __future__ import annotations

import logging
import tarfile
from pathlib import Path

import pyarrow as pa
import pytest

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.contract.probe_messages import encode_message
from groupreplay.streaming.sources.log_folders import LogFolderSource
from groupreplay.streaming.sources.log_segments import Replica
from support.histories.log_files import batch, message_set, write_segment
from support.job.probes import beat, summed_up
from support.remedies import read_remedy

TOPIC_ID, ORDERS_ID = "E8j8GYQMRf-JlWNBdgOymw", "AAAAAAAAAAAAAAAAAAAAAQ"


def broker_folder(folder: Path, *partitions: int, cluster: str = "c1", topic_id: str = TOPIC_ID) -> Path:
    """``log.dirs`` of a broker with two records in each of these partitions, and a folder of another topic."""
    for number in partitions:
        write_segment(folder / f"{OFFSETS_TOPIC}-{number}", batch(4, (b"k%d" % number, b"v"), (b"l", None)))
        (folder / f"{OFFSETS_TOPIC}-{number}" / "partition.metadata").write_text(
            f"version: 0\ntopic_id: {topic_id}"
        )
    (folder / "orders-0").mkdir(parents=True)
    (folder / "orders-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {ORDERS_ID}")
    (folder / "meta.properties").write_text(f"#\nnode.id=1\ncluster.id={cluster}\n")
    return folder


def row(partition: int, offset: int, key: bytes | None, value: bytes | None) -> dict[str, object]:
    """A record of ``broker_folder``."""
    return {
        "topic": OFFSETS_TOPIC,
        "partition": partition,
        "offset": offset,
        "timestamp": 1_000 + offset,
        "timestampType": 0,
        "key": key,
        "value": value,
    }


def rows_of(source: LogFolderSource, *partitions: int) -> list[dict[str, object]]:
    """What it reads."""
    return pa.Table.from_batches(source.open(partitions).batches).to_pylist()


BOTH = [row(2, 4, b"k2", b"v"), row(2, 5, b"l", None), row(11, 4, b"k11", b"v"), row(11, 5, b"l", None)]


def test_a_folder_of_a_broker(tmp_path: Path) -> None:
    """All partitions in order of their numbers, with the ids and names that are in the folder."""
    source = LogFolderSource([broker_folder(tmp_path / "data", 11, 2)])
    rows = source.open()
    assert pa.Table.from_batches(rows.batches).to_pylist() == BOTH
    assert (rows.cluster_id, rows.era, rows.where) == ("c1", TOPIC_ID, str(tmp_path / "data"))
    assert rows.topic_names == {TOPIC_ID: OFFSETS_TOPIC, ORDERS_ID: "orders"}
    assert (rows.extent.records, rows.extent.first_ms, rows.extent.last_ms) == (4, 1_004, 1_005)
    assert (source.end().at_ms, source.end().is_live, len(source.digest())) == (1_005, False, 64)
    assert (source.origin, source.flags) == ("data", ["--from-log-dir", "data"])
    assert rows_of(source, 11) == BOTH[2:]


def test_folders_of_several_brokers(tmp_path: Path) -> None:
    """Each has some partitions; a single partition's folder and one with all brokers in it will do."""
    broker_folder(tmp_path / "all" / "broker1", 2)
    broker_folder(tmp_path / "all" / "broker2", 11, 2)
    partition = tmp_path / "all" / "broker2" / f"{OFFSETS_TOPIC}-11"
    for paths in (
        [tmp_path / "all"],
        [tmp_path / "all" / "broker1", tmp_path / "all" / "broker2"],
        [tmp_path / "all" / "broker1", partition],
    ):
        assert rows_of(LogFolderSource(paths)) == BOTH
    assert LogFolderSource([partition]).open().cluster_id == "c1"


@pytest.mark.parametrize("mode", ["", "gz", "xz"])
def test_archives(tmp_path: Path, mode: str) -> None:
    """They are unpacked without what is not read, into a folder that goes with the source."""
    broker_folder(tmp_path / "data", 11, 2)
    write_segment(tmp_path / "data" / "orders-0", batch(0, (b"k", b"v")))
    archive = tmp_path / f"data.tar.{mode}"
    with tarfile.open(archive, f"w:{mode}" if mode else "w") as target:
        target.add(tmp_path / "data", "../../data")
    source = LogFolderSource([archive], uncommitted=True)
    assert rows_of(source) == BOTH
    assert source.flags == ["--from-log-dir", archive.name, "--read-uncommitted"]
    assert source.open().topic_names[ORDERS_ID] == "orders"
    (unpacked,) = source._unpacked.values()
    folder = Path(unpacked.name)
    assert [path.name for path in folder.rglob("*.log")] == [f"{0:020}.log"] * 2
    del source, unpacked
    assert not folder.exists()


def test_an_archive_without_its_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What is before its end is read."""
    broker_folder(tmp_path / "data", 2, 11)
    archive = tmp_path / "data.tar"
    with tarfile.open(archive, "w") as target:
        for name in ("meta.properties", f"{OFFSETS_TOPIC}-2", f"{OFFSETS_TOPIC}-11"):
            target.add(tmp_path / "data" / name, f"data/{name}")
    archive.write_bytes(archive.read_bytes()[: archive.stat().st_size // 3])
    with caplog.at_level(logging.WARNING):
        assert rows_of(LogFolderSource([archive])) == BOTH[:2]
    assert "ends early (truncated header): what is behind its last file is not read" in caplog.text


def test_answers_of_the_prober(tmp_path: Path) -> None:
    """The topic of probes is in the same folder, if a job writes into this cluster."""
    broker_folder(tmp_path, 2)
    messages = [encode_message(message) for message in (beat(at=5, caught_up=4), summed_up(at=4))]
    write_segment(tmp_path / "group-probes-1", batch(0, *messages))
    rows = LogFolderSource([tmp_path]).open()
    assert rows.is_probed
    probes = pa.Table.from_batches(rows.probes)
    assert [(each["topic"], each["key"]) for each in probes.to_pylist()] == [
        ("group-probes", key) for key, _ in messages
    ]
    assert not LogFolderSource([tmp_path], probes_topic="").open().is_probed


def test_records_without_a_time(tmp_path: Path) -> None:
    """Messages of Kafka before 0.10 have none; a consumer gets -1."""
    write_segment(tmp_path / f"{OFFSETS_TOPIC}-0", message_set(0, (b"k", b"v"), magic=0))
    (record,) = rows_of(LogFolderSource([tmp_path]))
    assert (record["timestamp"], record["timestampType"]) == (-1, -1)
    with pytest.raises(GroupReplayError, match="there are no records, so no age or time of day") as error:
        LogFolderSource([tmp_path]).end()
    read_remedy("streaming.sources.source: give another", str(error.value))
    assert LogFolderSource([broker_folder(tmp_path / "data", 2)]).end().at_ms == 1_005


@pytest.mark.parametrize(
    ("partitions", "what"),
    [
        ((), "there is no folder of __consumer_offsets in it"),
        ((7,), "there is no folder __consumer_offsets-7 in it"),
    ],
)
def test_nothing_to_read(tmp_path: Path, partitions: tuple[int, ...], what: str) -> None:
    """A folder of another topic, or without the partition that is asked for."""
    folder = broker_folder(tmp_path / "data", *([2] if partitions else []))
    with pytest.raises(GroupReplayError, match=r"give log\.dirs of a broker that has replicas") as error:
        LogFolderSource([folder]).open(partitions)
    assert (error.value.what, error.value.where, error.value.exit_code) == (what, str(folder), ExitCode.DATA)
    read_remedy("streaming.sources.log_folders: give log.dirs of", str(error.value))
    assert rows_of(LogFolderSource([folder, broker_folder(tmp_path / "other", 7)]), *partitions)


def test_a_file_that_is_no_archive(tmp_path: Path) -> None:
    """One sentence, not four of tarfile's."""
    path = write_segment(tmp_path, batch(0, (b"k", b"v")))
    with pytest.raises(GroupReplayError) as error:
        LogFolderSource([path]).open()
    assert str(error.value) == (
        f"the archive cannot be read: it is no tar archive ({path}): give a folder, or a .tar or .tar.gz of one"
    )
    read_remedy("streaming.sources.log_folders: give a folder, or", str(error.value))
    assert rows_of(LogFolderSource([broker_folder(tmp_path / "data", 2)])) == BOTH[:2]


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    """Named before anything is read."""
    with pytest.raises(GroupReplayError, match="there is no such folder or archive") as error:
        LogFolderSource([tmp_path / "data"]).open()
    read_remedy("streaming.sources.log_folders: give a copy of log.dirs", str(error.value))
    assert rows_of(LogFolderSource([broker_folder(tmp_path / "data", 2)])) == BOTH[:2]


def test_folders_that_do_not_belong_together(tmp_path: Path) -> None:
    """Records of two clusters, or of a topic and its successor, are never mixed."""
    one, two = broker_folder(tmp_path / "1", 2), broker_folder(tmp_path / "2", 11, cluster="c2")
    three = broker_folder(tmp_path / "3", 11, topic_id=ORDERS_ID)
    with pytest.raises(GroupReplayError, match="the folders are from different clusters") as error:
        LogFolderSource([one, two]).open()
    read_remedy("streaming.sources.source: give only", str(error.value))
    assert rows_of(LogFolderSource([one])) == BOTH[:2]
    with pytest.raises(
        GroupReplayError, match=r"the folders are from different offsets topics \(topic ids\)"
    ):
        LogFolderSource([one, three]).open()


def test_much_damage(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Twenty places are named, the others counted."""
    folder = tmp_path / f"{OFFSETS_TOPIC}-0"
    write_segment(
        folder, *(batch(number, (b"k", b"v"))[:-1] + b"?" for number in range(23)), batch(23, (b"k", b"v"))
    )
    assert len(list(Replica(folder, 0).batches(lambda _: None))) == 1
    with caplog.at_level(logging.WARNING):
        assert len(rows_of(LogFolderSource([folder]))) == 1
    assert len(caplog.messages) == 1
