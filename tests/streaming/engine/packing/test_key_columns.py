"""Keys decoded many at once, held against the scalar decoder."""

from __future__ import annotations

import pyarrow as pa
import pytest

from groupreplay.codecs import LegacyOffsetCommitKey, Malformed, OffsetCommitKey, Skipped, decode_key
from groupreplay.streaming.engine.packing.key_columns import decode_keys, usable_key
from support.histories.raw_records import commit_key, generation, random_log


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
