"""Sorts rows by partition and offset with bounded memory: in one pass, and what is too much in a temporary file."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from groupreplay.streaming.base.errors import unusable
from groupreplay.streaming.contract.log import BATCH_ROWS, numbers
from groupreplay.streaming.sources.capture_columns import of_one_place

_DIGIT_BITS: Final = 16
_MOST_DIGITS: Final = 3


def ascending(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The rows in the order of their values; equal ones in their own order."""
    if not len(values):
        return np.zeros(0, np.int64)
    low = int(values.min())
    bits = (int(values.max()) - low).bit_length()
    if bits > _MOST_DIGITS * _DIGIT_BITS:
        return np.argsort(values, kind="stable")
    # One 16-bit digit after the other: for these alone NumPy has a radix sort, ten times faster than its others.
    above = values - low
    order = np.argsort(above.astype(np.uint16), kind="stable")
    for shift in range(_DIGIT_BITS, bits, _DIGIT_BITS):
        order = order[np.argsort((above >> shift).astype(np.uint16)[order], kind="stable")]
    return order


def taken(table: pa.Table, rows: npt.NDArray[np.int64]) -> pa.Table:
    """These rows of a table in one chunk."""
    # Not from the array itself: Arrow would import pandas. And not from several chunks, which Arrow would join first.
    chosen = pa.Array.from_buffers(
        pa.int64(), len(rows), [None, pa.py_buffer(np.ascontiguousarray(rows, np.int64))]
    )
    return table.combine_chunks().take(chosen)


_MERGE_BYTES: Final = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Block:
    """Records of one partition of one topic; ``read`` gives them in any order, with the columns of ``ROW_SCHEMA``.

    ``first_offset`` and ``last_offset`` are the bounds of their offsets, both included.
    """

    first_offset: int
    last_offset: int
    read: Callable[[], pa.Table]


def merged(blocks: Iterable[Block]) -> Iterator[pa.Table]:
    """The records of all blocks, ordered by offset, each offset once.

    Memory: the blocks whose offsets overlap, and 32 MiB. Blocks are read in the order of their first offsets. What is
    below the first offset of the next block is complete.
    """
    waiting = sorted(blocks, key=lambda block: (block.first_offset, block.last_offset))
    held = list[pa.Table]()
    last_offset = -1
    kept_bytes = 0
    for block, following in zip(waiting, [*waiting[1:], None], strict=True):
        held.append(block.read())
        last_offset = max(last_offset, block.last_offset)
        rows, size = sum(table.num_rows for table in held), sum(table.nbytes for table in held)
        if following is None or (
            following.first_offset > last_offset and (rows >= BATCH_ROWS or size >= _MERGE_BYTES)
        ):
            yield in_order(held)
            held, kept_bytes = [], 0
        elif size >= _MERGE_BYTES + 2 * kept_bytes:
            # Twice what could not be passed on, so that a row is sorted a bounded number of times.
            table = in_order(held)
            complete = pc.sum(pc.less(table["offset"], following.first_offset)).as_py() or 0
            if complete:
                yield table.slice(0, complete)
            held = [in_order([table.slice(complete)])]
            kept_bytes = held[0].nbytes


def in_order(tables: list[pa.Table]) -> pa.Table:
    """The rows of these tables, all of one partition of one topic, in one chunk: sorted by offset, each offset once."""
    table = pa.concat_tables(tables).combine_chunks()
    if table.num_rows < 2:
        return table
    offsets = numbers(table["offset"].combine_chunks())
    least_step = int(np.diff(offsets).min())
    if least_step > 0:
        return table
    order = ascending(offsets) if least_step < 0 else np.arange(len(offsets))
    is_first = np.diff(offsets[order], prepend=offsets[order[0]] - 1) > 0
    place = {name: table[name][0].as_py() for name in ("topic", "partition") if name in table.column_names}
    rows = taken(table.drop_columns(list(place)), order[is_first])
    return of_one_place(rows, place) if place else rows


#: Rows stay in memory up to this size; beyond, chunks of it are stored.
CHUNK_BYTES: Final = 256 * 1024 * 1024
#: Of one partition in one chunk: what the merge reads at once of each chunk.
_BLOCK_BYTES: Final = 1024 * 1024
#: Runs of rows in order that are on average this long are taken as they are, without a copy.
_LONG_RUN: Final = 2_000
_CODEC: Final = "lz4"


class LogPlace(NamedTuple):
    """The partition whose records a block holds."""

    topic: str
    partition: int


@dataclass(slots=True)
class _PartitionRows:
    """Rows of one partition in the order in which they were read, and the bounds of their offsets."""

    pieces: list[pa.RecordBatch] = field(default_factory=list)
    first_offset: int = sys.maxsize
    last_offset: int = -sys.maxsize

    def add(self, piece: pa.RecordBatch, first_offset: int, last_offset: int) -> None:
        self.pieces.append(piece)
        self.first_offset = min(self.first_offset, first_offset)
        self.last_offset = max(self.last_offset, last_offset)

    def rows(self, place: LogPlace) -> pa.Table:
        return of_one_place(in_order([pa.Table.from_batches(self.pieces)]), place._asdict())


def sorted_blocks(
    tables: Iterable[pa.Table], *, chunk_bytes: int = CHUNK_BYTES
) -> dict[LogPlace, list[Block]]:
    """The rows as blocks of one partition each; ``tables`` (with ``UNSORTED_SCHEMA``) are read once, to their end.

    Each table is divided by partition while the processor still has it in its cache; each partition is sorted when its
    turn comes (``merged``). Up to ``chunk_bytes`` stay in memory. The other rows are sorted and compressed, in one
    temporary file in the folder for temporary files; it has no name and ends with the last block.

    Raises:
        GroupReplayError: the temporary file cannot be written.
    """
    found = dict[LogPlace, list[Block]]()
    held, size = dict[LogPlace, _PartitionRows](), 0
    spill: _Spill | None = None
    for table in tables:
        _divide(table, held)
        size += table.nbytes
        if size >= chunk_bytes:
            spill = spill or _Spill()
            while held:
                place, rows = held.popitem()
                found.setdefault(place, []).extend(_stored(rows.rows(place), spill))
            size = 0
    for place, rows in held.items():
        block = Block(rows.first_offset, rows.last_offset, partial(rows.rows, place))
        found.setdefault(place, []).append(block)
    return found


def _stored(part: pa.Table, spill: _Spill) -> Iterator[Block]:
    rows = max(1, _BLOCK_BYTES * part.num_rows // max(1, part.nbytes))
    for start in range(0, part.num_rows, rows):
        piece = part.slice(start, rows)
        offsets = piece["offset"]
        yield Block(offsets[0].as_py(), offsets[-1].as_py(), spill.stored(piece))


def _divide(table: pa.Table, held: dict[LogPlace, _PartitionRows]) -> None:
    """Adds the rows of each partition to those that are held."""
    if not table.num_rows:
        return
    topics = table["topic"].combine_chunks()
    codes = numbers(topics.indices).astype(np.int64)
    partitions, offsets = (numbers(table[name].combine_chunks()) for name in ("partition", "offset"))
    least, most = int(partitions.min()), int(partitions.max())
    places = codes * (most - least + 1) + (partitions - least)
    content = table.drop_columns(list(LogPlace._fields))
    borders = np.flatnonzero(np.diff(places)) + 1
    # Long stretches of one partition are taken as they are, without a copy.
    if len(borders) * _LONG_RUN > table.num_rows:
        order = ascending(places)
        content, offsets, places = taken(content, order), offsets[order], places[order]
        borders = np.flatnonzero(np.diff(places)) + 1
    starts = np.r_[0, borders]
    firsts, lasts = (reduction.reduceat(offsets, starts).tolist() for reduction in (np.minimum, np.maximum))
    names: list[str] = topics.dictionary.to_pylist()
    # Much faster to slice than a table.
    (batch,) = content.combine_chunks().to_batches()
    for number, (start, end) in enumerate(pairwise([*starts.tolist(), table.num_rows])):
        code, partition = divmod(int(places[start]), most - least + 1)
        place = LogPlace(names[code], partition + least)
        held.setdefault(place, _PartitionRows()).add(
            batch.slice(start, end - start), firsts[number], lasts[number]
        )


class _Spill:
    """A temporary file of compressed tables."""

    def __init__(self) -> None:
        with _spilling():
            self._file = tempfile.TemporaryFile(prefix="groupreplay-capture-")  # noqa: SIM115 (closed with the blocks)

    def stored(self, table: pa.Table) -> Callable[[], pa.Table]:
        """Writes the table; the result reads it again."""
        batch = table.combine_chunks().to_batches()[0]
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(
            sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=_CODEC)
        ) as writer:
            writer.write_batch(batch)
        with _spilling():
            position = self._file.seek(0, 2)
            size = self._file.write(sink.getvalue())
        return partial(self._read, position, size)

    def _read(self, position: int, size: int) -> pa.Table:
        self._file.seek(position)
        with pa.ipc.open_stream(self._file.read(size)) as reader:
            return reader.read_all()


@contextmanager
def _spilling() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise unusable(
            f"the records cannot be sorted, {error.strerror or error}",
            tempfile.gettempdir(),
            "name a folder with free space in TMPDIR; it needs several times the size of the capture",
        ) from None
