"""The distinct keys of a chunk decoded at once, with the columns of binary values that they are read from.

``decode_keys`` is the fast equivalent of ``codecs.decode_key``: it decodes keys of offset commits (type 1) with ASCII
names and no bytes left over. All others go to the scalar decoder, which is the reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from groupreplay.codecs import (
    REGISTRY,
    Key,
    LegacyOffsetCommitKey,
    Malformed,
    OffsetCommitKey,
    Skipped,
    decode_key,
    encode_key,
)
from groupreplay.streaming.contract.log import numbers

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]


class BinaryColumn(NamedTuple):
    """Value ``i`` is ``data[start[i]:end[i]]``; a null value is empty."""

    data: Bytes
    start: Ints
    end: Ints
    is_null: Flags

    @classmethod
    def of(cls, column: pa.LargeBinaryArray) -> BinaryColumn:
        """The buffers of an Arrow column, without a copy."""
        _, offsets, data = column.buffers()
        places = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
        return cls(
            np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8),
            places[:-1],
            places[1:],
            numbers(column.is_null().cast(pa.uint8())).astype(bool),
        )

    def __len__(self) -> int:
        return len(self.start)

    def at(self, row: int) -> bytes | None:
        """One value; None for null."""
        return None if self.is_null[row] else self.data[self.start[row] : self.end[row]].tobytes()


def structures(data: Bytes, at: Ints, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The structures of ``dtype`` that begin at the bytes ``at``; all of them must lie inside the data.

    Returns a view when they are evenly spaced, as in most logs.
    """
    if not len(at):
        return np.zeros(0, dtype)
    step = int(at[1] - at[0]) if len(at) > 1 else 1
    if step > 0 and np.array_equal(at, np.arange(int(at[0]), int(at[0]) + step * len(at), step)):
        even: npt.NDArray[Any] = np.ndarray((len(at),), dtype, data, offset=int(at[0]), strides=(step,))
        return even
    # Overlapping structures, one beginning at each byte; only those at ``at`` are read.
    everywhere: npt.NDArray[Any] = np.ndarray((len(data) - dtype.itemsize + 1,), dtype, data, strides=(1,))
    gathered: npt.NDArray[Any] = everywhere[at]
    return gathered


def integers(data: Bytes, at: Ints, dtype: str) -> Ints:
    """The integers of ``dtype`` (such as ``>i4``) that begin at the bytes ``at``."""
    return structures(data, at, np.dtype(dtype)).astype(np.int64)


def is_ascii(data: Bytes, start: Ints, length: Ints) -> Flags:
    """Which of the strings are ASCII; they do not overlap and are in rising order of their place in ``data``."""
    ascii_only = np.ones(len(start), bool)
    filled = np.flatnonzero(length > 0)
    if len(filled):
        bounds: Ints = np.column_stack((start[filled], start[filled] + length[filled])).ravel()
        # ``reduceat`` extends the last stretch to the end of the data; an index there would be out of bounds.
        bounds = bounds[: len(bounds) - int(bounds[-1] == len(data))]
        # Every other stretch lies between two strings.
        ascii_only[filled] = np.maximum.reduceat(data, bounds)[::2] < 128
    return ascii_only


def distinct(data: Bytes, start: Ints, length: Ints) -> tuple[list[bytes], Ints]:
    """(the distinct strings, the index of each string among them)."""
    ends = np.cumsum(length)
    places = np.repeat(start - ends + length, length) + np.arange(ends[-1] if len(ends) else 0)
    strings = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(),
        len(start),
        [None, pa.py_buffer(np.r_[0, ends].astype(np.int64)), pa.py_buffer(data[places])],
    ).dictionary_encode()
    return strings.dictionary.to_pylist(), numbers(strings.indices).astype(np.int64)


#: Type, length of the group, length of the topic, partition.
_SHORTEST: Final = 2 + 2 + 2 + 4


@dataclass(frozen=True, slots=True)
class KeyColumns:
    """The distinct keys of a chunk, by place in ``raw``.

    ``group`` indexes ``groups``. For keys of commits ``slot`` numbers the topic partition of the group; ``slot_topic``
    (an index of ``topics``) and ``slot_partition`` describe a slot. -1 stands for none. ``is_offset_commit`` marks keys
    of type 1; ``odd`` has the results of the scalar decoder for keys that are not regular.
    """

    raw: BinaryColumn
    groups: list[str]
    topics: list[str]
    group: Ints
    slot: Ints
    slot_topic: Ints
    slot_partition: Ints
    is_offset_commit: Flags
    odd: dict[int, Key | Skipped | Malformed]

    def key(self, place: int) -> Key | Skipped | Malformed:
        """The key as the scalar decoder returns it."""
        return self.odd[place] if place in self.odd else decode_key(self.raw.at(place))


def usable_key(raw: bytes | None) -> Key | Skipped | Malformed:
    """The key by the scalar decoder; a commit for a partition below zero is Malformed.

    Brokers write such a key when a client asks for it. No partition has that number, so the commit says nothing.
    """
    key = decode_key(raw)
    if isinstance(key, OffsetCommitKey | LegacyOffsetCommitKey) and key.partition < 0:
        at = _SHORTEST - 4 + len(key.group.encode()) + len(key.topic.encode())
        return Malformed(key.KEY_TYPE, None, "partition", at, f"partition {key.partition} is below zero")
    return key


def keys_of_rows(column: pa.Array) -> tuple[KeyColumns, Ints]:
    """The distinct keys of a binary column, and the place of each row's key among them."""
    encoded = pc.dictionary_encode(column.cast(pa.large_binary()), null_encoding="encode")
    return decode_keys(encoded.dictionary), numbers(encoded.indices).astype(np.int64)


def decode_keys(column: pa.LargeBinaryArray) -> KeyColumns:
    """Decodes a column of distinct keys."""
    raw = BinaryColumn.of(column)
    regular, group_length, topic_length = _regular(raw)
    places = np.flatnonzero(regular)
    group_at = raw.start[places] + 4
    topic_at = group_at + group_length + 2
    groups, group_of = distinct(raw.data, group_at, group_length)
    topics, topic_of = distinct(raw.data, topic_at, topic_length)
    group, slot = np.full(len(raw), -1, np.int64), np.full(len(raw), -1, np.int64)
    group[places] = group_of
    # Different regular keys name different topic partitions.
    slot[places] = np.arange(len(places))
    columns = KeyColumns(
        raw,
        [name.decode("ascii") for name in groups],
        [name.decode("ascii") for name in topics],
        group,
        slot,
        topic_of,
        integers(raw.data, topic_at + topic_length, ">i4"),
        regular,
        {int(place): usable_key(raw.at(int(place))) for place in np.flatnonzero(~regular)},
    )
    return _with_odd_keys(columns) if columns.odd else columns


def _regular(raw: BinaryColumn) -> tuple[Flags, Ints, Ints]:
    """(which keys are regular; the lengths of group and topic of the regular keys)."""
    places = np.flatnonzero(raw.end - raw.start >= _SHORTEST)
    places = places[integers(raw.data, raw.start[places], ">i2") == OffsetCommitKey.KEY_TYPE]
    group_length = integers(raw.data, raw.start[places] + 2, ">i2")
    room = raw.end[places] - raw.start[places] - _SHORTEST
    fits = (group_length >= 0) & (group_length <= room)
    places, group_length, room = places[fits], group_length[fits], room[fits]
    topic_length = integers(raw.data, raw.start[places] + 4 + group_length, ">i2")
    fits = topic_length == room - group_length
    fits[fits] = is_ascii(raw.data, raw.start[places[fits]] + 4, group_length[fits])
    fits[fits] = is_ascii(raw.data, (raw.start[places] + 6 + group_length)[fits], topic_length[fits])
    partition_at = raw.start[places] + 6 + group_length + np.where(fits, topic_length, 0)
    fits[fits] = integers(raw.data, partition_at[fits], ">i4") >= 0
    regular = np.zeros(len(raw), bool)
    regular[places[fits]] = True
    return regular, group_length[fits], topic_length[fits]


def _with_odd_keys(columns: KeyColumns) -> KeyColumns:
    """Adds the groups and slots of the keys that the scalar decoder has read."""
    groups = {name: index for index, name in enumerate(columns.groups)}
    topics = {name: index for index, name in enumerate(columns.topics)}
    added: dict[tuple[int, int, int], int] = {}
    is_offset_commit = columns.is_offset_commit.copy()
    regular_slots: dict[bytes, int] | None = None
    for place, key in columns.odd.items():
        if isinstance(key, Skipped | Malformed):
            continue
        columns.group[place] = group = groups.setdefault(key.group, len(groups))
        if not isinstance(key, OffsetCommitKey | LegacyOffsetCommitKey):
            continue
        is_offset_commit[place] = isinstance(key, OffsetCommitKey)
        # Two keys can name the same topic partition: types 0 and 1, or bytes left over at the end of a key.
        if regular_slots is None:
            regular_slots = _regular_slots(columns)
        plain = encode_key(OffsetCommitKey(group=key.group, topic=key.topic, partition=key.partition))
        slot = regular_slots.get(plain)
        if slot is None:
            topic = topics.setdefault(key.topic, len(topics))
            slot = added.setdefault((group, topic, key.partition), len(columns.slot_topic) + len(added))
        columns.slot[place] = slot
    table = np.array(list(added), np.int64).reshape(-1, 3)
    return replace(
        columns,
        groups=list(groups),
        topics=list(topics),
        slot_topic=np.r_[columns.slot_topic, table[:, 1]],
        slot_partition=np.r_[columns.slot_partition, table[:, 2]],
        is_offset_commit=is_offset_commit,
    )


def _regular_slots(columns: KeyColumns) -> dict[bytes, int]:
    regular = np.flatnonzero(columns.is_offset_commit)
    return {columns.raw.at(place) or b"": int(columns.slot[place]) for place in regular.tolist()}


#: What the numbers count, in their order: the record types by name, and keys of unknown types.
UNKNOWN: Final = "unknown"
RECORD_TYPES: Final = (*(key.__name__.removesuffix("Key") for key, _ in REGISTRY.values()), UNKNOWN)

#: Key type id -> place of its number; the last two entries are for ids outside the known range.
_PLACES: Final = np.full(max(REGISTRY) + 3, len(RECORD_TYPES) - 1, np.int64)
_PLACES[list(REGISTRY)] = np.arange(len(REGISTRY))


def count_types(keys: BinaryColumn, key_index: Ints) -> list[int]:
    """The number of records of each of ``RECORD_TYPES``; ``key_index`` has the index of each record's key."""
    types = np.full(len(keys), -1, np.int64)
    named = np.flatnonzero(keys.end - keys.start >= 2)
    types[named] = integers(keys.data, keys.start[named], ">i2")
    places = _PLACES[np.where((types >= 0) & (types <= max(REGISTRY)), types, -1)]
    counts: list[int] = np.bincount(places[key_index], minlength=len(RECORD_TYPES)).tolist()
    return counts


def as_counts(sums: Mapping[str, int | None]) -> dict[str, int]:
    """Spark's sums, without the types that did not occur."""
    return {name: count for name, count in sums.items() if count}
