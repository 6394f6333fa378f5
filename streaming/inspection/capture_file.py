"""The capture format: records of the offsets topic, and the prober's messages, in Parquet files.

Files of other writers (for example Spark) can be read too, with rows in any order: a capture is a set of records,
which the reader sorts by offset and deduplicates.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError, unusable
from groupreplay.streaming.contract.message_decoder import MessageDecoder
from groupreplay.streaming.kafka.topic_reader import (
    BATCH_ROWS,
    ROW_SCHEMA,
    ProgressCallback,
    Rows,
    no_progress,
)

#: Keys of the Parquet schema's metadata.
CLUSTER_ID: Final = b"groupreplay.cluster_id"
ERA: Final = b"groupreplay.topic_id"
#: Key in the file's metadata, which is written last: topic id (text) -> name, as JSON.
TOPIC_NAMES: Final = b"groupreplay.topic_names"

_names: Final = MessageDecoder[dict[str, str]](dict[str, str])
_UNKNOWN_CLUSTER: Final = "unknown"
_FLUSH_ROWS: Final = 100_000
_FLUSH_BYTES: Final = 64 * 1024 * 1024
#: Every partition up to the last one is looked for; no topic of offsets has more.
_MOST_PARTITION: Final = 100_000
_OPTIONAL: Final = {"topic", "timestampType"}


class CaptureWriter:
    """Writes one capture; the file gets its name only when it is complete.

    A context manager: an exception removes the unfinished file. ``topic_names`` (id to name) may be filled until the
    exit: records contain ids, and a capture must be readable without the cluster.
    """

    def __init__(self, path: Path, *, cluster_id: str, era: str) -> None:
        self.path = path
        self.rows = 0
        self.topic_names: dict[str, str] = {}
        self._part = path.with_name(f".{path.name}.{os.getpid()}.part")
        self._schema = ROW_SCHEMA.with_metadata({CLUSTER_ID: cluster_id.encode(), ERA: era.encode()})
        self._pending: dict[tuple[str, int], list[pa.RecordBatch]] = {}
        self._pending_rows = 0
        self._pending_bytes = 0
        self._file: pq.ParquetWriter | None = None

    def __enter__(self) -> CaptureWriter:
        with _writing(self.path):
            self._file = pq.ParquetWriter(self._part, self._schema, compression="zstd")
        return self

    def write(self, batch: pa.RecordBatch) -> None:
        """Add the next rows of one partition of one topic."""
        partition = batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py()
        self._pending.setdefault(partition, []).append(batch)
        self.rows += batch.num_rows
        self._pending_rows += batch.num_rows
        self._pending_bytes += batch.nbytes
        if self._pending_rows >= _FLUSH_ROWS or self._pending_bytes >= _FLUSH_BYTES:
            self._flush()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._file is not None
        try:
            with _writing(self.path):
                if error is None:
                    self._flush()
                    self._file.add_key_value_metadata({TOPIC_NAMES: msgspec.json.encode(self.topic_names)})
                self._file.close()
                if error is None:
                    _sync(self._part)
                    self._part.replace(self.path)
        finally:
            self._part.unlink(missing_ok=True)

    def _flush(self) -> None:
        # One row group per partition, because captures are read partition by partition.
        assert self._file is not None
        for partition in sorted(self._pending):
            table = pa.Table.from_batches(self._pending[partition], ROW_SCHEMA)
            with _writing(self.path):
                self._file.write_table(table.replace_schema_metadata(self._schema.metadata))
        self._pending.clear()
        self._pending_rows = self._pending_bytes = 0


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        fix = "check that the folder exists, is writable and has free space"
        raise unusable(f"cannot write the capture, {_reason(error)}", path, fix) from None


@contextmanager
def reading_capture(path: Path) -> Iterator[None]:
    """Damaged bytes raise whatever Arrow makes of them: errors of its own, names of columns that are no UTF-8."""
    try:
        yield
    except (OSError, pa.ArrowException, UnicodeDecodeError, KeyError, OverflowError) as error:
        text = str(error).split("\n", 1)[0]
        raise _unreadable(f"the capture is damaged ({text})", path, "write it again") from None


def _reason(error: OSError) -> str:
    # Arrow replaces the system's message by its own text, which repeats the path.
    return os.strerror(error.errno) if error.errno else str(error)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


@dataclass(frozen=True, slots=True)
class _Piece:
    """One row group: its file and number, and the bounds of its topics, partitions and offsets."""

    file: pq.ParquetFile
    path: Path
    row_group: int
    rows: int
    topics: tuple[str, str]
    partitions: tuple[int, int]
    offsets: tuple[int, int]


def read_captures(
    paths: Sequence[Path],
    partitions: Sequence[int] | None = None,
    *,
    probes_topic: str = "group-probes",
    progress: ProgressCallback = no_progress,
) -> Rows:
    """The records of the offsets topic in capture files and folders of captures, ordered by offset.

    Messages of ``probes_topic`` become the probes.

    Raises:
        GroupReplayError: a file is missing, not a capture or damaged, or the captures do not belong together; damaged
            row groups are found while iterating.
    """
    files = [open_capture(path) for path in capture_files(paths)]
    cluster_id = _agreed(files, CLUSTER_ID, "clusters") or _UNKNOWN_CLUSTER
    era = _agreed(files, ERA, "offsets topics (topic ids)") or "0"
    pieces = list[_Piece]()
    topic_names = dict[str, str]()
    for path, file in files:
        with reading_capture(path):
            pieces += _pieces(path, file)
            topic_names |= _topic_names(file)
    log_pieces = [piece for piece in pieces if _may_hold(piece, OFFSETS_TOPIC)]
    probe_pieces = [piece for piece in pieces if _may_hold(piece, probes_topic)]
    return Rows(
        cluster_id,
        era,
        _in_log_order(log_pieces, OFFSETS_TOPIC, partitions, progress),
        probes=_in_log_order(probe_pieces, probes_topic, None, no_progress),
        probes_topic=probes_topic,
        topic_names=topic_names,
    )


def _may_hold(piece: _Piece, topic: str) -> bool:
    return piece.topics[0] <= topic <= piece.topics[1]


def capture_files(paths: Iterable[Path]) -> list[Path]:
    """The files themselves, and the Parquet files below folders.

    Raises:
        GroupReplayError: there is none in a folder.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*.parquet") if not file.name.startswith((".", "_")))
            if not inside:
                raise _unreadable("no .parquet file in the folder", path, "give the capture file itself")
            found += inside
        else:
            found.append(path)
    return found


def open_capture(path: Path) -> tuple[Path, pq.ParquetFile]:
    """A capture file, of which the columns were checked.

    Raises:
        GroupReplayError: it is missing, no capture or damaged.
    """
    try:
        file = pq.ParquetFile(path)
    except OSError as error:
        fix = "check the path and its permissions"
        raise _unreadable(f"cannot open the capture, {_reason(error)}", path, fix) from None
    except (pa.ArrowException, UnicodeDecodeError):
        fix = "it is incomplete or has another format; write it again: groupreplay capture -o FILE"
        raise _unreadable("the file is not a complete Parquet file", path, fix) from None
    with reading_capture(path):
        _need_columns(path, file)
    return path, file


def _need_columns(path: Path, file: pq.ParquetFile) -> None:
    for field in ROW_SCHEMA:
        if field.name not in file.schema_arrow.names:
            if field.name in _OPTIONAL:
                continue
            fix = "a capture has the columns " + ", ".join(ROW_SCHEMA.names)
            raise _unreadable(f"the column {field.name} is missing", path, fix)
        kind = file.schema_arrow.field(field.name).type
        if not _fits(kind, field.type):
            fix = f"it must be {field.type}"
            raise _unreadable(f"the column {field.name} has the type {kind}", path, fix)


def _fits(kind: pa.DataType, wanted: pa.DataType) -> bool:
    if kind == wanted:
        return True
    if pa.types.is_int64(wanted) and pa.types.is_timestamp(kind):
        return True  # the timestamp column of Spark's Kafka source
    if pa.types.is_integer(wanted):
        return bool(pa.types.is_integer(kind))
    alike = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(test(kind) for test in (alike[:2] if pa.types.is_string(wanted) else alike[2:]))


def _agreed(files: Sequence[tuple[Path, pq.ParquetFile]], key: bytes, what: str) -> str | None:
    values: dict[str, Path] = {}
    for path, file in files:
        metadata: Mapping[bytes, bytes] = file.schema_arrow.metadata or {}
        if key in metadata:
            values.setdefault(metadata[key].decode("utf-8", "replace"), path)
    if len(values) > 1:
        where = " and ".join(str(path) for path in list(values.values())[:2])
        fix = "give only captures of one cluster and one offsets topic"
        raise _unreadable(f"the captures are from different {what}", where, fix)
    return next(iter(values), None)


def _topic_names(file: pq.ParquetFile) -> dict[str, str]:
    """The topic names in the file; empty in captures of other writers, or if they cannot be decoded."""
    return _names.decode((file.metadata.metadata or {}).get(TOPIC_NAMES)) or {}


def _pieces(path: Path, file: pq.ParquetFile) -> Iterator[_Piece]:
    for index in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(index)
        bounds = {
            group.column(column).path_in_schema: group.column(column).statistics
            for column in range(group.num_columns)
        }
        if group.num_rows:
            partitions = _bounds(bounds["partition"]) or _scanned(file, path, index, "partition")
            offsets = _bounds(bounds["offset"]) or _scanned(file, path, index, "offset")
            topics = (OFFSETS_TOPIC, OFFSETS_TOPIC)
            if "topic" in file.schema_arrow.names:
                topics = _bounds(bounds["topic"]) or _scanned(file, path, index, "topic")
            yield _Piece(file, path, index, group.num_rows, topics, partitions, offsets)


def _bounds(statistics: Any) -> tuple[Any, Any] | None:
    if statistics is None or not statistics.has_min_max:
        return None
    return statistics.min, statistics.max


def _scanned(file: pq.ParquetFile, path: Path, index: int, column: str) -> tuple[Any, Any]:
    values = pc.min_max(_read_row_group(file, path, index, [column]).column(column)).as_py()
    return values["min"], values["max"]


def _in_log_order(
    pieces: Sequence[_Piece], topic: str, partitions: Sequence[int] | None, progress: ProgressCallback
) -> Iterator[pa.RecordBatch]:
    total = sum(piece.rows for piece in pieces)
    done = 0
    last = max((piece.partitions[1] for piece in pieces), default=-1)
    if last > _MOST_PARTITION:
        where = next(piece.path for piece in pieces if piece.partitions[1] == last)
        raise _unreadable(f"the capture names the partition {last}", where, "write it again")
    for number in sorted(set(partitions)) if partitions else range(last + 1):
        held = [piece for piece in pieces if piece.partitions[0] <= number <= piece.partitions[1]]
        for stretch in _stretches(held):
            with reading_capture(stretch[0].path):
                table = _ordered(stretch, topic, number)
            yield from table.to_batches(max_chunksize=BATCH_ROWS)
            done += table.num_rows
            progress(done, total)
    progress(total, total)


def _stretches(pieces: Iterable[_Piece]) -> Iterator[list[_Piece]]:
    """Row groups with overlapping offsets, which must be sorted together; in the order of their offsets."""
    stretch: list[_Piece] = []
    end = -1
    for piece in sorted(pieces, key=lambda piece: piece.offsets):
        if stretch and piece.offsets[0] > end:
            yield stretch
            stretch = []
        stretch.append(piece)
        end = max(end, piece.offsets[1])
    if stretch:
        yield stretch


def _ordered(stretch: Sequence[_Piece], topic: str, number: int) -> pa.Table:
    """The rows of one partition in these row groups, sorted by offset, each offset once."""
    tables = [_conform(_read_row_group(piece.file, piece.path, piece.row_group)) for piece in stretch]
    table = pa.concat_tables(tables)
    alone = all((piece.partitions, piece.topics) == ((number, number), (topic, topic)) for piece in stretch)
    if not alone or table["partition"].null_count or table["topic"].null_count:
        table = table.filter(pc.and_(pc.equal(table["partition"], number), pc.equal(table["topic"], topic)))
    steps = pc.pairwise_diff(table["offset"].combine_chunks())
    if pc.min(steps).as_py() is None or pc.min(steps).as_py() > 0:
        return table.combine_chunks()
    table = table.sort_by("offset").combine_chunks()
    again = pc.equal(pc.pairwise_diff(table["offset"].combine_chunks()), 0)
    return table.filter(pc.invert(pc.fill_null(again, False))).combine_chunks()


def _read_row_group(
    file: pq.ParquetFile, path: Path, index: int, columns: Sequence[str] | None = None
) -> pa.Table:
    wanted = columns or [name for name in ROW_SCHEMA.names if name in file.schema_arrow.names]
    with reading_capture(path):
        return file.read_row_group(index, columns=list(wanted))


def _conform(table: pa.Table) -> pa.Table:
    """The table with the columns and types of a capture."""
    columns = []
    for field in ROW_SCHEMA:
        if field.name not in table.column_names:
            default = OFFSETS_TOPIC if field.name == "topic" else 0
            columns.append(pa.chunked_array([pa.repeat(pa.scalar(default, field.type), table.num_rows)]))
            continue
        column = table[field.name]
        if pa.types.is_timestamp(column.type):
            # Spark stores microseconds; Kafka's timestamps are milliseconds.
            column = column.cast(pa.timestamp("ms"), safe=False)
        columns.append(column.cast(field.type))
    return pa.Table.from_arrays(columns, schema=ROW_SCHEMA)


def _unreadable(what: str, where: object, fix: str) -> GroupReplayError:
    return GroupReplayError(what, where=str(where), fix=fix, exit_code=ExitCode.DATA)
