"""The hot path before the shuffle: raw records in, one row per group and chunk out.

Runs in Spark's Python workers and in ``replay``. Nothing in here may raise on any bytes: Spark would run the same
batch again for ever.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import starmap
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from groupreplay.codecs import Key, Malformed, OffsetCommitValue, Skipped, Value, decode_value
from groupreplay.state import plausible_times
from groupreplay.state.job.bad_records import BadRecord, LeftOut, left_out
from groupreplay.state.job.observations import LogObservation, LogRecord
from groupreplay.state.plausible_times import NO_TIMESTAMP
from groupreplay.streaming.base.memory import keep_freed_memory
from groupreplay.streaming.contract.log import numbers
from groupreplay.streaming.engine.packing import record_times
from groupreplay.streaming.engine.packing.commit_columns import CommitColumns, decode_regular
from groupreplay.streaming.engine.packing.fold import ChunkRows, fold
from groupreplay.streaming.engine.packing.key_columns import (
    BinaryColumn,
    Flags,
    Ints,
    KeyColumns,
    count_types,
    keys_of_rows,
)
from groupreplay.streaming.engine.packing.record_times import (
    Horizons,
    RecordTimes,
    Stretches,
    pauses,
)
from groupreplay.streaming.engine.wire import (
    BAD_RECORDS_TAG,
    GROUP_TAG,
    JOB_TAG,
    BadRecordBytes,
    PackedGroup,
    PackedItem,
    PackedRecord,
    to_wire,
)

#: The columns that ``pack`` reads. Times are milliseconds; a null value is a tombstone.
INPUT_COLUMNS: Final = ("partition", "offset", "timestamp_ms", "key", "value")
#: The rows of the operator: the tagged key, the packed observations, and a column that only heartbeats fill.
OUTPUT_SCHEMA: Final = pa.schema(
    [("key", pa.binary()), ("packed", pa.binary()), ("caught_up", pa.timestamp("us", "UTC"))]
)
#: The rows that ``pack`` writes: the first row of each chunk also has its ``record_counts``.
COUNTED_SCHEMA: Final = OUTPUT_SCHEMA.append(pa.field("record_counts", pa.list_(pa.int64())))

#: A chunk is folded as a whole. Larger chunks fold better; both limits bound the memory.
_CHUNK_ROWS: Final = 200_000
_CHUNK_BYTES: Final = 64 << 20
#: How many bytes of a key and of a value a dead letter carries. Fewer for skipped records: they are not broken, and a
#: newer broker may write many of them.
KEPT_BYTES: Final = {"malformed": 64 << 10, "quarantined": 64 << 10, "skipped": 1 << 10}
#: Kafka's names of the times inside records, by key type; all others are the time of a target assignment.
_INSIDE: Final = {0: "commitTimestamp", 1: "commitTimestamp", 2: "currentStateTimestamp"}


class PackedRows(NamedTuple):
    """The rows of one chunk by tagged key, and its ``record_counts``."""

    keys: list[bytes]
    packed: list[bytes]
    counts: list[int]


def pack(batches: Iterable[pa.RecordBatch], horizons: Horizons | None = None) -> Iterator[pa.RecordBatch]:
    """Packs records into rows of COUNTED_SCHEMA: one per group, Kafka partition and chunk.

    The batches have INPUT_COLUMNS (int32, int64, int64, binary, binary). Rows that cannot be used go to the
    key ``x:`` + partition. ``horizons`` are the caught-up times beside the records, None where there are none.
    """
    for keys, packed, counts in packed_rows(batches, horizons):
        columns = [
            pa.array(keys, pa.binary()),
            pa.array(packed, pa.binary()),
            pa.nulls(len(keys), OUTPUT_SCHEMA.field("caught_up").type),
            pa.array([counts] + [None] * (len(keys) - 1)),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=COUNTED_SCHEMA)


def packed_rows(batches: Iterable[pa.RecordBatch], horizons: Horizons | None = None) -> Iterator[PackedRows]:
    """The same as plain lists, for callers that do not use Arrow."""
    keep_freed_memory()
    for table in _chunks(batches):
        yield _packed_rows(_Chunk.of(table), horizons or Horizons())


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows in tables that keep to the limits, unless a single row exceeds them."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        for piece in _pieces(batch):
            if held and (rows + piece.num_rows > _CHUNK_ROWS or size + piece.nbytes > _CHUNK_BYTES):
                yield pa.Table.from_batches(held)
                held, rows, size = [], 0, 0
            held.append(piece)
            rows, size = rows + piece.num_rows, size + piece.nbytes
    if held:
        yield pa.Table.from_batches(held)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in pieces that fit into a chunk."""
    if batch.num_rows > 1 and (batch.num_rows > _CHUNK_ROWS or batch.nbytes > _CHUNK_BYTES):
        half = batch.num_rows // 2
        yield from _pieces(batch.slice(0, half))
        yield from _pieces(batch.slice(half))
    elif batch.num_rows:
        yield batch


@dataclass(frozen=True, slots=True)
class _Chunk:
    """The rows of one chunk, in log order inside each Kafka partition."""

    partition: Ints
    offset: Ints
    timestamp_ms: Ints
    key_index: Ints
    keys: KeyColumns
    values: BinaryColumn

    @classmethod
    def of(cls, table: pa.Table) -> _Chunk:
        partition, offset = _numbers(table, "partition"), _numbers(table, "offset")
        if not _in_log_order(partition, offset):
            table = table.take(pa.array(np.lexsort((offset, partition))))
            partition, offset = _numbers(table, "partition"), _numbers(table, "offset")
        keys, key_index = keys_of_rows(_one_array(table["key"]))
        return cls(
            partition.astype(np.int64),
            offset,
            _numbers(table, "timestamp_ms"),
            key_index,
            keys,
            BinaryColumn.of(_one_array(table["value"])),
        )


def _in_log_order(partition: npt.NDArray[np.int32], offset: Ints) -> bool:
    """Whether the Kafka partitions follow each other, each in the order of its offsets, as Spark reads them."""
    ends = _ends(partition)
    same_partition = partition[1:] == partition[:-1]
    return len(set(partition[ends].tolist())) == len(ends) and not np.any(
        same_partition & (offset[1:] <= offset[:-1])
    )


def _ends(partition: npt.NDArray[Any]) -> Ints:
    """The last row of each stretch of one partition."""
    return np.append(np.flatnonzero(partition[1:] != partition[:-1]), len(partition) - 1)


def _numbers(table: pa.Table, name: str) -> npt.NDArray[Any]:
    return numbers(pa.concat_arrays(table[name].chunks))


def _one_array(column: pa.ChunkedArray) -> pa.LargeBinaryArray:
    """A binary column in one piece, with offsets that cannot overflow."""
    return pa.concat_arrays(column.cast(pa.large_binary()).chunks)


def _packed_rows(chunk: _Chunk, horizons: Horizons) -> PackedRows:
    is_offset_commit = chunk.keys.is_offset_commit[chunk.key_index]
    commits = decode_regular(chunk.values, is_offset_commit & ~chunk.values.is_null)
    records, unusable, partial = _other_rows(chunk, commits)
    streams, stream = _streams(chunk)
    cuts = np.zeros(len(stream), bool)
    cuts[list(records)] = True
    applied = commits.is_commit | cuts
    stretches = Stretches(chunk.partition, chunk.offset, _ends(chunk.partition))
    times = record_times.check(chunk.timestamp_ms, commits.commit_timestamp_ms, stretches, horizons)
    bad = _bad_records(chunk, unusable, partial, times, applied)
    times = record_times.settle(times, applied, stream, stretches)
    if times.cuts is not None:
        cuts |= times.cuts
        commits = replace(commits, commit_timestamp_ms=times.inside_ms)
    slot = chunk.keys.slot[chunk.key_index]
    for ends in pauses(times.record_ms, commits.is_commit, applied, stream, slot, stretches):
        cuts |= ends
    items: defaultdict[int, list[tuple[int, PackedItem]]] = defaultdict(list)
    for row, (raw_key, raw_value) in records.items():
        offset = int(chunk.offset[row])
        record = PackedRecord(offset, int(times.record_ms[row]), raw_key, raw_value)
        items[int(stream[row])].append((offset, record))
    rows = ChunkRows(chunk.offset, times.record_ms, stream, slot, cuts)
    for run in fold(commits, rows, chunk.keys):
        items[run.stream].append((run.packed.extent.first_offset, run.packed))
    return _tagged(chunk, streams, items, bad, horizons)


def _streams(chunk: _Chunk) -> tuple[list[tuple[int, int]], Ints]:
    """((group, Kafka partition) of each stream; the stream of each row, or -1).

    A group stays in one partition; in a log that contradicts this, each partition of the group is a stream.
    """
    width = int(chunk.partition.max()) + 1
    place, group = chunk.key_index, chunk.keys.group
    partition = np.zeros(len(group), np.int64)
    partition[place] = chunk.partition
    if not np.array_equal(partition[place], chunk.partition):
        pairs, place = np.unique(place * width + chunk.partition, return_inverse=True)
        group, partition = group[pairs // width], pairs % width
    # By key and not by row: there are few keys.
    named, stream = np.unique(group * width + partition, return_inverse=True)
    return [divmod(name, width) for name in named.tolist()], np.where(group < 0, -1, stream)[place]


def _tagged(
    chunk: _Chunk,
    streams: Sequence[tuple[int, int]],
    items: Mapping[int, list[tuple[int, PackedItem]]],
    bad: Mapping[int, list[BadRecordBytes]],
    horizons: Horizons,
) -> PackedRows:
    ends = _ends(chunk.partition)
    seen_to = dict(zip(chunk.partition[ends].tolist(), chunk.offset[ends].tolist(), strict=True))
    keys: list[bytes] = []
    packed: list[bytes] = []
    for of_stream, pairs in items.items():
        group, partition = streams[of_stream]
        pairs.sort(key=lambda pair: pair[0])
        first_offset, first = pairs[0]
        # Only for a group that has no time yet.
        caught_up_ms = horizons.first_ms(partition, first_offset) if first.first_ms < 0 else 0
        keys.append(GROUP_TAG + chunk.keys.groups[group].encode())
        packed.append(
            to_wire(PackedGroup(partition, seen_to[partition], [item for _, item in pairs], caught_up_ms))
        )
    for partition, bad_records in bad.items():
        keys.append(BAD_RECORDS_TAG + str(partition).encode())
        packed.append(to_wire(bad_records))
    last = (column[ends].tolist() for column in (chunk.partition, chunk.offset, chunk.timestamp_ms))
    keys.append(JOB_TAG)
    # The job compares the coordinators' clocks with its heartbeats (``state.job.observations``).
    packed.append(to_wire(LogObservation(tuple(starmap(LogRecord, zip(*last, strict=True))))))
    return PackedRows(keys, packed, count_types(chunk.keys.raw, chunk.key_index))


class _Unusable(NamedTuple):
    """A record that could not be decoded."""

    row: int
    group: str | None
    outcome: Skipped | Malformed


class _Partial(NamedTuple):
    """A record that is applied without some of its values."""

    row: int
    key: Key
    version: int
    without: LeftOut


def _other_rows(
    chunk: _Chunk, commits: CommitColumns
) -> tuple[dict[int, tuple[bytes, bytes | None]], list[_Unusable], list[_Partial]]:
    """(key and value by row, unusable and partial records) of the rows that are not regular commits.

    Commits that the scalar decoder can read are added to ``commits``, and the times inside other records.
    """
    records: dict[int, tuple[bytes, bytes | None]] = {}
    unusable: list[_Unusable] = []
    partial: list[_Partial] = []
    for row in np.flatnonzero(~commits.is_commit).tolist():
        place = int(chunk.key_index[row])
        raw_key, raw_value = chunk.keys.raw.at(place), chunk.values.at(row)
        if raw_key is not None and raw_value is None and place not in chunk.keys.odd:
            # The tombstone of a commit; there are many when offsets expire.
            records[row] = raw_key, None
            continue
        key = chunk.keys.key(place)
        group, outcome = (
            (None, key) if isinstance(key, Skipped | Malformed) else (key.group, decode_value(key, raw_value))
        )
        if isinstance(outcome, Skipped | Malformed):
            unusable.append(_Unusable(row, group, outcome))
        elif isinstance(outcome, OffsetCommitValue):
            commits.put(row, outcome)
        else:
            assert raw_key is not None
            assert not isinstance(key, Skipped | Malformed)
            records[row] = raw_key, raw_value
            commits.commit_timestamp_ms[row] = _inside_ms(outcome)
            if outcome is not None and (without := left_out(outcome)) is not None:
                partial.append(_Partial(row, key, outcome.version, without))
    return records, unusable, partial


def _inside_ms(value: Value | None) -> int:
    """The time inside a group's record; 0 for none."""
    at_ms: int = getattr(value, "current_state_timestamp_ms", getattr(value, "assignment_timestamp_ms", 0))
    return 0 if at_ms == NO_TIMESTAMP else at_ms


def _bad_records(
    chunk: _Chunk,
    unusable: Iterable[_Unusable],
    partial: Iterable[_Partial],
    times: RecordTimes,
    applied: Flags,
) -> dict[int, list[BadRecordBytes]]:
    """By partition: the unusable records, and those of which a value or a time cannot be."""
    bad: defaultdict[int, list[BadRecordBytes]] = defaultdict(list)
    for row, group, outcome in unusable:
        record = _bad_record(chunk, row, group, outcome, times)
        key, value = chunk.keys.raw.at(int(chunk.key_index[row])), chunk.values.at(row)
        bad[record.partition].append(BadRecordBytes.of(record, key, value, KEPT_BYTES[record.kind]))
    corrected = [_undated_record(chunk, *one, times) for one in times.undated(applied, chunk.partition)]
    for record in (*corrected, *(_partial_record(chunk, one, times) for one in partial)):
        # It is applied: there is no dead letter that needs its bytes.
        bad[record.partition].append(BadRecordBytes.of(record, None, None, 0))
    return bad


def _bad_record(
    chunk: _Chunk, row: int, group: str | None, outcome: Skipped | Malformed, times: RecordTimes
) -> BadRecord:
    malformed = outcome if isinstance(outcome, Malformed) else None
    return BadRecord(
        partition=int(chunk.partition[row]),
        offset=int(chunk.offset[row]),
        timestamp_ms=int(chunk.timestamp_ms[row]),
        group=group,
        kind="malformed" if malformed else "skipped",
        key_type=outcome.key_type,
        version=outcome.version,
        field=malformed.field if malformed else None,
        byte_position=malformed.at if malformed else None,
        reason=outcome.reason,
        read_ms=times.read_ms(row),
    )


def _partial_record(chunk: _Chunk, one: _Partial, times: RecordTimes) -> BadRecord:
    return BadRecord(
        partition=int(chunk.partition[one.row]),
        offset=int(chunk.offset[one.row]),
        timestamp_ms=int(chunk.timestamp_ms[one.row]),
        group=one.key.group,
        kind="partial",
        key_type=one.key.KEY_TYPE,
        version=one.version,
        field=one.without.field,
        byte_position=None,
        reason=f"{one.without.what}; all other values are applied",
        read_ms=times.read_ms(one.row),
    )


def _undated_record(chunk: _Chunk, row: int, others: int, times: RecordTimes) -> BadRecord:
    """A record that is applied with another time than its own."""
    key = chunk.keys.key(int(chunk.key_index[row]))
    assert not isinstance(key, Skipped | Malformed)
    caught_up_ms = int(times.caught_up_ms[row])
    record_ms, inside_ms = int(chunk.timestamp_ms[row]), int(times.inside_ms[row])
    if times.bad_record[row]:
        field, at_ms, instead = "timestamp", record_ms, "the time of the group's record before it"
    else:
        field, at_ms, instead = (
            _INSIDE.get(key.KEY_TYPE, "assignmentTimestamp"),
            inside_ms,
            "its record's time",
        )
    why = plausible_times.implausible(at_ms, caught_up_ms)
    return BadRecord(
        partition=int(chunk.partition[row]),
        offset=int(chunk.offset[row]),
        timestamp_ms=record_ms,
        group=key.group,
        kind="timestamp",
        key_type=key.KEY_TYPE,
        version=None,
        field=field,
        byte_position=None,
        reason=f"timestamp {at_ms} {why}; the record was applied with {instead}",
        read_ms=times.read_ms(row),
        others=others,
        seen_ms=caught_up_ms,
    )
