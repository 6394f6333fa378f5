"""Rows of some groups."""

from __future__ import annotations

from groupreplay.app.inspection.records.group_rows import rows_of_groups
from groupreplay.codecs import GroupMetadataKey, OffsetCommitKey, encode_key
from support.histories.raw_records import Raw
from support.job.captures import rows_batch


def test_rows_of_groups() -> None:
    """Records of all types and any name, in order; keys that cannot be read name no group."""
    keys = [
        encode_key(OffsetCommitKey(group="a", topic="t", partition=0)),
        encode_key(GroupMetadataKey(group="größe")),
        encode_key(OffsetCommitKey(group="b", topic="a", partition=0)),
        b"\0",
        b"\x03\xe8later",
        # Brokers write it when a client asks for it.
        encode_key(OffsetCommitKey(group="a", topic="t", partition=-1)),
        encode_key(GroupMetadataKey(group="a")),
    ]
    batch = rows_batch([Raw(0, number, 5, key, None) for number, key in enumerate(keys)])

    def offsets(*groups: str) -> list[int]:
        found: list[int] = rows_of_groups(batch, groups).column("offset").to_pylist()
        return found

    assert offsets("a") == [0, 5, 6]
    assert offsets("größe", "b") == [1, 2]
    assert offsets("t") == []
