"""What the checkpoints that every line of Spark has made consist of."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pyarrow as pa
import pytest

from groupreplay.streaming.local.platforms import LINES
from support.stored.checkpoints import of_line, unpack

#: What a pickle of any Python object but the simplest begins with, and what those of Spark's rows name.
_MARKS = (
    b"\x80\x02c",
    b"\x80\x03c",
    b"\x80\x04\x95",
    b"\x80\x05\x95",
    b"_create_row",
    b"pyspark",
    b"java.util.",
)
_FRAME = struct.Struct("<8sBiii")


def changes(file: Path) -> bytes:
    """The content of a file of changes of Spark's state: frames of lz4, as its Java library writes them."""
    content, at, found = file.read_bytes(), 0, b""
    while at < len(content):
        magic, token, packed, size, _ = _FRAME.unpack_from(content, at)
        assert magic == b"LZ4Block"
        at += _FRAME.size
        block = content[at : at + packed]
        found += pa.Codec("lz4_raw").decompress(block, size).to_pybytes() if token & 0xF0 == 0x20 else block
        at += packed
    return found


@pytest.mark.parametrize("archive", [of_line(line.name) for line in LINES], ids=lambda file: file.name)
def test_no_pickle_is_stored(archive: Path, tmp_path: Path) -> None:
    """The state has our own bytes, the logs are JSON: nothing in a checkpoint is unpickled, on any line of Spark."""
    unpack(archive, tmp_path)
    checkpoint = tmp_path / "checkpoint"
    states = [changes(file) for file in checkpoint.rglob("*.changelog")]
    assert sum(state.count(b"g:") for state in states) >= 5
    others = [file for file in checkpoint.rglob("*") if file.is_file() and file.suffix != ".changelog"]
    for content in [*states, *(file.read_bytes() for file in others)]:
        assert [mark for mark in _MARKS if mark in content] == []
    for file in others:
        if "state" not in file.parts:
            # Kafka's source writes a zero byte before the version.
            lines = file.read_text().lstrip("\0").removeprefix("v1").splitlines()
            assert all(isinstance(json.loads(line), dict | int) for line in lines if line), file
