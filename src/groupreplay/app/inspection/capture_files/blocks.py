"""Sorted blocks of records, and their merge by offset with bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from groupreplay.app.inspection.capture_files.columns import of_one_place
from groupreplay.app.inspection.capture_files.row_order import ascending, taken
from groupreplay.streaming.engine.packing.binary_columns import numbers
from groupreplay.streaming.kafka.topic_reader import BATCH_ROWS

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
    steps = np.diff(offsets)
    least_step = int(steps.min())
    if least_step > 0:
        return table
    order = ascending(offsets) if least_step < 0 else np.arange(len(offsets))
    is_first = np.diff(offsets[order], prepend=offsets[order[0]] - 1) > 0
    place = {name: table[name][0].as_py() for name in ("topic", "partition") if name in table.column_names}
    rows = taken(table.drop_columns(list(place)), order[is_first])
    return of_one_place(rows, place) if place else rows
