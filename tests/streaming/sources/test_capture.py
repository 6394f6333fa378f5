"""The capture format: whatever order and writer, the reader gives the log."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.contract.log import ROW_SCHEMA
from groupreplay.streaming.sources import capture
from groupreplay.streaming.sources.capture import CaptureWriter, read_captures
from support.histories.raw_records import Raw
from support.job.captures import CLUSTER_ID, ERA, rows_batch, write_capture
from support.job.probes import probes_batch, summed_up


def record(partition: int, offset: int) -> Raw:
    """A record that can be told from the others."""
    return Raw(partition, offset, 1_000 + offset, f"{partition}".encode(), f"{offset}".encode() or None)


def positions(paths: Sequence[Path], partitions: Sequence[int] | None = None) -> list[tuple[int, int]]:
    """Where the rows come from, in the order in which they are read; their bytes are checked on the way."""
    found = []
    for batch in read_captures(paths, partitions).batches:
        assert batch.schema == ROW_SCHEMA
        assert len(set(batch["partition"].to_pylist())) == 1
        for row in batch.to_pylist():
            raw = record(row["partition"], row["offset"])
            assert row == {
                "topic": OFFSETS_TOPIC,
                "partition": raw.partition,
                "offset": raw.offset,
                "timestamp": raw.timestamp_ms,
                "timestampType": 0,
                "key": raw.key,
                "value": raw.value,
            }
            found.append((raw.partition, raw.offset))
    return found


def table(rows: Sequence[tuple[int, int]]) -> pa.Table:
    """Rows at these positions, in this order."""
    return pa.Table.from_batches([rows_batch([record(*position) for position in rows])])


def test_written_and_read(tmp_path: Path) -> None:
    """What the writer is given comes back, in the order of the log, with cluster and era."""
    rows = [record(p, o) for p in (2, 0) for o in (3, 7, 9)]
    path = write_capture(tmp_path / "a.parquet", rows)
    read = read_captures([path])
    assert (read.cluster_id, read.era) == (CLUSTER_ID, ERA)
    assert positions([path]) == [(0, 3), (0, 7), (0, 9), (2, 3), (2, 7), (2, 9)]
    assert positions([path], [2]) == [(2, 3), (2, 7), (2, 9)]
    assert [file.name for file in tmp_path.iterdir()] == ["a.parquet"]


def test_interleaved_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions that are followed at once are written in pieces, and read one after the other."""
    monkeypatch.setattr(capture, "_FLUSH_ROWS", 3)
    path = tmp_path / "a.parquet"
    with CaptureWriter(path, cluster_id="c", era="e") as writer:
        for offset in range(5):
            for partition in (1, 0):
                writer.write(rows_batch([record(partition, offset)]))
    assert writer.rows == 10
    assert pq.ParquetFile(path).metadata.num_row_groups > 2
    assert positions([path]) == [(p, o) for p in (0, 1) for o in range(5)]


def test_probes_stand_beside_the_log(tmp_path: Path) -> None:
    """Rows of the topic of probes are no records of the log, and the other way round; all else is left out."""
    probes = probes_batch([summed_up(at=at) for at in (1, 2)])
    path = write_capture(tmp_path / "a.parquet", [record(0, 0), record(0, 1)], probes=probes)
    assert positions([path]) == [(0, 0), (0, 1)]
    assert pa.Table.from_batches(read_captures([path]).probes) == pa.Table.from_batches([probes])
    assert list(read_captures([path], probes_topic="another").probes) == []


def test_rows_of_all_topics_in_one_row_group(tmp_path: Path) -> None:
    """Another writer need not keep them apart."""
    probes = probes_batch([summed_up(at=at) for at in (1, 2)])
    mixed = pa.concat_tables([pa.Table.from_batches([probes]), table([(0, 1), (0, 0)])])
    pq.write_table(mixed, tmp_path / "a.parquet")
    assert positions([tmp_path]) == [(0, 0), (0, 1)]
    found = pa.Table.from_batches(read_captures([tmp_path]).probes)
    assert found["value"].to_pylist() == probes["value"].to_pylist()


def test_several_files_that_overlap(tmp_path: Path) -> None:
    """Two captures of one topic give each record once."""
    write_capture(tmp_path / "b.parquet", [record(0, o) for o in range(4)])
    write_capture(tmp_path / "a.parquet", [record(0, o) for o in range(2, 8)] + [record(1, 5)])
    assert positions([tmp_path]) == [(0, o) for o in range(8)] + [(1, 5)]


def test_any_order_of_rows(tmp_path: Path) -> None:
    """A file of another writer, rows in no order and partitions mixed in one row group."""
    rows = [(1, 4), (0, 9), (0, 2), (1, 1), (0, 5)]
    pq.write_table(table(rows), tmp_path / "a.parquet", row_group_size=3)
    pq.write_table(table([(0, 3), (2, 0)]), tmp_path / "b.parquet", write_statistics=False)
    assert positions([tmp_path]) == [(0, 2), (0, 3), (0, 5), (0, 9), (1, 1), (1, 4), (2, 0)]


def test_types_of_other_writers(tmp_path: Path) -> None:
    """Spark's own columns are taken: a timestamp instead of a number, large or dictionary types, no topic."""
    plain = table([(0, 1), (0, 2)])
    columns = {
        "partition": plain["partition"].cast(pa.int64()),
        "offset": plain["offset"],
        "timestamp": plain["timestamp"].cast(pa.timestamp("ms")).cast(pa.timestamp("us", "UTC")),
        "key": plain["key"].cast(pa.large_binary()),
        "value": plain["value"],
        "headers": pa.nulls(2),
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    assert positions([tmp_path / "a.parquet"]) == [(0, 1), (0, 2)]
    assert read_captures([tmp_path / "a.parquet"]).cluster_id == "unknown"


def test_rows_of_other_topics_are_left_out(tmp_path: Path) -> None:
    """A capture may hold more than the offsets topic."""
    both = table([(0, 1), (0, 2)])
    names = pa.chunked_array([["group-probes", OFFSETS_TOPIC]])
    pq.write_table(both.set_column(0, "topic", names), tmp_path / "a.parquet")
    assert positions([tmp_path / "a.parquet"]) == [(0, 2)]


def test_empty_capture(tmp_path: Path) -> None:
    """A topic without a record gives a capture without a row."""
    assert positions([write_capture(tmp_path / "a.parquet", [])]) == []


def without(name: str) -> pa.Table:
    """A table that lacks a column."""
    return table([(0, 1)]).drop_columns([name])


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("none.parquet", None, "cannot open the capture, No such file or directory"),
        ("cut.parquet", b"PAR1 and no end", "the file is not a complete Parquet file"),
        ("text.csv", b"a,b", "the file is not a complete Parquet file"),
        ("empty", b"", "the file is not a complete Parquet file"),
        ("k.parquet", without("key"), "the column key is missing"),
        ("o.parquet", without("offset"), "the column offset is missing"),
        (
            "t.parquet",
            table([(0, 1)]).set_column(5, "key", pa.chunked_array([[1]])),
            "the column key has the type int64",
        ),
    ],
)
def test_what_is_no_capture(tmp_path: Path, name: str, content: bytes | pa.Table | None, what: str) -> None:
    """The error says what is wrong with which file, before anything was printed."""
    path = tmp_path / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        pq.write_table(content, path)
    with pytest.raises(GroupReplayError) as caught:
        read_captures([path])
    assert (caught.value.what, caught.value.where) == (what, str(path))
    assert (caught.value.exit_code, bool(caught.value.fix)) == (ExitCode.DATA, True)


def test_damaged_row_group(tmp_path: Path) -> None:
    """A file whose end is whole and whose middle is not is found out while it is read."""
    path = write_capture(tmp_path / "a.parquet", [record(0, o) for o in range(3_000)])
    damaged = bytearray(path.read_bytes())
    damaged[4:2_000] = b"\xff" * 1_996
    path.write_bytes(damaged)
    with pytest.raises(GroupReplayError, match="the capture is damaged") as caught:
        positions([path])
    assert caught.value.where == str(path)


@pytest.mark.parametrize(
    ("old", "new"),
    [(b"partition", b"partitiom"), (b"partition", b"part\xfftion"), (b"timestamp", b"\xff" * 9)],
)
def test_a_damaged_footer(tmp_path: Path, old: bytes, new: bytes) -> None:
    """Names of columns that are wrong, or no text at all, are damage, wherever they stand."""
    path = write_capture(tmp_path / "a.parquet", [record(0, 1)])
    whole = path.read_bytes()
    places = [found.start() for found in re.finditer(re.escape(old), whole)]
    assert places
    for place in places:
        path.write_bytes(whole[:place] + new + whole[place + len(old) :])
        # The name is no part of what is read everywhere it stands.
        with contextlib.suppress(GroupReplayError):
            positions([path])
    path.write_bytes(whole.replace(old, new))
    with pytest.raises(GroupReplayError) as caught:
        positions([path])
    assert (caught.value.where, caught.value.exit_code) == (str(path), ExitCode.DATA)


def test_a_partition_that_no_topic_has(tmp_path: Path) -> None:
    """It is damage; the reader would otherwise look for two thousand million partitions."""
    path = write_capture(tmp_path / "a.parquet", [record(0, 1), record(2**31 - 1, 1)])
    with pytest.raises(GroupReplayError, match="names the partition 2147483647"):
        positions([path])


def test_empty_folder(tmp_path: Path) -> None:
    """A folder without a capture is an error, not an empty answer."""
    with pytest.raises(GroupReplayError, match=r"no \.parquet file in the folder"):
        read_captures([tmp_path])


@pytest.mark.parametrize(
    ("other", "what"),
    [({"cluster_id": "c2"}, "different clusters"), ({"era": "e2"}, "different offsets topics")],
)
def test_captures_that_do_not_belong_together(tmp_path: Path, other: dict[str, str], what: str) -> None:
    """Offsets of two clusters, or of two lives of the topic, must not be mixed."""
    write_capture(tmp_path / "a.parquet", [record(0, 1)])
    write_capture(tmp_path / "b.parquet", [record(0, 2)], **other)
    with pytest.raises(GroupReplayError, match=what):
        read_captures([tmp_path])


def test_names_of_topics(tmp_path: Path) -> None:
    """What the writer was told, of all captures together; files that say nothing or nonsense are read, too."""
    first = write_capture(tmp_path / "a.parquet", [record(0, 1)], topic_names={"id-1": "orders"})
    second = write_capture(tmp_path / "b.parquet", [record(0, 2)], topic_names={"id-2": "grüße"})
    other, broken = tmp_path / "c.parquet", tmp_path / "d.parquet"
    pq.write_table(table([(0, 3)]), other)
    with pq.ParquetWriter(broken, ROW_SCHEMA) as writer:
        writer.write_table(table([(0, 4)]))
        writer.add_key_value_metadata({capture.TOPIC_NAMES: b"[1"})
    assert read_captures([other, broken]).topic_names == {}
    found = read_captures([first, second, other, broken])
    assert found.topic_names == {"id-1": "orders", "id-2": "grüße"}
    assert sum(batch.num_rows for batch in found.batches) == 4


def test_an_interrupted_writer_leaves_nothing(tmp_path: Path) -> None:
    """A capture appears whole or not at all; an older one of the same name stays."""
    path = write_capture(tmp_path / "a.parquet", [record(0, 1)])

    def interrupted() -> None:
        with CaptureWriter(path, cluster_id="c", era="e", force=True) as writer:
            writer.write(rows_batch([record(0, 2)]))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [file.name for file in tmp_path.iterdir()] == ["a.parquet"]
    assert positions([path]) == [(0, 1)]


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    """The folder must exist; that is said before anything is read."""
    writer = CaptureWriter(tmp_path / "no" / "a.parquet", cluster_id="c", era="e")
    with pytest.raises(GroupReplayError, match="cannot write the capture, No such file or directory"):
        writer.__enter__()


def test_progress(tmp_path: Path) -> None:
    """Rows read, out of all there are."""
    path = write_capture(tmp_path / "a.parquet", [record(p, o) for p in (0, 1) for o in range(3)])
    seen: list[tuple[int, int | None]] = []
    for _ in read_captures([path], progress=lambda done, total: seen.append((done, total))).batches:
        pass
    assert seen == [(3, 6), (6, 6), (6, 6)]
