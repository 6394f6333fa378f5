"""The capture format: records of the offsets topic, and the prober's messages, in Parquet files.

Files of other writers (Spark, DuckDB, Kafka Connect) can be read too, with rows in any order and in any row groups: a
capture is a set of records, which the reader sorts by offset and deduplicates.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.base.files import is_written_into, new_file, require_new
from groupreplay.streaming.base.memory import keep_freed_memory
from groupreplay.streaming.contract.log import ROW_SCHEMA, ProgressCallback, no_progress
from groupreplay.streaming.contract.messages import MessageDecoder
from groupreplay.streaming.sources.capture_columns import capture_places
from groupreplay.streaming.sources.capture_context import (
    CONTEXT,
    CaptureContext,
    ExtentCounter,
    decoded_context,
    latest_context,
    retention_of,
)
from groupreplay.streaming.sources.capture_order import (
    LogOrder,
    OpenedFile,
    last_record_ms,
    not_opened,
    open_capture,
)
from groupreplay.streaming.sources.source import (
    UNKNOWN_CLUSTER,
    DataEnd,
    RecordSource,
    Rows,
    agreed,
    counted,
    end_of_records,
    feed_file,
    with_rounds,
)
from groupreplay.version import __version__

#: Keys of the Parquet schema's metadata.
CLUSTER_ID: Final = b"groupreplay.cluster_id"
ERA: Final = b"groupreplay.topic_id"
#: Key in the file's metadata, which is written last: topic id (text) -> name, as JSON.
TOPIC_NAMES: Final = b"groupreplay.topic_names"

_names: Final = MessageDecoder[dict[str, str]](dict[str, str])
_FLUSH_ROWS: Final = 100_000
_FLUSH_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class CaptureSource:
    """Capture files and folders of captures; ``columns`` as in ``read_captures``.

    ``probes_topic`` is the topic of the prober's answers in them; empty: answers are not read.
    """

    paths: Sequence[Path]
    columns: Mapping[str, str] = field(default_factory=dict)
    probes_topic: str = "group-probes"

    @property
    def origin(self) -> str:
        """The names of the files, without their folders."""
        return ", ".join(path.name for path in self.paths)

    @property
    def flags(self) -> Sequence[str]:
        """See ``RecordSource``."""
        return [word for path in self.paths for word in ("--from-file", path.name)]

    def open(
        self,
        partitions: Sequence[int] = (),
        groups: Collection[str] | None = None,
        progress: ProgressCallback = no_progress,
    ) -> Rows:
        """See ``RecordSource``. All groups: a capture of another writer does not say how many partitions there were."""
        rows = counted(
            read_captures(
                self.paths,
                partitions,
                probes_topic=self.probes_topic,
                columns=self.columns,
                progress=progress,
            )
        )
        return with_rounds(rows) if self.probes_topic else rows

    def end(self) -> DataEnd:
        """The last record."""
        latest_ms = last_record_ms(self.paths, self.probes_topic, self.columns)
        return end_of_records(latest_ms, ", ".join(map(str, self.paths)), "capture")

    def digest(self) -> str:
        """That of the files, one after the other; of a folder, of its Parquet files by name."""
        return digest_of(self.paths)


def read_captures(
    paths: Sequence[Path],
    partitions: Sequence[int] | None = None,
    *,
    probes_topic: str = "group-probes",
    columns: Mapping[str, str] | None = None,
    progress: ProgressCallback = no_progress,
) -> Rows:
    """The records of the offsets topic in capture files and folders of captures, ordered by offset.

    Messages of ``probes_topic`` become the probes. ``columns`` names columns that have another name in the files (name
    in a capture -> name in the files). The file's metadata is read here, its records once, while iterating.

    Raises:
        GroupReplayError: a file is missing, not a capture or damaged, or the captures do not belong together; damaged
            row groups are found while iterating.
    """
    _keep_memory()
    files = [open_capture(place, columns or {}) for place in capture_places(paths)]
    cluster_id = _agreed(files, CLUSTER_ID, "clusters") or UNKNOWN_CLUSTER
    era = _agreed(files, ERA, "offsets topics (topic ids)") or "0"
    topic_names = dict[str, str]()
    for file in files:
        # None in captures of other writers, or if they cannot be decoded.
        topic_names |= _names.decode(file.metadata.get(TOPIC_NAMES)) or {}
    context = latest_context(decoded_context(file.metadata) for file in files)
    log = LogOrder(files, probes_topic, set(partitions) if partitions else None, progress)
    return Rows(
        cluster_id,
        era,
        log.batches(OFFSETS_TOPIC),
        probes=log.batches(probes_topic),
        probes_topic=probes_topic,
        topic_names=topic_names,
        retention=None if context is None else retention_of(context),
        partitions=None if context is None else context.partitions,
        complete_ms=None if context is None else context.complete_ms,
        where=", ".join(map(str, paths)),
    )


def _keep_memory() -> None:
    # The other pools give memory back and fault it in again; the C library keeps it. The time of the system falls by
    # two thirds, and the peak by a fifth.
    pa.set_memory_pool(pa.system_memory_pool())
    keep_freed_memory()


def _agreed(files: Sequence[OpenedFile], key: bytes, what: str) -> str | None:
    values = [(file.path, file.metadata.get(key)) for file in files]
    decoded = [(path, None if raw is None else raw.decode("utf-8", "replace")) for path, raw in values]
    return agreed(decoded, "captures", what)


def digest_of(paths: Iterable[Path]) -> str:
    """The SHA-256 of capture files, one after the other; of a folder, of its Parquet files by name.

    Raises:
        GroupReplayError: a file cannot be read.
    """
    found = hashlib.sha256()
    for path in paths:
        for file in sorted(path.rglob("*.parquet")) if path.is_dir() else [path]:
            try:
                feed_file(found.update, file)
            except OSError as error:
                raise not_opened(file, error) from None
    return found.hexdigest()


class CaptureWriter:
    """Writes one capture; the file gets its name only when it is complete, and replaces another with ``force`` only.

    A context manager: an exception removes the unfinished file. ``topic_names`` (id to name) and ``context`` may be
    changed until the exit: records contain ids, and a capture must be readable without the cluster. The extents of the
    context are counted here.
    """

    def __init__(
        self,
        path: Path,
        *,
        cluster_id: str,
        era: str,
        context: CaptureContext | None = None,
        force: bool = False,
    ) -> None:
        self.path = path
        self.rows = 0
        self.topic_names: dict[str, str] = {}
        self.context = context
        self._force = force
        self._schema = ROW_SCHEMA.with_metadata({CLUSTER_ID: cluster_id.encode(), ERA: era.encode()})
        self._extents = ExtentCounter()
        self._pending: dict[tuple[str, int], list[pa.RecordBatch]] = {}
        self._pending_rows = 0
        self._pending_bytes = 0
        self._place = ExitStack()
        self._file: pq.ParquetWriter | None = None

    def __enter__(self) -> CaptureWriter:
        with ExitStack() as place:
            part = place.enter_context(new_file(self.path, "capture", force=self._force, private=True))
            # Arrow asks a file for its position, which a FIFO does not know.
            sink = place.enter_context(_Unpositioned(part.open("wb", 0))) if is_written_into(part) else part
            self._file = pq.ParquetWriter(sink, self._schema, compression="zstd")
            self._place = place.pop_all()
        return self

    def note_bounds(self, topic: str, starts: Mapping[int, int], ends: Mapping[int, int]) -> None:
        """The first offset of each partition and the one after its last, as the broker names them; for the extents."""
        self._extents.note_bounds(topic, starts, ends)

    def write(self, batch: pa.RecordBatch) -> None:
        """Add the next rows of one partition of one topic."""
        partition = batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py()
        self._pending.setdefault(partition, []).append(batch)
        self._extents.add(batch)
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
            try:
                if error is None:
                    self._flush()
                    self._file.add_key_value_metadata(self._closing_metadata())
            finally:
                self._file.close()
        except BaseException as failed:
            self._place.__exit__(type(failed), failed, failed.__traceback__)
            raise
        self._place.__exit__(kind, error, trace)

    def _closing_metadata(self) -> dict[bytes, bytes]:
        metadata = {TOPIC_NAMES: msgspec.json.encode(self.topic_names)}
        if self.context is not None:
            context = msgspec.structs.replace(self.context, extents=self._extents.extents())
            metadata[CONTEXT] = msgspec.json.encode(context)
        return metadata

    def _flush(self) -> None:
        # One row group per partition, because captures are read partition by partition.
        assert self._file is not None
        for partition in sorted(self._pending):
            table = pa.Table.from_batches(self._pending[partition], ROW_SCHEMA)
            self._file.write_table(table.replace_schema_metadata(self._schema.metadata))
        self._pending.clear()
        self._pending_rows = self._pending_bytes = 0


class _Unpositioned(io.BufferedWriter):
    """A file that cannot be positioned, and knows how much was written to it."""

    _written = 0

    def write(self, data: Any) -> int:
        """As ``BufferedWriter``."""
        count = super().write(data)
        self._written += count
        return count

    def tell(self) -> int:
        """The number of bytes so far."""
        return self._written


def copy_records(
    source: RecordSource, path: Path, *, force: bool = False, progress: ProgressCallback = no_progress
) -> int:
    """Copy the records of any input into one capture file; returns their number.

    Raises:
        GroupReplayError: the input cannot be read, or the file exists or cannot be written.
    """
    require_new([path], force=force)
    rows = source.open(progress=progress)
    context = CaptureContext(tool=f"groupreplay {__version__}", command="capture", partitions=rows.partitions)
    with CaptureWriter(
        path, cluster_id=rows.cluster_id, era=rows.era, context=context, force=force
    ) as writer:
        writer.topic_names.update(rows.topic_names)
        for batch in chain(rows.batches, rows.probes):
            writer.write(batch)
    return writer.rows
