"""What there is of each partition, and what is missing."""

from __future__ import annotations

from groupreplay.app.inspection.capture_files.context import PartitionExtent
from groupreplay.app.inspection.capture_files.extents import ExtentCounter
from support.histories.raw_records import Raw
from support.job.captures import rows_batch


def test_counts() -> None:
    """Offsets, times and gaps over several batches; a time that is none does not count."""
    counter = ExtentCounter()
    for offsets in ([(5, 900), (6, -1)], [(8, 700), (20, 800)]):
        counter.add(rows_batch([Raw(1, offset, at, b"", b"") for offset, at in offsets], "t"))
    counter.add(rows_batch([]))
    assert counter.extents() == [
        PartitionExtent(
            topic="t",
            partition=1,
            records=4,
            first_offset=5,
            last_offset=20,
            first_ms=700,
            last_ms=900,
            missing=12,
            gaps=1,
        )
    ]


def test_bounds_of_the_broker() -> None:
    """What is missing before the first and after the last record counts; empty partitions are listed."""
    counter = ExtentCounter()
    counter.note_bounds("t", {0: 0, 1: 3, 2: 7}, {0: 9, 1: 7, 2: 7})
    counter.add(rows_batch([Raw(0, offset, offset, b"", b"") for offset in (2, 3, 7)], "t"))
    counter.add(rows_batch([Raw(0, 4, 4, b"", b"")], "u"))
    found = counter.extents()
    assert [(one.topic, one.partition, one.log_start, one.log_end) for one in found] == [
        ("t", 0, 0, 9),
        ("t", 1, 3, 7),
        ("t", 2, 7, 7),
        ("u", 0, None, None),
    ]
    # Before 2, between 3 and 7, and after 7.
    assert [(one.records, one.missing, one.gaps) for one in found] == [
        (3, 6, 2),
        (0, 4, 1),
        (0, 0, 0),
        (1, 0, 0),
    ]
    assert [one.compacted for one in found] == ["yes", "yes", "no", "no"]


def test_a_topic_that_grows_meanwhile() -> None:
    """Records after the end that the broker named at first move that end."""
    counter = ExtentCounter()
    counter.note_bounds("t", {0: 0}, {0: 1})
    counter.add(rows_batch([Raw(0, offset, offset, b"", b"") for offset in (0, 1, 2)], "t"))
    (found,) = counter.extents()
    assert (found.log_end, found.missing, found.compacted) == (3, 0, "no")
