"""The records and rows of the groups that are read ahead of the others (``log_offsets``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from groupreplay.streaming.engine.packing.pack import COUNTED_SCHEMA
from groupreplay.streaming.engine.wire import GROUP_TAG
from groupreplay.streaming.spark.log_offsets import ActiveGroups, Span

#: Of more groups the hashes would be most of a batch's offsets, and they would not be read in a minute.
_MOST_GROUPS: Final = 20_000
#: A group is active if one of its records is not older, and among so many offsets at the end of its partition.
_ACTIVE_MS: Final = 120_000
_LAST_OFFSETS: Final = 20_000
#: So many offsets in the middle of each partition show whether others have most of the records.
_SAMPLED_OFFSETS: Final = 1_000

#: Reads the rows of ``read_log`` for some spans.
ReadSpans: TypeAlias = Callable[[Sequence[Span]], Iterator[pa.RecordBatch]]


def groups_to_read_ahead(read: ReadSpans, spans: Sequence[Span], now_ms: int) -> ActiveGroups | None:
    """The active groups; None if there are none or too many, or if most of the records in ``spans`` are theirs.

    Then they would hardly be read earlier, and all of their records twice.
    """
    ends = [(number, max(start, end - _LAST_OFFSETS), end) for number, start, end in spans]
    active = _recent(read(ends), now_ms - _ACTIVE_MS)
    if active is None:
        return None
    middles = [(number, (start + end) // 2, end) for number, start, end in spans]
    sample = read([(number, start, min(end, start + _SAMPLED_OFFSETS)) for number, start, end in middles])
    are_theirs = [is_theirs for batch in sample for is_theirs in _are_of(active, batch)]
    return active if 2 * sum(are_theirs) < len(are_theirs) else None


def _recent(batches: Iterable[pa.RecordBatch], since_ms: int) -> ActiveGroups | None:
    groups: set[bytes] = set()
    for batch in batches:
        # A record that is dated ahead is none of the past either.
        recent = batch.filter(pc.greater_equal(batch["timestamp"], since_ms))
        groups.update(owner for owner in _owners(recent) if owner is not None)
        if len(groups) > _MOST_GROUPS:
            return None
    return ActiveGroups.of(groups) if groups else None


def records_of(groups: ActiveGroups, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The records of these groups, and the last one of each batch: it shows how far the log was read for them.

    Rows of ``read_log``.
    """
    for batch in batches:
        are_theirs = _are_of(groups, batch)
        if are_theirs:
            are_theirs[-1] = True
        yield batch.filter(pa.array(are_theirs, pa.bool_()))


def rows_of(groups: ActiveGroups, packed: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Of the rows of ``pack`` those of these groups. Nothing is counted: all other rows come with the other groups."""
    for rows in packed:
        yield _chosen(rows, _are_rows_of(groups, rows), None)


def rows_without(groups: ActiveGroups, packed: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of ``pack`` without those of these groups. That of the job remains in each batch, for the counts."""
    for rows in packed:
        are_others = [not is_theirs for is_theirs in _are_rows_of(groups, rows)]
        yield _chosen(rows, are_others, rows["record_counts"][0].as_py())


def _are_rows_of(groups: ActiveGroups, rows: pa.RecordBatch) -> list[bool]:
    return [key.startswith(GROUP_TAG) and key[len(GROUP_TAG) :] in groups for key in rows["key"].to_pylist()]


def _chosen(rows: pa.RecordBatch, is_chosen: Sequence[bool], counts: list[int] | None) -> pa.RecordBatch:
    chosen = rows.filter(pa.array(is_chosen, pa.bool_()))
    column = pa.array([counts, *[None] * chosen.num_rows][: chosen.num_rows], COUNTED_SCHEMA.field(3).type)
    return pa.RecordBatch.from_arrays([*chosen.columns[:3], column], schema=COUNTED_SCHEMA)


def _are_of(groups: ActiveGroups, batch: pa.RecordBatch) -> list[bool]:
    return [owner is not None and owner in groups for owner in _owners(batch)]


def _owners(batch: pa.RecordBatch) -> Iterator[bytes | None]:
    """The group of each record; None for a key that has none.

    Each key of the offsets topic has a version, then its group with two bytes of length before it.
    """
    for key in batch["key"].to_pylist():
        yield None if key is None or len(key) < 4 else key[4 : 4 + int.from_bytes(key[2:4], "big")]
