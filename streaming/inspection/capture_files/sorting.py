"""Sorts rows of many partitions in one pass with bounded memory: chunks are sorted and put into a temporary file."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from groupreplay.streaming.engine.packing.binary_columns import numbers
from groupreplay.streaming.inspection.capture_files.blocks import Block

#: Rows are sorted in memory up to this size, and in chunks of it beyond.
CHUNK_BYTES: Final = 256 * 1024 * 1024
#: Of one partition in one chunk: what the merge reads at once of each chunk.
_BLOCK_BYTES: Final = 1024 * 1024
#: Runs of rows in order that are on average this long are taken as they are, without a copy.
_LONG_RUN: Final = 2_000
_CODEC: Final = "lz4"

#: (topic, partition)
LogPlace = tuple[str, int]


def sorted_blocks(
    tables: Iterable[pa.Table], *, chunk_bytes: int = CHUNK_BYTES
) -> dict[LogPlace, list[Block]]:
    """The rows as blocks of one partition each; ``tables`` are read once, to their end.

    Up to ``chunk_bytes`` stay in memory. The other rows are in one temporary file in the folder for temporary files,
    compressed; it has no name and ends with the last block.

    Raises:
        GroupReplayError: the temporary file cannot be written.
    """
    found = dict[LogPlace, list[Block]]()
    held, size = list[pa.Table](), 0
    spill: _Spill | None = None
    for table in tables:
        held.append(table)
        size += table.nbytes
        if size >= chunk_bytes:
            spill = spill or _Spill()
            for place, part in _parts(held):
                rows = max(1, _BLOCK_BYTES * part.num_rows // max(1, part.nbytes))
                for start in range(0, part.num_rows, rows):
                    piece = part.slice(start, rows)
                    found.setdefault(place, []).append(_block(piece, spill.stored(piece)))
            size = 0
    for place, part in _parts(held):
        found.setdefault(place, []).append(_block(part, partial(_same, part)))
    return found


def _same(table: pa.Table) -> pa.Table:
    return table


def _block(table: pa.Table, read: Callable[[], pa.Table]) -> Block:
    offsets = table["offset"]
    return Block(offsets[0].as_py(), offsets[-1].as_py(), read)


def _parts(held: list[pa.Table]) -> Iterator[tuple[LogPlace, pa.Table]]:
    """Stretches of rows of one partition with ascending offsets; the same offset may stand twice. Empties the list."""
    if not held:
        return
    table = pa.concat_tables(held)
    held.clear()
    if not table.num_rows:
        return
    # Only these columns are copied; rows that are in order stay where they were read.
    topics = table["topic"].combine_chunks().dictionary_encode()
    names: list[str] = topics.dictionary.to_pylist()
    codes = numbers(topics.indices)
    partitions, offsets = (numbers(table[name].combine_chunks()) for name in ("partition", "offset"))
    borders = _borders(codes, partitions, offsets)
    if len(borders) * _LONG_RUN > table.num_rows:
        order = _order(codes, partitions, offsets)
        # Not from the array itself: Arrow would import pandas.
        rows = pa.Array.from_buffers(pa.int64(), len(order), [None, pa.py_buffer(order)])
        table = table.take(rows)
        codes, partitions, offsets = codes[order], partitions[order], offsets[order]
        borders = _borders(codes, partitions, offsets)
    edges = [0, *borders.tolist(), table.num_rows]
    for start, end in pairwise(edges):
        place = names[codes[start]], int(partitions[start])
        yield place, table.slice(start, end - start)


def _borders(
    codes: npt.NDArray[np.int32], partitions: npt.NDArray[np.int32], offsets: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """The rows that do not follow the row before in the same partition."""
    breaks = (np.diff(offsets) < 0) | (np.diff(partitions) != 0) | (np.diff(codes) != 0)
    return np.flatnonzero(breaks) + 1


def _order(
    codes: npt.NDArray[np.int32], partitions: npt.NDArray[np.int32], offsets: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """The rows by topic, partition and offset; equal ones in their order."""
    count = len(offsets)
    lows = [int(codes.min()), int(partitions.min()), int(offsets.min())]
    highs = [int(codes.max()), int(partitions.max()), int(offsets.max())]
    spans = [high - low + 1 for low, high in zip(lows, highs, strict=True)]
    if spans[0] * spans[1] * spans[2] * count >= 1 << 63:
        return np.lexsort((offsets, partitions, codes))
    # One number for place and row: NumPy sorts numbers with vector instructions, several times faster than it argsorts.
    packed = (codes.astype(np.int64) - lows[0]) * spans[1] + (partitions - lows[1])
    packed = (packed * spans[2] + (offsets - lows[2])) * count + np.arange(count)
    packed.sort()
    return packed % count


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
        raise GroupReplayError(
            f"the records cannot be sorted, {error.strerror or error}",
            where=tempfile.gettempdir(),
            fix="name a folder with free space in TMPDIR; it needs several times the size of the capture",
            exit_code=ExitCode.USAGE,
        ) from None
