"""Keys decoded many at once, held against the scalar decoder; numbers and strings gathered from many values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from groupreplay.codecs import (
    REGISTRY,
    LegacyOffsetCommitKey,
    Malformed,
    OffsetCommitKey,
    Skipped,
    decode_key,
)
from groupreplay.streaming.engine.packing.key_columns import (
    RECORD_TYPES,
    BinaryColumn,
    as_counts,
    count_types,
    decode_keys,
    distinct,
    integers,
    is_ascii,
    structures,
    usable_key,
)
from support.histories.raw_records import commit_key, generation, random_log


def column(values: list[bytes | None]) -> BinaryColumn:
    """The values laid open."""
    return BinaryColumn.of(pa.array(values, pa.large_binary()))


def test_values_come_back_as_they_are() -> None:
    """A null stays null and an empty value empty, also in a slice of a larger column."""
    values = [b"ab", None, b"", b"cde"]
    assert [column(values).at(row) for row in range(4)] == values
    sliced = BinaryColumn.of(pa.array([b"zz", *values], pa.large_binary()).slice(1))
    assert [sliced.at(row) for row in range(len(sliced))] == values


def test_integers_are_big_endian_and_may_stand_anywhere() -> None:
    """Unaligned, overlapping, negative, at the very end; none at all is no error."""
    data = np.frombuffer(b"\x00\x01\xff\xff\xff\xfe", np.uint8)
    assert integers(data, np.array([0, 1, 4]), ">i2").tolist() == [1, 511, -2]
    assert integers(data, np.array([2]), ">i4").tolist() == [-2]
    assert integers(np.zeros(0, np.uint8), np.zeros(0, np.int64), ">i8").tolist() == []


def test_structures_are_read_wherever_they_begin() -> None:
    """Evenly spaced ones are a view of the data, the others are gathered; both say the same."""
    data = np.arange(40, dtype=np.uint8)
    dtype = np.dtype([("first", ">i2"), ("second", "u1")])
    even = structures(data, np.arange(1, 38, 6), dtype)
    assert np.shares_memory(even, data)
    odd = structures(data, np.array([1, 7, 13, 19, 25, 31, 36]), dtype)
    assert even.tolist() == [(256 * at + at + 1, at + 2) for at in range(1, 38, 6)]
    assert odd.tolist() == [*even[:6].tolist(), (256 * 36 + 37, 38)]
    falling = structures(data, np.array([9, 3]), dtype)
    assert falling.tolist() == [(256 * 9 + 10, 11), (256 * 3 + 4, 5)]
    assert len(structures(data, np.zeros(0, np.int64), dtype)) == 0


def test_ascii_is_told_string_by_string() -> None:
    """A byte above 127 counts only for the string it is in, also at the end of the data."""
    values = [b"plain", b"caf\xc3\xa9", b"", b"more", b"\x80"]
    opened = column(values)
    expected = [value.isascii() for value in values]
    assert is_ascii(opened.data, opened.start, opened.end - opened.start).tolist() == expected
    inner = is_ascii(opened.data, opened.start[:2], np.array([5, 3]))
    assert inner.tolist() == [True, True]


def test_distinct_strings_keep_the_order_of_their_first_sight() -> None:
    """Each string is numbered; the numbers are dense and follow the column."""
    opened = column([b"b", b"a", b"b", b"", b"a"])
    names, which = distinct(opened.data, opened.start, opened.end - opened.start)
    assert (names, which.tolist()) == ([b"b", b"a", b""], [0, 1, 0, 2, 1])
    assert distinct(opened.data, np.zeros(0, np.int64), np.zeros(0, np.int64))[0] == []


def test_every_key_equals_that_of_the_scalar_decoder() -> None:
    """Group, topic, partition and type of each distinct key of a random log, damaged ones included."""
    keys = list(dict.fromkeys(raw.key for raw in random_log(1, 5_000)))
    columns = decode_keys(pa.array(keys, pa.large_binary()))
    for place, raw in enumerate(keys):
        key = usable_key(raw)
        assert columns.key(place) == key
        if isinstance(key, Skipped | Malformed):
            assert (columns.group[place], columns.slot[place]) == (-1, -1)
            continue
        assert columns.groups[columns.group[place]] == key.group
        assert bool(columns.is_offset_commit[place]) == isinstance(key, OffsetCommitKey)
        if isinstance(key, OffsetCommitKey | LegacyOffsetCommitKey):
            slot = columns.slot[place]
            assert columns.topics[columns.slot_topic[slot]] == key.topic
            assert columns.slot_partition[slot] == key.partition
        else:
            assert columns.slot[place] == -1


def test_keys_of_one_topic_partition_share_a_slot() -> None:
    """Types 0 and 1, and bytes left over, name the same topic partition: it is folded as one."""
    keys = [
        commit_key("g", "t", 7),
        commit_key("g", "t", 7, legacy=True),
        commit_key("g", "t", 7) + b"rest",
        commit_key("g", "u", 7, legacy=True),
        commit_key("g", "u", 7, legacy=True) + b"rest",
        commit_key("other", "t", 7),
        generation("g")[0],
    ]
    columns = decode_keys(pa.array(keys, pa.large_binary()))
    assert columns.slot.tolist() == [0, 0, 0, 2, 2, 1, -1]
    assert columns.is_offset_commit.tolist() == [True, False, True, False, False, True, False]


def test_no_key_and_no_keys() -> None:
    """A record without a key is malformed; a chunk may have no keys at all."""
    columns = decode_keys(pa.array([None], pa.large_binary()))
    assert isinstance(columns.key(0), Malformed)
    assert len(decode_keys(pa.array([], pa.large_binary())).raw) == 0


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("rest", [b"", b"rest"])
def test_a_partition_below_zero_is_malformed(legacy: bool, rest: bytes) -> None:
    """Brokers write such keys; the field and its place are named, and every other key is read as it is."""
    good, bad = commit_key("g", "t", 0, legacy=legacy), commit_key("g", "t", -1, legacy=legacy) + rest
    columns = decode_keys(pa.array([good, bad], pa.large_binary()))
    assert columns.key(0) == decode_key(good)
    assert columns.key(1) == Malformed(
        0 if legacy else 1, None, "partition", len(good) - 4, "partition -1 is below zero"
    )
    assert (columns.group.tolist(), columns.slot.tolist()) == ([0, -1], [0, -1])


def counted(*keys: bytes | None) -> dict[str, int]:
    """The numbers of a chunk with these keys, each used twice, by name."""
    column = BinaryColumn.of(pa.array(keys, pa.large_binary()))
    places = pa.array([*range(len(keys))] * 2).to_numpy()
    return as_counts(dict(zip(RECORD_TYPES, count_types(column, places), strict=True)))


def test_every_type_has_its_number() -> None:
    """By the first two bytes of the key, whatever follows them; names are those of docs/records.md."""
    keys = [number.to_bytes(2, "big") for number in REGISTRY]
    assert counted(*keys) == dict.fromkeys(RECORD_TYPES[:-1], 2)
    assert counted(commit_key(), commit_key(legacy=True)) == {"OffsetCommit": 2, "LegacyOffsetCommit": 2}
    assert RECORD_TYPES[:3] == ("LegacyOffsetCommit", "OffsetCommit", "GroupMetadata")


def test_keys_that_name_no_type() -> None:
    """None at all, too short, negative, between and beyond those that we know."""
    keys = [None, b"", b"\0", b"\xff\xff", b"\x80\0", b"\0\x12", b"\0\x18", b"\x7f\xff"]
    assert counted(*keys) == {"unknown": 2 * len(keys)}
