"""A log that is read: its records as Arrow batches, which every reader hands on, and what is remembered of it.

Offsets alone do not show whether the log in the cluster is still the one that was read: a log that was cut by an
unclean leader election and has grown again is as long as before. Each change of the leader begins a new *leader
epoch*, and within one epoch a log only grows. So the log is the same if the leader's log still holds, from the epoch
that was seen, all offsets that were seen in it (KIP-320). The digest of one record shows what epochs cannot: brokers
that do not number epochs, or that were restored from a backup.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, Protocol, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from groupreplay.state.plausible_times import LATEST_MS

#: The columns of Spark's Kafka source; ``timestamp`` in milliseconds since 1970, ``timestampType`` as Kafka
#: numbers it (0 set by the client, 1 set by the broker).
ROW_SCHEMA: Final = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("timestampType", pa.int32(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
    ]
)


def with_units(rows: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """These columns of rows of ``ROW_SCHEMA``; the names may have a unit, such as ``timestamp_ms``."""
    return rows.select([name.removesuffix("_ms") for name in names]).rename_columns(list(names))


#: Rows of a batch, at most.
BATCH_ROWS: Final = 50_000


class ProgressCallback(Protocol):
    """Receives the progress of a long read."""

    def __call__(self, done: int, total: int | None) -> None:
        """``done`` of ``total`` rows, both absolute; ``total`` None: unknown."""


def no_progress(done: int, total: int | None) -> None:
    """For callers that show nothing."""


class LogExtent:
    """Counts the records that pass by; ``first_ms`` and ``last_ms`` are None without a record whose time can be."""

    def __init__(self) -> None:
        self.records = 0
        self.first_ms: int | None = None
        self.last_ms: int | None = None

    def reading(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches."""
        for batch in batches:
            self.add(batch)
            yield batch

    def add(self, batch: pa.RecordBatch) -> None:
        """Count a batch."""
        self.records += batch.num_rows
        bounds = plausible_bounds(batch.column("timestamp"))
        if bounds is not None:
            self.first_ms = bounds[0] if self.first_ms is None else min(self.first_ms, bounds[0])
            self.last_ms = bounds[1] if self.last_ms is None else max(self.last_ms, bounds[1])


def plausible_bounds(times_ms: pa.Array | pa.ChunkedArray) -> tuple[int, int] | None:
    """The earliest and the latest of the times that can be (``plausible_times``); None without any."""
    bounds = pc.min_max(times_ms).as_py()
    if bounds["max"] is not None and (bounds["min"] < 0 or bounds["max"] > LATEST_MS):
        can_be = pc.and_(pc.greater_equal(times_ms, 0), pc.less_equal(times_ms, LATEST_MS))
        bounds = pc.min_max(times_ms.filter(can_be)).as_py()
    return None if bounds["max"] is None else (bounds["min"], bounds["max"])


def next_place(batch: pa.RecordBatch) -> tuple[int, int]:
    """The partition of a batch, of which all rows are, and the offset that follows its last one."""
    return batch["partition"][-1].as_py(), batch["offset"][-1].as_py() + 1


def keys_and_values(batch: pa.RecordBatch) -> Iterator[tuple[bytes | None, bytes | None]]:
    """The messages of a batch."""
    return zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True)


def numbers(column: pa.Array) -> npt.NDArray[Any]:
    """A column of numbers without nulls, without a copy. Arrow's own ``to_numpy`` would import pandas."""
    return np.from_dlpack(column)


_DIGEST_BYTES: Final = 16


class EpochEnd(msgspec.Struct, frozen=True):
    """The end of a partition (of committed records), and the epoch of the leader that returned it.

    ``epoch`` None: the broker does not number epochs.
    """

    offset: int
    epoch: int | None = None


class RecordMark(msgspec.Struct, frozen=True):
    """A record: its offset, and a digest of its key, value and timestamp."""

    offset: int
    digest: str


class PartitionMark(msgspec.Struct, frozen=True):
    """The last end of a partition that is known to belong to the log that was read, and a record below it."""

    end: EpochEnd
    record: RecordMark | None = None


class LogMarks(msgspec.Struct, frozen=True):
    """The marks of one incarnation of the topic, by partition; ``era`` is the topic's id."""

    era: str
    partitions: Mapping[int, PartitionMark]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogAnswer:
    """What the brokers answer about a partition now.

    ``in_epoch``: whether the leader's log holds all offsets below the mark's end, in the mark's epoch or earlier ones;
    None if that was not asked. ``record``: the first record at the mark's record or behind it; None if there is none,
    or if it was not asked.
    """

    end: EpochEnd
    in_epoch: bool | None = None
    record: RecordMark | None = None


def is_cut(mark: PartitionMark, answer: LogAnswer) -> bool:
    """Whether records are gone that the log once had at its end.

    A record that is missing, with later ones behind it, was compacted away.
    """
    if answer.end.offset < mark.end.offset or answer.in_epoch is False:
        return True
    if mark.record is None or answer.record is None:
        return False
    return answer.record.offset == mark.record.offset and answer.record.digest != mark.record.digest


def is_later_leader(mark: PartitionMark, end: EpochEnd) -> bool:
    """Whether the leader has changed since, so that its log must be compared with the mark's epoch.

    A leader of an earlier epoch does not know the mark's: only its records can be compared.
    """
    return mark.end.epoch is not None and end.epoch is not None and end.epoch > mark.end.epoch


def is_earlier_leader(mark: PartitionMark, end: EpochEnd) -> bool:
    """Whether an end is that of a leader from before the mark: it was replaced without knowing, or restored."""
    return mark.end.epoch is not None and end.epoch is not None and end.epoch < mark.end.epoch


def continues(mark: PartitionMark, end: EpochEnd) -> bool:
    """Whether an end proves by itself that the log has only grown: it is that of the same leader, and not lower."""
    return end.epoch == mark.end.epoch and end.offset >= mark.end.offset


def record_digest(key: bytes | None, value: bytes | None, timestamp_ms: int) -> str:
    """The digest of a record; compaction changes none of its parts. Equal records are no loss, whoever wrote them."""
    hashed = blake2b(digest_size=_DIGEST_BYTES)
    for part in (key, value):
        hashed.update(b"-" if part is None else b"%d:" % len(part) + part)
    hashed.update(b"%d" % timestamp_ms)
    return hashed.hexdigest()


#: By topic and partition the next offset.
Places: TypeAlias = dict[str, dict[int, int]]


class IncidentState(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored: the finder, how far the topics were read, and when the last round of the prober was.

    ``read_to`` is empty where the finder is that of a ``watch``, which reads no topics.
    """

    finder: bytes
    read_to: Places
    round_ms: int | None = None
