"""Rows of many partitions are sorted in chunks; what does not fit goes through a temporary file."""

from __future__ import annotations

import errno
import random
import tempfile
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from groupreplay.app.inspection.capture_files import sorting
from groupreplay.app.inspection.capture_files.blocks import merged
from groupreplay.app.inspection.capture_files.columns import UNSORTED_SCHEMA
from groupreplay.app.inspection.capture_files.sorting import LogPlace, sorted_blocks
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError
from support.histories.raw_records import Raw
from support.job.captures import rows_batch

TOPICS = ("log", "probes")


def tables(places: list[tuple[str, int, int]], size: int) -> Iterator[pa.Table]:
    """Rows at these places (topic, partition, offset), so many at once."""
    for start in range(0, len(places), size):
        batches = [
            rows_batch([Raw(partition, offset, offset, bytes(partition), f"{offset}".encode())], topic)
            for topic, partition, offset in places[start : start + size]
        ]
        yield pa.Table.from_batches(batches).cast(UNSORTED_SCHEMA)


def sorted_offsets(places: list[tuple[str, int, int]], size: int, **limits: int) -> dict[LogPlace, list[int]]:
    """The offsets of each partition, after their rows were compared with what was written."""
    found = dict[LogPlace, list[int]]()
    for place, blocks in sorted_blocks(tables(places, size), **limits).items():
        for table in merged(blocks):
            for row in table.to_pylist():
                assert (row["topic"], row["partition"]) == place
                assert (row["key"], row["value"]) == (bytes(place[1]), f"{row['offset']}".encode())
                found.setdefault(place, []).append(row["offset"])
    return found


@pytest.mark.parametrize("chunk_bytes", [1, 900, 10**9])
@pytest.mark.parametrize("order", ["none", "partitions", "time"])
@pytest.mark.parametrize("spread", [1, 1 << 55])
def test_every_row_once(monkeypatch: pytest.MonkeyPatch, chunk_bytes: int, order: str, spread: int) -> None:
    """In memory and through the file; in any order, and with offsets too far apart for one number."""
    monkeypatch.setattr(sorting, "_BLOCK_BYTES", 200)
    monkeypatch.setattr(sorting, "_LONG_RUN", 4)
    chance = random.Random(1)
    places = [(chance.choice(TOPICS), chance.randrange(5), chance.randrange(50) * spread) for _ in range(300)]
    if order != "none":
        places.sort(key=lambda place: place if order == "partitions" else place[2])
    wanted = dict[LogPlace, set[int]]()
    for topic, partition, offset in places:
        wanted.setdefault((topic, partition), set()).add(offset)
    found = sorted_offsets(places, 40, chunk_bytes=chunk_bytes)
    assert found == {place: sorted(offsets) for place, offsets in wanted.items()}


def test_no_rows() -> None:
    """Neither no table nor an empty one is an error."""
    assert sorted_blocks([]) == {}
    assert sorted_blocks([UNSORTED_SCHEMA.empty_table()]) == {}


def test_small_input_makes_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what does not fit into memory is written to the disk."""
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: pytest.fail("a file was made"))
    assert sorted_offsets([("log", 0, 1), ("log", 0, 0)], 1) == {("log", 0): [0, 1]}


def test_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says where the space is missing and how to name another place."""

    def full(**_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(GroupReplayError) as refused:
        sorted_blocks(tables([("log", 0, 1)], 1), chunk_bytes=1)
    assert (refused.value.what, refused.value.where, refused.value.exit_code) == (
        "the records cannot be sorted, No space left on device",
        tempfile.gettempdir(),
        ExitCode.USAGE,
    )
    assert "TMPDIR" in (refused.value.fix or "")
