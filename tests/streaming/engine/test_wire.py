"""Packed bytes and back."""

from __future__ import annotations

import numpy as np
import pytest

from groupreplay.codecs import GroupMetadataKey, OffsetCommitKey, decode_value
from groupreplay.state.job.bad_records import BadRecord
from groupreplay.state.snapshot.commit_steps import STEPS
from groupreplay.state.snapshot.observations import COMMITS, CommitRun, Extent, GroupRecord
from groupreplay.streaming.engine.wire import (
    BadRecordBytes,
    PackedGroup,
    PackedRecord,
    PackedRun,
    to_wire,
    unpack_bad_records,
    unpack_group,
)
from support.histories.raw_records import commit_key, generation


def run_of(*log_offsets: int) -> PackedRun:
    """A run with one row for each offset."""
    rows = np.zeros(len(log_offsets), COMMITS)
    rows["log_offset"] = rows["first_log_offset"] = log_offsets
    steps = np.array([(0, 9, 3, log_offsets[0], 1, -1, 4)], STEPS)
    extent = Extent.of(rows)
    return PackedRun(["t"], rows.tobytes(), extent, steps.tobytes(), {0: "note"}, {0: b"\1" * 16})


def test_a_group_comes_back_as_observations() -> None:
    """Runs with their tables, records decoded, all in the order of the log, from however many blobs."""
    key, value = generation("g", 4)
    late = PackedGroup(3, 40, [PackedRecord(30, 300, commit_key("g"), None), run_of(31, 32)])
    early = PackedGroup(3, 20, [run_of(5), PackedRecord(7, 70, key, value)])
    observations = unpack_group([to_wire(late), to_wire(early)])
    assert observations.seen_to == 40
    first, second, third, fourth = observations.items
    assert isinstance(first, CommitRun)
    assert (first.partition, first.topics, first.metadata, first.topic_ids) == (
        3,
        ("t",),
        {0: "note"},
        {0: b"\1" * 16},
    )
    assert first.rows.dtype == COMMITS
    assert first.extent == Extent(5, 0, 5, 0, 0, True)
    assert first.steps.tolist() == [(0, 9, 3, 5, 1, -1, 4)]
    group_key = GroupMetadataKey(group="g")
    assert second == GroupRecord(
        partition=3, offset=7, timestamp_ms=70, key=group_key, value=decode_value(group_key, value)
    )
    tombstone = OffsetCommitKey(group="g", topic="t", partition=0)
    assert third == GroupRecord(partition=3, offset=30, timestamp_ms=300, key=tombstone, value=None)
    assert isinstance(fourth, CommitRun)
    assert fourth.rows["log_offset"].tolist() == [31, 32]


def test_a_group_in_two_partitions_is_seen_to_the_smaller_claim() -> None:
    """It should not be; if it is, an operation is rather kept open too long than closed too early."""
    blobs = [to_wire(PackedGroup(part, seen, [run_of(1)])) for part, seen in ((0, 90), (1, 20), (0, 95))]
    assert unpack_group(blobs).seen_to == 20


def test_bad_records_come_back_in_log_order() -> None:
    """With as much of their bytes as was kept."""
    bad = [
        BadRecordBytes(
            BadRecord(
                partition=1,
                offset=offset,
                timestamp_ms=2,
                group=None,
                kind="skipped",
                key_type=99,
                version=None,
                field=None,
                byte_position=None,
                reason="record type 99 is not known",
            ),
            b"\0\x63",
            2,
            "aa",
            None,
            None,
            None,
        )
        for offset in (8, 3)
    ]
    assert unpack_bad_records([to_wire(bad[:1]), to_wire(bad[1:])]) == bad[::-1]


def test_what_pack_should_not_have_let_pass_is_an_error() -> None:
    """Bytes that cannot be decoded here are our own fault and must not be ignored in silence."""
    for record in (PackedRecord(0, 0, b"\xff", None), PackedRecord(0, 0, commit_key("g"), b"\0")):
        with pytest.raises(TypeError, match="pack let a bad"):
            unpack_group([to_wire(PackedGroup(0, 0, [record]))])
