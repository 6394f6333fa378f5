"""Batches taken apart all at once: the records that aiokafka's reader finds, and nothing of batches that are none."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pytest

from groupreplay.streaming.sources.log_segments import Replica, records_of
from groupreplay.streaming.sources.record_columns import Columns, columns_of_batches, columns_of_records
from support.histories.log_files import batch, with_checksum, write_segment

#: Attributes of a batch: its times are the broker's.
APPEND_TIME = 0x08


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
    assert [each.plain for each in batches] == list(blocks)
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
