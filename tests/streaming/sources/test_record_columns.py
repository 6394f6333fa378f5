"""Batches taken apart all at once: the records that aiokafka's reader finds, and nothing of batches that are none."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pytest

from groupreplay.streaming.sources import record_columns
from groupreplay.streaming.sources.log_replicas import columns_of_partition
from groupreplay.streaming.sources.log_segments import Replica, records_of
from groupreplay.streaming.sources.record_columns import Columns, columns_of_batches, columns_of_records
from support.histories.log_files import CODECS, batch, mutated, with_checksum, write_segment

#: Attributes of a batch: its times are the broker's.
APPEND_TIME = 0x08
#: Where the records of a batch begin.
HEAD_BYTES = 61
FEW = [(b"a", b"1"), (b"b", None), (None, b"3"), (b"d" * 300, b"4" * 3_000)]


def records(chance: random.Random) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values of up to 70 KB, empty ones and none at all."""
    sizes = [None, 0, 1, 5, 63, 64, 127, 128, 9_000, 70_000]

    def content() -> bytes | None:
        size = chance.choice(sizes)
        return None if size is None else chance.randbytes(size)

    return [(content(), content()) for _ in range(chance.randint(1, 30))]


def read(folder: Path, *blocks: bytes) -> tuple[Columns | None, Columns]:
    """By this module, and by aiokafka."""
    write_segment(folder, *blocks)
    batches = list(Replica(folder, 0).batches(lambda damage: pytest.fail(str(damage))))
    assert all(each.is_plain for each in batches)
    assert [each.block for each in batches] == list(blocks)
    taken = list[Any]()
    for each in batches:
        content = records_of(each)
        assert not isinstance(content, str)
        taken += content
    return columns_of_batches(blocks), columns_of_records(taken)


@pytest.mark.parametrize("seed", range(20))
def test_the_records_that_aiokafka_reads(tmp_path: Path, seed: int) -> None:
    """Offsets with gaps, times of clients and of the broker before and behind the first one, keys and values."""
    chance, blocks, offset = random.Random(seed), list[bytes](), (seed % 2) << 20
    for _ in range(chance.randint(1, 8)):
        content = records(chance)
        gaps = [place for place in range(len(content)) if chance.random() < 0.2]
        made = bytearray(batch(offset, *content, gaps=gaps))
        if chance.random() < 0.3:
            struct.pack_into(">h", made, 21, APPEND_TIME)
        struct.pack_into(">qq", made, 27, chance.randint(-1, 1 << 50), chance.randint(0, 1 << 50))
        blocks.append(with_checksum(made))
        offset += len(content)
    columns, expected = read(tmp_path, *blocks)
    assert columns == expected
    for column in columns or ():
        column.validate(full=True)


@pytest.mark.parametrize("count", [64, 65, 8_192, 8_193, 8_300])
def test_records_that_differ_in_their_offset_deltas_alone(
    tmp_path: Path, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a large request; none of them is searched for, also if its neighbour has other ones."""
    even, uneven = batch(0, *[(b"key", b"value")] * count, step_ms=0), batch(count, *FEW)
    walked, walk = list[int](), record_columns._places_of_one
    monkeypatch.setattr(
        record_columns, "_places_of_one", lambda *where: walked.append(where[1]) or walk(*where)
    )
    columns, expected = read(tmp_path, even, uneven)
    assert columns == expected
    assert walked == [len(even) + HEAD_BYTES]


def test_batches_without_records(tmp_path: Path) -> None:
    """Of a producer's last batch, compaction keeps the head alone: first, between others, last, and nothing else."""
    empty, whole = (batch(place * 4, *FEW, gaps=[] if place % 2 else range(4)) for place in range(2))
    more = [batch(place * 4, *FEW, gaps=range(4)) for place in (2, 3)] + [
        batch(16, *FEW),
        batch(20, *FEW, gaps=range(4)),
    ]
    columns, expected = read(tmp_path, empty, whole, *more)
    assert columns == expected
    assert expected.offsets.to_pylist() == [4, 5, 6, 7, 16, 17, 18, 19]
    assert read(tmp_path, empty) == (columns_of_records([]),) * 2


def test_batches_that_are_not_what_their_head_says() -> None:
    """Whatever a record claims, nothing is read beyond it: another count, lengths beyond the record or the batch."""
    whole = batch(0, (b"key", b"value"), (b"k", None))
    assert columns_of_batches([whole]) is not None
    for place in range(57, len(whole)):
        for value in (0x00, 0x7F, 0x80, 0xFF):
            made = bytearray(whole)
            made[place] = value
            columns = columns_of_batches([bytes(made), whole])
            if columns is not None:
                assert [len(column) for column in columns] == [4] * 5, (place, value)
                assert columns.keys.to_pylist()[2:] == [b"key", b"k"], (place, value)
                columns.values.validate(full=True)
    assert columns_of_batches([whole[:-1]]) is None


def both_read_the_same(folder: Path) -> int:
    """How many records the source reads of a segment, which are those of aiokafka; the rest both call unreadable."""
    records, unreadable, notes, rows = list[Any](), list[str](), list[str](), list[Any]()
    for each in Replica(folder, 0).batches(lambda _: None):
        content = records_of(each)
        if isinstance(content, str):
            unreadable.append(f"partition 0: the batch at offset {each.base_offset} is not read: {content}")
        else:
            records += content
    for columns in columns_of_partition([Replica(folder, 0)], uncommitted=True, note=notes.append):
        for column in columns:
            column.validate(full=True)
        rows += zip(*(column.to_pylist() for column in columns), strict=True)
    expected = columns_of_records(records)
    assert rows == [*zip(*(column.to_pylist() for column in expected), strict=True)]
    assert [note for note in notes if "its records" in note] == unreadable
    return len(rows)


def read_mutated(folder: Path, seeds: range) -> None:
    """Segments of which bytes are changed, and such whose batches have the right checksum in spite of it."""
    read = 0
    for seed in seeds:
        chance = random.Random(seed)
        codecs = ["none", "none", chance.choice([*CODECS])]
        blocks = [batch(4 * place, *FEW, codec=codec) for place, codec in enumerate(codecs)]
        if seed % 2:
            write_segment(folder, mutated(b"".join(blocks), chance))
        else:
            write_segment(folder, *(damaged(block, chance) for block in blocks))
        read += both_read_the_same(folder)
    assert read > len(seeds), "next to nothing was whole"


def damaged(block: bytes, chance: random.Random) -> bytes:
    """Two of three with other records than a broker writes; length and checksum are right."""
    if chance.random() < 1 / 3:
        return block
    made = bytearray(block[:HEAD_BYTES] + mutated(block[HEAD_BYTES:], chance))
    struct.pack_into(">i", made, 8, len(made) - 12)
    return with_checksum(made)


def test_mutated_segments(tmp_path: Path) -> None:
    """Columns and aiokafka read the same whole records, and neither stops at what is none."""
    read_mutated(tmp_path, range(200))


@pytest.mark.long
def test_very_many_mutated_segments(tmp_path: Path) -> None:
    """The same of 10 000."""
    read_mutated(tmp_path, range(200, 10_200))


def test_a_length_that_does_not_end() -> None:
    """A megabyte of bytes that each say there is more: that is no record, and no number of a million digits."""
    made = bytearray(batch(0, (b"key", b"x" * (1 << 20))))
    made[HEAD_BYTES:] = b"\xff" * (len(made) - HEAD_BYTES)
    assert columns_of_batches([bytes(made)]) is None
