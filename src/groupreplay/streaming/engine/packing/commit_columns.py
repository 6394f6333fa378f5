"""Many offset commits decoded at once, column by column: the fast equivalent of ``codecs.decode_value``.

Decodes values of ``OffsetCommitValue`` v0-v4 that are regular: ASCII metadata, no tagged field but a topic id, no
bytes left over. All others go to the scalar decoder, which is the reference: a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from groupreplay.codecs import ZERO_UUID, OffsetCommitValue
from groupreplay.state.stored_form import bounded_text
from groupreplay.streaming.engine.packing.key_columns import BinaryColumn, Flags, Ints, is_ascii, structures

_OFFSET: Final = [("version", ">i2"), ("offset", ">i8")]
_EPOCH: Final = [("leader_epoch", ">i4")]
_COMMITTED: Final = [("commit_timestamp_ms", ">i8")]


class _Layout(NamedTuple):
    """The fields of one version before the metadata string, the last one its length, and those behind it."""

    version: int
    head: np.dtype[Any]
    tail: np.dtype[Any]

    @property
    def is_flexible(self) -> bool:
        """Whether lengths are varints and tagged fields follow."""
        return "tags" in (self.tail.names or ())


def _layout(version: int, head: list[Any], tail: list[Any]) -> _Layout:
    return _Layout(version, np.dtype(head), np.dtype(tail))


#: codecs/offsets.py has the fields and their order. A length in v4 takes one byte or, from 127 on, two.
_LAYOUTS: Final = (
    _layout(0, [*_OFFSET, ("length", ">i2")], _COMMITTED),
    _layout(1, [*_OFFSET, ("length", ">i2")], [*_COMMITTED, ("expire_timestamp_ms", ">i8")]),
    _layout(2, [*_OFFSET, ("length", ">i2")], _COMMITTED),
    _layout(3, [*_OFFSET, *_EPOCH, ("length", ">i2")], _COMMITTED),
    _layout(4, [*_OFFSET, *_EPOCH, ("length", "u1")], [*_COMMITTED, ("tags", "u1")]),
    _layout(4, [*_OFFSET, *_EPOCH, ("length", "u1", (2,))], [*_COMMITTED, ("tags", "u1")]),
)
#: The tagged field of a v4 value with a topic id, behind the number of tags: tag 0, 16 bytes.
_TOPIC_ID: Final = np.dtype([("tag", "u1"), ("size", "u1"), ("high", "<u8"), ("low", "<u8")])


@dataclass(frozen=True, slots=True)
class CommitColumns:
    """The commits of a chunk by row; rows outside ``is_commit`` have no meaning.

    ``leader_epoch`` and ``expire_timestamp_ms`` are -1 where the version has none, ``topic_id_at`` (the first byte of
    the id) is -1 where there is no topic id; ``odd`` has the commits that the scalar decoder has read.
    """

    values: BinaryColumn
    is_commit: Flags
    offset: Ints
    leader_epoch: Ints
    commit_timestamp_ms: Ints
    expire_timestamp_ms: Ints
    topic_id_at: Ints
    metadata_at: Ints
    metadata_length: Ints
    odd: dict[int, OffsetCommitValue] = field(default_factory=dict, kw_only=True)

    def metadata(self, row: int) -> str:
        """The metadata string of the commit at ``row``, of bounded length."""
        if row in self.odd:
            return bounded_text(self.odd[row].metadata)
        start = self.metadata_at[row]
        whole = self.values.data[start : start + self.metadata_length[row]].tobytes()
        return bounded_text(whole.decode("ascii"))

    def topic_id(self, row: int) -> bytes:
        """The topic id of the commit at ``row``; zeros where there is none."""
        if row in self.odd:
            return self.odd[row].topic_id
        start = self.topic_id_at[row]
        return ZERO_UUID if start < 0 else self.values.data[start : start + 16].tobytes()

    def put(self, row: int, value: OffsetCommitValue) -> None:
        """Adds a commit that the scalar decoder has read."""
        self.is_commit[row] = True
        self.offset[row], self.leader_epoch[row] = value.offset, value.leader_epoch
        self.commit_timestamp_ms[row] = value.commit_timestamp_ms
        self.expire_timestamp_ms[row] = value.expire_timestamp_ms
        self.topic_id_at[row] = -1 if value.topic_id == ZERO_UUID else 0
        self.metadata_length[row] = len(value.metadata)
        self.odd[row] = value


def decode_regular(values: BinaryColumn, wanted: Flags) -> CommitColumns:
    """Decodes the regular values of the ``wanted`` rows; the others are not in ``is_commit``."""
    count = len(values)
    columns = CommitColumns(values, np.zeros(count, bool), *(np.zeros(count, np.int64) for _ in range(7)))
    rows = np.flatnonzero(wanted & (values.end - values.start >= 2))
    versions = structures(values.data, values.start[rows], np.dtype(">i2")).astype(np.int16)
    for layout in _LAYOUTS:
        _decode(columns, rows[versions == layout.version], layout)
    return columns


def _decode(columns: CommitColumns, rows: Ints, layout: _Layout) -> None:
    """Decodes the rows that are regular and have this layout."""
    values, fixed = columns.values, layout.head.itemsize + layout.tail.itemsize
    rows = _kept(values.end[rows] - values.start[rows] >= fixed, rows)[0]
    start, end = values.start[rows], values.end[rows]
    head = structures(values.data, start, layout.head)
    length = _metadata_lengths(head["length"])
    # Behind the fields of the layout there is nothing, or a topic id.
    rest = end - start - fixed - length
    regular = (length >= 0) & ((rest == 0) | (rest == _TOPIC_ID.itemsize * layout.is_flexible))
    rows, start, length, rest, head = _kept(regular, rows, start, length, rest, head)
    if not len(rows):
        return
    metadata_at = start + layout.head.itemsize
    regular = is_ascii(values.data, metadata_at, length)
    tail = structures(values.data, metadata_at + length, layout.tail)
    topic_id_at = np.full(len(rows), -1, np.int64)
    if layout.is_flexible:
        regular &= tail["tags"] == (rest > 0)
        with_id = np.flatnonzero(rest)
        id_at = metadata_at[with_id] + length[with_id] + layout.tail.itemsize
        tagged = structures(values.data, id_at, _TOPIC_ID)
        regular[with_id] &= (tagged["tag"] == 0) & (tagged["size"] == 16)
        # An id of zeros stands for no id.
        topic_id_at[with_id] = np.where((tagged["high"] | tagged["low"]) > 0, id_at + 2, -1)
    found = (rows, metadata_at, length, topic_id_at, head, tail)
    _put(columns, *_kept(regular, *found))


def _put(
    columns: CommitColumns,
    rows: Ints,
    metadata_at: Ints,
    length: Ints,
    topic_id_at: Ints,
    head: npt.NDArray[Any],
    tail: npt.NDArray[Any],
) -> None:
    at = slice(None) if len(rows) == len(columns.values) else rows
    columns.is_commit[at] = True
    columns.offset[at] = head["offset"]
    columns.leader_epoch[at] = head["leader_epoch"] if "leader_epoch" in (head.dtype.names or ()) else -1
    columns.commit_timestamp_ms[at] = tail["commit_timestamp_ms"]
    has_expiry = "expire_timestamp_ms" in (tail.dtype.names or ())
    columns.expire_timestamp_ms[at] = tail["expire_timestamp_ms"] if has_expiry else -1
    columns.topic_id_at[at] = topic_id_at
    columns.metadata_at[at], columns.metadata_length[at] = metadata_at, length


def _kept(kept: Flags, *columns: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], ...]:
    """The columns without the rows that are not kept; nearly always all rows are."""
    return columns if kept.all() else tuple(column[kept] for column in columns)


def _metadata_lengths(stored: npt.NDArray[Any]) -> Ints:
    """Lengths of the metadata strings; negative where the string is null or has another layout."""
    if stored.dtype != np.uint8:
        return stored.astype(np.int64)
    # A varint holds the length plus one; a byte of 128 or more continues in the next byte.
    if stored.ndim == 1:
        return np.where(stored < 128, stored.astype(np.int64) - 1, -1)
    low, high = stored[:, 0].astype(np.int64), stored[:, 1].astype(np.int64)
    return np.where((low >= 128) & (high > 0) & (high < 128), (low & 127) + (high << 7) - 1, -1)
