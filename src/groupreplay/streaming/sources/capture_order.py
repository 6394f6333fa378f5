"""Reads Parquet files once, and gives their records partition by partition in the order of the log."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.state.plausible_times import LATEST_MS
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.contract.log import BATCH_ROWS, ProgressCallback, plausible_bounds
from groupreplay.streaming.sources.capture_columns import (
    UNSORTED_SCHEMA,
    CapturePlace,
    ColumnLayout,
    as_type,
    capture_places,
    column_layout,
    conformed,
    is_one_of,
    unfit,
)
from groupreplay.streaming.sources.sorted_blocks import (
    CHUNK_BYTES,
    Block,
    LogPlace,
    in_order,
    merged,
    sorted_blocks,
)

#: No topic of offsets has more partitions.
_MOST_PARTITION: Final = 100_000
#: Of a column of a row group: pages are decoded as they are needed.
_READ_BYTES: Final = 1024 * 1024
_SLICE_BYTES: Final = 16 * 1024 * 1024
_SLICE_ROWS: Final = 65_536


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A Parquet file whose metadata has been read; ``metadata`` is that of the schema and of the file."""

    file: pq.ParquetFile
    layout: ColumnLayout
    metadata: Mapping[bytes, bytes]

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self.layout.path


def open_capture(place: CapturePlace, renamed: Mapping[str, str]) -> OpenedFile:
    """Opens a file and finds its columns; ``renamed``: see ``column_layout``.

    Raises:
        GroupReplayError: the file is missing or no complete Parquet file, or lacks a column.
    """
    path = place.path
    file = _parquet_file(path)
    with reading_capture(path):
        metadata = {**(file.schema_arrow.metadata or {}), **(file.metadata.metadata or {})}
        layout = column_layout(file.schema_arrow, place, renamed)
    if "topic" in layout.stored:
        file.close()
        file = _parquet_file(path, metadata=file.metadata, read_dictionary=[layout.stored["topic"]])
    return OpenedFile(file, layout, metadata)


def _parquet_file(path: Path, **options: Any) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path, buffer_size=_READ_BYTES, **options)
    except OSError as error:
        raise not_opened(path, error) from None
    except (pa.ArrowException, UnicodeDecodeError):
        raise unfit("the file is not a complete Parquet file", path, _CUT) from None


def not_opened(path: Path, error: OSError) -> GroupReplayError:
    """The error for a capture that cannot be opened."""
    # Arrow replaces the system's message by its own text, which repeats the path.
    reason = os.strerror(error.errno) if error.errno else error
    return unfit(f"cannot open the capture, {reason}", path, "check the path and its permissions")


_COPY: Final = (
    "copy it again from where it was written, and keep it until then: "
    "a new capture lacks the records that were compacted since"
)
_CUT: Final = f"it is cut short or has another format; if it was whole once, {_COPY}"


@dataclass(frozen=True, slots=True)
class _RowGroup:
    """A row group and the bounds of its topics, partitions and offsets, as far as its statistics have them."""

    opened: OpenedFile
    number: int
    rows: int
    bytes: int
    topics: tuple[str, str] | None
    partitions: tuple[int, int] | None
    offsets: tuple[int, int] | None

    def may_hold(self, topics: Collection[str], partitions: Collection[int] | None) -> bool:
        """Whether a record of these topics and, of the offsets topic, of these partitions may be inside."""
        held = [one for one in topics if self.topics is None or self.topics[0] <= one <= self.topics[1]]
        if not held:
            return False
        if held != [OFFSETS_TOPIC] or partitions is None or self.partitions is None:
            return True
        low, high = self.partitions
        return any(low <= one <= high for one in partitions)

    @property
    def place(self) -> LogPlace | None:
        """The one partition that all records are of; None: not known, or too large to be read at once."""
        if self.topics is None or self.partitions is None or self.offsets is None or self.bytes > CHUNK_BYTES:
            return None
        is_one = self.topics[0] == self.topics[1] and self.partitions[0] == self.partitions[1]
        return LogPlace(self.topics[0], self.partitions[0]) if is_one else None


class LogOrder:
    """The records of files by topic and partition; reads each row group at most once.

    Row groups that hold one partition each, as those of our own captures, are read when their turn comes. The others
    are read together when the first batch is asked for, and sorted (``sorting``).
    """

    def __init__(
        self,
        files: Sequence[OpenedFile],
        probes_topic: str,
        partitions: Collection[int] | None,
        progress: ProgressCallback,
    ) -> None:
        topics = {OFFSETS_TOPIC, probes_topic}
        self._topics = topics
        self._partitions = partitions
        self._progress = progress
        self._done = 0
        groups = list[_RowGroup]()
        for file in files:
            with reading_capture(file.path):
                groups += [one for one in _row_groups(file) if one.may_hold(topics, partitions)]
        self._total = sum(one.rows for one in groups)
        self._apart = [one for one in groups if one.place is not None]
        self._mixed = [one for one in groups if one.place is None]
        self._sorted: dict[LogPlace, list[Block]] | None = None

    def batches(self, topic: str) -> Iterator[pa.RecordBatch]:
        """The records of one topic: partitions ascending, offsets ascending, each offset once."""
        blocks = dict[int, list[Block]]()
        for group in self._apart:
            if group.place is not None and group.place[0] == topic and group.offsets is not None:
                block = Block(*group.offsets, partial(self._read, group))
                blocks.setdefault(group.place[1], []).append(block)
        for partition, found in self._of_mixed(topic).items():
            blocks.setdefault(partition, []).extend(found)
        for partition in sorted(blocks):
            if topic != OFFSETS_TOPIC or self._partitions is None or partition in self._partitions:
                for table in merged(blocks.pop(partition)):
                    yield from table.to_batches(max_chunksize=BATCH_ROWS)
        if topic == OFFSETS_TOPIC:
            self._progress(self._total, self._total)

    def _of_mixed(self, topic: str) -> dict[int, list[Block]]:
        if not any(group.may_hold([topic], self._partitions) for group in self._mixed):
            return {}
        if self._sorted is None:
            self._sorted = sorted_blocks(self._slices())
        # Each block is given away, so that its memory is free once it was read.
        mine = [place for place in self._sorted if place.topic == topic]
        return {place.partition: self._sorted.pop(place) for place in mine}

    def _slices(self) -> Iterator[pa.Table]:
        """The wanted rows of the mixed row groups, some thousand at once."""
        for group in self._mixed:
            rows = max(64, min(_SLICE_ROWS, _SLICE_BYTES * group.rows // max(1, group.bytes)))
            layout = group.opened.layout
            with reading_capture(group.opened.path):
                for batch in group.opened.file.iter_batches(
                    rows, [group.number], columns=list(layout.stored.values())
                ):
                    wanted = self._wanted(pa.Table.from_batches([batch]), group)
                    table = conformed(wanted, layout, UNSORTED_SCHEMA)
                    _need_partitions(table, group.opened.path)
                    yield table
                    self._count(batch.num_rows)

    def _wanted(self, table: pa.Table, group: _RowGroup) -> pa.Table:
        """The rows of the two topics, and of the selected partitions."""
        kept, layout = None, group.opened.layout
        is_one_topic = group.topics is not None and group.topics[0] == group.topics[1]
        if "topic" in layout.stored and not is_one_topic:
            column = table[layout.stored["topic"]]
            kept = is_one_of(column, self._topics)
        if self._partitions is not None and "partition" in layout.stored:
            column = table[layout.stored["partition"]].cast(pa.int64())
            chosen = is_one_of(column, self._partitions)
            kept = chosen if kept is None else pc.and_(kept, chosen)
        return table if kept is None or pc.all(kept, skip_nulls=False).as_py() else table.filter(kept)

    def _read(self, group: _RowGroup) -> pa.Table:
        opened = group.opened
        with reading_capture(opened.path):
            table = opened.file.read_row_group(group.number, columns=list(opened.layout.stored.values()))
            table = in_order([conformed(table, opened.layout)])
            _need_partitions(table, opened.path)
        self._count(group.rows)
        return table

    def _count(self, rows: int) -> None:
        self._done += rows
        self._progress(self._done, self._total)


def _need_partitions(table: pa.Table, path: Path) -> None:
    for partition in pc.min_max(table["partition"]).as_py().values():
        if partition is not None and not 0 <= partition <= _MOST_PARTITION:
            raise unfit(f"the capture names the partition {partition}", path, _COPY)


def _row_groups(opened: OpenedFile) -> Iterator[_RowGroup]:
    layout, footer = opened.layout, opened.file.metadata
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        statistics = _statistics(group)
        if group.num_rows:
            topics, partitions, offsets = (
                _bounds(name, layout, statistics) for name in ("topic", "partition", "offset")
            )
            yield _RowGroup(
                opened, number, group.num_rows, group.total_byte_size, topics, partitions, offsets
            )


def _statistics(group: pq.RowGroupMetaData) -> dict[str, Any]:
    """By column of the file."""
    columns = map(group.column, range(group.num_columns))
    return {column.path_in_schema: column.statistics for column in columns}


def _bounds(name: str, layout: ColumnLayout, statistics: Mapping[str, Any]) -> tuple[Any, Any] | None:
    if name in layout.constants:
        return layout.constants[name], layout.constants[name]
    found = statistics[layout.stored[name]]
    # A bound says nothing about null values, which must be found.
    if found is None or not found.has_min_max or not found.has_null_count or found.null_count:
        return None
    low, high = found.min, found.max
    return (_text(low), _text(high)) if isinstance(low, bytes) else (low, high)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


@contextmanager
def reading_capture(path: Path) -> Iterator[None]:
    """Damaged bytes raise whatever Arrow makes of them: errors of its own, names of columns that are no UTF-8."""
    try:
        yield
    except (OSError, pa.ArrowException, UnicodeDecodeError, KeyError, OverflowError) as error:
        text = str(error).split("\n", 1)[0]
        raise unfit(f"the capture is damaged ({text})", path, _COPY) from None


def last_record_ms(
    paths: Iterable[Path], probes_topic: str, columns: Mapping[str, str] | None = None
) -> int | None:
    """The latest time of a record of the log or of the probes, in milliseconds since 1970; None without records.

    Times that cannot be (``plausible_times``) do not count. It reads the statistics of the row groups, and the columns
    ``timestamp`` and ``topic`` of those without. ``columns``: see ``read_captures``.

    Raises:
        GroupReplayError: a file is missing, not a capture or damaged.
    """
    topics = frozenset({OFFSETS_TOPIC, probes_topic})
    found = list[int]()
    for place in capture_places(paths):
        opened = open_capture(place, columns or {})
        with reading_capture(opened.path):
            for index in range(opened.file.num_row_groups):
                found += _latest(opened, index, topics)
    return max(found, default=None)


def _latest(opened: OpenedFile, index: int, topics: Collection[str]) -> list[int]:
    """The latest time of a row group in a list, or nothing."""
    group = opened.file.metadata.row_group(index)
    stored, constants = opened.layout.stored, opened.layout.constants
    statistics = _statistics(group)
    topic, times = (_bounds(name, opened.layout, statistics) for name in ("topic", "timestamp"))
    if topic is not None and topic[0] == topic[1] and times is not None:
        latest_ms = _ms(times[1])
        if latest_ms <= LATEST_MS:
            return [latest_ms] if topic[0] in topics and latest_ms >= 0 else []
    latest = None
    wanted = [name for name in ("timestamp", "topic") if name in stored]
    for batch in opened.file.iter_batches(row_groups=[index], columns=[stored[name] for name in wanted]):
        table = pa.Table.from_batches([batch]).rename_columns(
            [next(name for name in wanted if stored[name] == column) for column in batch.schema.names]
        )
        at_ms = as_type(table["timestamp"], pa.int64())
        if "topic" not in constants:
            at_ms = at_ms.filter(is_one_of(table["topic"], topics))
        elif constants["topic"] not in topics:
            return []
        if (found := plausible_bounds(at_ms)) is not None:
            latest = found[1] if latest is None else max(latest, found[1])
    return [] if latest is None else [latest]


def _ms(value: int | datetime) -> int:
    """Other writers store timestamps, in UTC with or without saying so."""
    if isinstance(value, int):
        return value
    at = value.replace(tzinfo=timezone.utc) if value.tzinfo is None else value
    return int(at.timestamp() * 1000)
