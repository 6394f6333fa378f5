"""Many offset commits decoded at once, column by column; the quick twin of ``codecs.decode_value``.

Knows the layouts of ``OffsetCommitValue`` v0-v4 as far as they are regular: a metadata string of ASCII, no
tagged field but a topic id, nothing left over. Whatever is not regular is left to the scalar decoder, which
is the reference (a test holds the two together). Must not know groups or runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from groupreplay.codecs import OffsetCommitValue
from groupreplay.streaming.binary_columns import BinaryColumn, Bytes, Flags, Ints, integers, is_ascii

#: One row = one commit; -1 where its version has no such field.
FIELDS: Final = np.dtype(
    [
        ("offset", "<i8"),
        ("leader_epoch", "<i4"),
        ("commit_timestamp_ms", "<i8"),
        ("expire_timestamp_ms", "<i8"),
    ]
)


class _Layout(NamedTuple):
    """Where the fields of one version lie: the metadata's length stands at ``metadata_at``."""

    metadata_at: int
    length_size: int
    has_leader_epoch: bool = False
    has_expiry: bool = False
    is_flexible: bool = False

    @property
    def tail(self) -> int:
        """Bytes behind the metadata, of a value without tags."""
        return 8 + 8 * self.has_expiry + self.is_flexible


#: By value version (codecs/offsets.py has the fields and their order).
_LAYOUTS: Final[dict[int, _Layout]] = {
    0: _Layout(10, 2),
    1: _Layout(10, 2, has_expiry=True),
    2: _Layout(10, 2),
    3: _Layout(14, 2, has_leader_epoch=True),
    4: _Layout(14, 1, has_leader_epoch=True, is_flexible=True),
}
#: The tagged section of a v4 value with a topic id: one tag, number 0, of 16 bytes.
_TOPIC_ID_TAG: Final = (1, 0, 16)
_TOPIC_ID_SECTION: Final = len(_TOPIC_ID_TAG) + 16


@dataclass(frozen=True, slots=True)
class CommitColumns:
    """The commits of a chunk by row; what stands at rows outside ``is_commit`` means nothing.

    ``topic_ids`` has 16 bytes a row, all zero where there is none.
    """

    values: BinaryColumn
    is_commit: Flags
    fields: npt.NDArray[np.void]
    topic_ids: Bytes
    metadata_start: Ints
    metadata_length: Ints
    odd_metadata: dict[int, str]

    def metadata(self, row: int) -> str:
        """The metadata string of the commit at ``row``."""
        if (odd := self.odd_metadata.get(row)) is not None:
            return odd
        start = self.metadata_start[row]
        return self.values.data[start : start + self.metadata_length[row]].tobytes().decode("ascii")

    def put(self, row: int, value: OffsetCommitValue) -> None:
        """Takes in a commit that the scalar decoder has read."""
        self.is_commit[row] = True
        self.fields[row] = (
            value.offset,
            value.leader_epoch,
            value.commit_timestamp_ms,
            value.expire_timestamp_ms,
        )
        self.topic_ids[row] = np.frombuffer(value.topic_id, np.uint8)
        self.metadata_length[row] = len(value.metadata)
        self.odd_metadata[row] = value.metadata


def decode_regular(values: BinaryColumn, wanted: Flags) -> CommitColumns:
    """Decodes every regular value among the ``wanted`` rows and leaves the others out of ``is_commit``."""
    count = len(values)
    columns = CommitColumns(
        values,
        np.zeros(count, bool),
        np.zeros(count, FIELDS),
        np.zeros((count, 16), np.uint8),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        {},
    )
    long_enough = np.flatnonzero(wanted & (values.end - values.start >= 2))
    versions = integers(values.data, values.start[long_enough], ">i2")
    for version, layout in _LAYOUTS.items():
        _decode_version(columns, long_enough[versions == version], layout)
    return columns


def _decode_version(columns: CommitColumns, rows: Ints, layout: _Layout) -> None:
    data, start, end = columns.values.data, columns.values.start, columns.values.end
    rows = rows[end[rows] - start[rows] >= layout.metadata_at + layout.length_size + layout.tail]
    if not len(rows):
        return
    length = _metadata_lengths(data, start[rows] + layout.metadata_at, layout)
    metadata_at = start[rows] + layout.metadata_at + layout.length_size
    rest = end[rows] - metadata_at - length - layout.tail
    with_id = np.zeros(len(rows), bool)
    if layout.is_flexible:
        regular, with_id = _check_tags(data, metadata_at + length + 8, rest)
    else:
        regular = rest == 0
    regular &= length >= 0
    regular[regular] = is_ascii(data, metadata_at[regular], length[regular])

    rows, length, metadata_at, with_id = (
        rows[regular],
        length[regular],
        metadata_at[regular],
        with_id[regular],
    )
    begin, behind = start[rows], metadata_at + length
    fields = columns.fields
    fields["offset"][rows] = integers(data, begin + 2, ">i8")
    fields["leader_epoch"][rows] = integers(data, begin + 10, ">i4") if layout.has_leader_epoch else -1
    fields["commit_timestamp_ms"][rows] = integers(data, behind, ">i8")
    fields["expire_timestamp_ms"][rows] = integers(data, behind + 8, ">i8") if layout.has_expiry else -1
    id_at = behind[with_id] + 8 + len(_TOPIC_ID_TAG)
    columns.topic_ids[rows[with_id]] = data[id_at[:, None] + np.arange(16)]
    columns.metadata_start[rows] = metadata_at
    columns.metadata_length[rows] = length
    columns.is_commit[rows] = True


def _metadata_lengths(data: Bytes, at: Ints, layout: _Layout) -> Ints:
    """Lengths of the metadata strings; negative where they are null or not of the regular size."""
    if not layout.is_flexible:
        return integers(data, at, ">i2")
    length_plus_one = data[at].astype(np.int64)
    # A first byte of 128 or more goes on in the next one.
    return np.where(length_plus_one < 128, length_plus_one - 1, -1)


def _check_tags(data: Bytes, at: Ints, rest: Ints) -> tuple[Flags, Flags]:
    """(regular, has a topic id): the tagged section at ``at`` is empty, or holds a topic id and no more.

    ``rest`` is the number of bytes behind the count of tags.
    """
    plain, with_id = rest == 0, rest == _TOPIC_ID_SECTION - 1
    plain[plain] = data[at[plain]] == 0
    for step, expected in enumerate(_TOPIC_ID_TAG):
        with_id[with_id] = data[at[with_id] + step] == expected
    return plain | with_id, with_id
