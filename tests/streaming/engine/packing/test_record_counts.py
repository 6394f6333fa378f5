"""Which number belongs to which record type."""

from __future__ import annotations

import pyarrow as pa

from groupreplay.codecs import REGISTRY
from groupreplay.streaming.engine.packing.binary_columns import BinaryColumn
from groupreplay.streaming.engine.packing.record_counts import RECORD_TYPES, as_counts, count_types
from support.histories.raw_records import commit_key


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
