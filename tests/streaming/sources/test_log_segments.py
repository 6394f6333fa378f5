"""Segments of a log: which files count, how batches are taken apart, and what happens to bytes that are none."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.sources.log_segments import Damage, Replica, properties, records_of
from support.histories.log_files import CODECS, batch, message_set, mutated, write_epochs, write_segment
from support.remedies import read_remedy

RECORDS = [(b"a", b"1"), (b"b", None), (None, b"3"), (b"d" * 300, b"4" * 3_000)]
BATCHES = [batch(0, *RECORDS), batch(4, *RECORDS[:2]), batch(6, *RECORDS, codec="lz4"), batch(10, *RECORDS)]


def read(folder: Path) -> tuple[list[tuple[Any, ...]], list[Damage]]:
    """Offset, key and value of all records, and the damage."""
    damage = list[Damage]()
    records = list[tuple[Any, ...]]()
    for each in Replica(folder, 0).batches(damage.append):
        content = records_of(each)
        assert not isinstance(content, str)
        records += [(record.offset, record.key, record.value) for record in content]
    return records, damage


def numbered(base_offset: int, *, leave_out: tuple[int, ...] = ()) -> list[tuple[Any, ...]]:
    """What is read of ``RECORDS``."""
    return [(base_offset + place, *record) for place, record in enumerate(RECORDS) if place not in leave_out]


@pytest.mark.parametrize("codec", CODECS)
def test_every_compression(tmp_path: Path, codec: str) -> None:
    """Record batches of all codecs that brokers write, with the offsets that compaction has left."""
    write_segment(tmp_path, batch(0, *RECORDS, codec=codec), batch(4, *RECORDS, codec=codec, gaps=[0, 2]))
    assert read(tmp_path) == (numbered(0) + numbered(4, leave_out=(0, 2)), [])


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy"])
def test_message_sets(tmp_path: Path, magic: int, codec: str) -> None:
    """The formats before Kafka 0.11; records of a compressed one have offsets of their own."""
    write_segment(
        tmp_path,
        message_set(7, *RECORDS, magic=magic, codec=codec),
        message_set(11, *RECORDS, magic=magic, codec=codec),
    )
    assert read(tmp_path) == (numbered(7) + numbered(11), [])


def test_the_files_that_kafka_would_load(tmp_path: Path) -> None:
    """A swap replaces the segments it was made of; what was deleted, or not yet cleaned, does not count."""
    write_segment(tmp_path, BATCHES[0])
    write_segment(tmp_path, BATCHES[1], base=4)
    write_segment(tmp_path, BATCHES[2], base=6)
    write_segment(tmp_path, batch(0, *RECORDS, gaps=[0]), batch(4, *RECORDS[:2], gaps=[1]), suffix=".swap")
    write_segment(tmp_path, BATCHES[3], base=10, suffix=".deleted")
    (tmp_path / f"{0:020}.index").write_bytes(b"index")
    expected = [*numbered(0, leave_out=(0,)), (4, b"a", b"1"), *numbered(6)]
    assert read(tmp_path) == (expected, [])


def test_a_swap_of_a_cleaning_that_did_not_end(tmp_path: Path) -> None:
    """It is given up together with the files of the cleaning, as by Kafka: the segments are still there."""
    write_segment(tmp_path, BATCHES[0])
    write_segment(tmp_path, batch(0, *RECORDS, gaps=[0, 1]), suffix=".swap")
    write_segment(tmp_path, batch(0, *RECORDS, gaps=[0, 1]), suffix=".cleaned")
    assert read(tmp_path) == (numbered(0), [])


@pytest.mark.parametrize(
    ("content", "expected", "damage"),
    [
        ([BATCHES[0], BATCHES[1][:-1]], numbered(0), (-1, "the file ends inside a batch")),
        ([BATCHES[0], b"\x00\x00\x00"], numbered(0), (3, "the file ends inside a batch")),
        ([BATCHES[0], bytes(4_096)], numbered(0), (4_096, "they are zero, reserved and never written")),
        ([BATCHES[0], b"junk" * 50], numbered(0), (200, "they are not a record batch")),
        ([BATCHES[0], BATCHES[1][:-1] + b"?", BATCHES[2]], None, (-2, "the checksum is wrong")),
        ([BATCHES[0], b"\x7f" * 90, BATCHES[1], BATCHES[2]], None, (90, "they are not a record batch")),
        (
            [BATCHES[2], BATCHES[0]],
            numbered(6),
            (len(BATCHES[0]), "offset 0 is not one of its segment, or not behind 9"),
        ),
    ],
)
def test_bytes_that_are_no_batch(
    tmp_path: Path, content: list[bytes], expected: list[Any] | None, damage: tuple[int, str]
) -> None:
    """They are reported with their place; whole batches behind them are read."""
    path = write_segment(tmp_path, *content)
    between = numbered(4)[:2] if content[2:3] == [BATCHES[1]] else []
    if expected is None:
        expected = numbered(0) + between + numbered(6)
    length = {-1: len(BATCHES[1]) - 1, -2: len(BATCHES[1])}.get(damage[0], damage[0])
    assert read(tmp_path) == (expected, [Damage(path, len(content[0]), length, damage[1])])
    assert (
        str(Damage(path, 1, 2, "why")) == f"{tmp_path.name}/{0:020}.log at byte 1: 2 bytes are not read: why"
    )


def read_mutated(folder: Path, seeds: range) -> None:
    """Each damaged segment ends; keys and values are those that were written, and what is missing is reported."""
    whole = b"".join(BATCHES)
    for seed in seeds:
        content = mutated(whole, random.Random(seed))
        write_segment(folder, content)
        records, damage = read(folder)
        assert [record for record in records if record[1:] not in RECORDS] == [], seed
        offsets = [record[0] for record in records]
        assert offsets == sorted(set(offsets)), seed
        size = sum(each.length for each in damage)
        left = sum(len(each.block) for each in Replica(folder, 0).batches(lambda _: None))
        assert size + left == len(content), seed


def test_mutated_segments(tmp_path: Path) -> None:
    """No change makes the reader stop, go round, or read what nobody wrote."""
    read_mutated(tmp_path, range(300))


@pytest.mark.long
def test_very_many_mutated_segments(tmp_path: Path) -> None:
    """The same of 20 000."""
    read_mutated(tmp_path, range(300, 20_300))


def test_an_offset_beyond_its_segment(tmp_path: Path) -> None:
    """No checksum covers offsets: one that the next segment has, or that no index could hold, is not believed."""
    write_segment(tmp_path, BATCHES[0], batch(6, *RECORDS[:2]))
    path = write_segment(tmp_path, BATCHES[1], batch(1 << 40, *RECORDS), BATCHES[2], base=4)
    records, damage = read(tmp_path)
    assert records == [*numbered(0), *numbered(4)[:2], *numbered(6)]
    assert [(each.path.name, each.reason) for each in damage] == [
        (f"{0:020}.log", "offset 6 is not one of its segment, or not behind 3"),
        (path.name, f"offset {1 << 40} is not one of its segment, or not behind 5"),
    ]


def test_a_segment_that_may_not_be_read(tmp_path: Path) -> None:
    """The error names the file."""
    (tmp_path / f"{0:020}.log").mkdir()
    with pytest.raises(
        GroupReplayError, match=r"the segment cannot be read: Is a directory \(.*0\.log\)"
    ) as error:
        read(tmp_path)
    read_remedy("streaming.sources.log_segments: check the rights of", str(error.value))
    (tmp_path / f"{0:020}.log").rmdir()
    write_segment(tmp_path, BATCHES[0])
    assert read(tmp_path) == (numbered(0), [])


def test_small_files(tmp_path: Path) -> None:
    """Epochs and topic id of a partition; a file that is not there, or damaged, says nothing."""
    replica = Replica(tmp_path, 0)
    assert (list(replica.epochs()), replica.topic_id()) == ([], None)
    write_epochs(tmp_path, [(0, 0), (3, 17)])
    (tmp_path / "partition.metadata").write_text("version: 0\ntopic_id: E8j8GYQMRf-JlWNBdgOymw")
    assert (list(replica.epochs()), replica.topic_id()) == ([(0, 0), (3, 17)], "E8j8GYQMRf-JlWNBdgOymw")
    (tmp_path / "leader-epoch-checkpoint").write_bytes(b"0\n\xff\n1 x\n2 9\n")
    assert list(replica.epochs()) == [(2, 9)]
    (tmp_path / "meta.properties").write_text("#a=b\ncluster.id=c1\n")
    assert properties(tmp_path / "meta.properties") == {"cluster.id": "c1"}
