"""The distinct keys of a chunk decoded at once: the fast equivalent of ``codecs.decode_key``.

Decodes keys of offset commits (type 1) with ASCII names and no bytes left over. All others go to the scalar decoder,
which is the reference.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from groupreplay.codecs import (
    Key,
    LegacyOffsetCommitKey,
    Malformed,
    OffsetCommitKey,
    Skipped,
    decode_key,
    encode_key,
)
from groupreplay.streaming.engine.packing.binary_columns import (
    BinaryColumn,
    Flags,
    Ints,
    distinct,
    integers,
    is_ascii,
)

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
