"""Replicas as one log: transactions, what another leader has overwritten, and what only one of them still has."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupreplay.streaming.sources.log_replicas import columns_of_partition
from groupreplay.streaming.sources.log_segments import Replica
from support.histories.log_files import (
    ABORT,
    COMMIT,
    batch,
    marker,
    with_checksum,
    write_epochs,
    write_segment,
)

A, B, C = (b"a", b"1"), (b"b", b"2"), (b"c", b"3")
#: Producers.
P, Q = 4_000, 4_001


def read(*folders: Path, uncommitted: bool = False) -> tuple[dict[int, bytes | None], list[str]]:
    """Offset and key of what is read, and what was reported."""
    notes = list[str]()
    replicas = [Replica(folder, 3) for folder in folders]
    records = [
        record
        for columns in columns_of_partition(replicas, uncommitted=uncommitted, note=notes.append)
        for record in zip(columns.offsets.to_pylist(), columns.keys.to_pylist(), strict=True)
    ]
    assert [offset for offset, _ in records] == sorted({offset for offset, _ in records})
    return dict(records), notes


@pytest.mark.parametrize(
    ("batches", "committed", "uncommitted"),
    [
        # Committed, aborted; a record without transaction between them counts.
        ([batch(0, A, producer=P), marker(1, P, COMMIT), batch(2, B)], [0, 2], [0, 2]),
        ([batch(0, A, producer=P), batch(1, B), marker(2, P, ABORT), batch(3, C)], [1, 3], [0, 1, 3]),
        # Of two producers at once each has its own outcome; one producer has several transactions.
        (
            [
                *[batch(0, A, producer=P), batch(1, B, producer=Q), batch(2, C, producer=P)],
                *[marker(3, Q, ABORT), marker(4, P, COMMIT), batch(5, A, producer=Q), marker(6, Q, COMMIT)],
                *[batch(7, A, producer=P), marker(8, P, ABORT)],
            ],
            [0, 2, 5],
            [0, 1, 2, 5, 7],
        ),
        # A marker alone: compaction has removed what it ended. An idempotent producer has no transaction.
        ([marker(0, P, ABORT), batch(1, A, producer=P), marker(2, P, COMMIT)], [1], [1]),
    ],
)
def test_transactions(
    tmp_path: Path, batches: list[bytes], committed: list[int], uncommitted: list[int]
) -> None:
    """What was aborted is left out, unless somebody wants what was written."""
    write_segment(tmp_path, *batches)
    assert [list(read(tmp_path)[0]), list(read(tmp_path, uncommitted=True)[0])] == [committed, uncommitted]
    assert read(tmp_path)[1] == []


def test_an_open_transaction(tmp_path: Path) -> None:
    """Nothing from its first record on is read, as a consumer with read_committed gets it, and that is reported."""
    write_segment(
        tmp_path,
        *[batch(0, A), batch(1, B, producer=P), batch(2, C, producer=Q), batch(3, A), marker(4, Q, COMMIT)],
    )
    records, notes = read(tmp_path)
    assert records == {0: b"a"}
    assert notes == [
        f"partition 3: a transaction of producer {P} is open since offset 1; records from offset 1 on are not read, as "
        "read_committed has it: --read-uncommitted reads them"
    ]
    assert read(tmp_path, uncommitted=True) == ({0: b"a", 1: b"b", 2: b"c", 3: b"a"}, [])


def test_replicas_fill_gaps_of_each_other(tmp_path: Path) -> None:
    """Compaction, damage and missing segments of one replica do not matter if another one has the records."""
    one, two = tmp_path / "1" / "t-3", tmp_path / "2" / "t-3"
    write_segment(one, batch(0, A, B, C, gaps=[0, 1]), batch(3, A)[:-1] + b"?", batch(4, B))
    write_segment(two, batch(0, A, B, C, gaps=[1]), batch(3, A))
    assert read(one, two) == (
        {0: b"a", 2: b"c", 3: b"a", 4: b"b"},
        [f"partition 3: t-3/{0:020}.log at byte 70: 70 bytes are not read: the checksum is wrong"],
    )
    assert read(two, one)[0] == read(one, two)[0]
    assert list(read(one)[0]) == [2, 4]


def test_what_another_leader_has_overwritten(tmp_path: Path) -> None:
    """The newest leader's log is the history, however short; equal epochs are one log, of which the longest counts."""
    old, new, behind = (tmp_path / name / "t-3" for name in ("old", "new", "behind"))
    write_segment(old, batch(0, A), batch(1, B, epoch=1), batch(2, C, epoch=1), batch(3, C, epoch=1))
    write_segment(new, batch(0, A), batch(1, B, epoch=1), batch(2, A, epoch=4))
    write_segment(behind, batch(0, A))
    assert read(old, new, behind) == (
        {0: b"a", 1: b"b", 2: b"a"},
        [f"partition 3: 2 batches in {old} are not read: another leader has overwritten them"],
    )
    assert read(old, behind) == ({0: b"a", 1: b"b", 2: b"c", 3: b"c"}, [])


def test_the_epochs_of_a_compacted_leader(tmp_path: Path) -> None:
    """Where compaction has removed the begin of an epoch, the checkpoint of epochs still has it."""
    old, new = tmp_path / "old" / "t-3", tmp_path / "new" / "t-3"
    write_segment(old, batch(0, A), batch(1, B, epoch=2), batch(2, C, epoch=2))
    write_segment(new, batch(0, A), batch(2, C, epoch=2), batch(3, A, epoch=3))
    assert list(read(old, new)[0]) == [0, 2, 3]
    write_epochs(new, [(0, 0), (2, 1), (3, 3)])
    assert read(old, new) == ({0: b"a", 1: b"b", 2: b"c", 3: b"a"}, [])


def test_records_that_cannot_be_read(tmp_path: Path) -> None:
    """A batch whose checksum is right and whose records are not: it is reported, and the next one is read."""
    broken = bytearray(batch(0, A, codec="gzip"))
    broken[61:] = b"no gzip, whatever the attributes of the batch are about it"[: len(broken) - 61]
    write_segment(tmp_path, with_checksum(broken), batch(1, B))
    records, (note,) = read(tmp_path)
    assert records == {1: b"b"}
    assert note.startswith("partition 3: the batch at offset 0 is not read: its records cannot be read: ")
