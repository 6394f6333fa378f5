"""Snapshots as bytes."""

from __future__ import annotations

import msgspec
import pytest

from groupreplay.codecs.kafka_terms import GroupType, Phase
from groupreplay.state import Context, Group
from groupreplay.state.events.event import Evidence, History
from groupreplay.state.snapshot import group_state
from groupreplay.state.snapshot.group_snapshot import (
    ActiveCondition,
    ConditionKey,
    Conditions,
    GroupActivity,
    GroupSnapshot,
    LogPosition,
    PendingRecord,
    ProbeQueue,
    read,
    write,
)
from groupreplay.state.snapshot.losses import Change, Losses, Lost
from groupreplay.state.snapshot.members import Member, SlotHistory
from groupreplay.state.snapshot.modern import Modern
from groupreplay.state.snapshot.observations import Probe
from groupreplay.state.snapshot.offsets import COMMITTED, OffsetsSnapshot
from groupreplay.state.stored_form import SnapshotError, sealed

MEMBER = Member("m", "i", "c", "/h", 1, 2, ("range",), ("t",), {"t": "0"})
FORMER = Member("n", None, "c", "/h", 1, 2, (), None, None)
LOST = Lost("t", 1, 2, 3, "retention", True)

#: Every field has a value that no other field and no default has.
SNAPSHOT = GroupSnapshot(
    log=LogPosition("e", 1, 2, 3, 4, [PendingRecord(5, 6, b"k", None)]),
    probes=ProbeQueue([Probe(7, "p", 8, 9, state="Stable")], 10, 11),
    group=group_state.GroupState(
        phase=Phase.STABLE,
        group_type=GroupType.STREAMS,
        history=History.FULL,
        since_ms=12,
        record_offset=13,
        record_timestamp_ms=14,
        classic=group_state.ClassicGeneration(15, "consumer", "range", "leader", (MEMBER,), 16),
        modern=Modern(group_epoch=17),
        former=(FORMER,),
        orphans={"o": {"t": "1"}},
        in_progress=group_state.RebalanceInProgress("r", 18, Phase.PREPARING_REBALANCE),
        open_rebalance=group_state.OpenRebalance("q", 19, "member_left", (FORMER, MEMBER)),
        completed_epoch=20,
    ),
    offsets=OffsetsSnapshot(["t"], b"rows", {}, {}, {}),
    losses=Losses((LOST,), [Change(21, 22, "t", 1, 23, 24, "small")]),
    activity=GroupActivity(25, True, True, 26, 27, 28),
    slot_history=SlotHistory(number=29),
    conditions=Conditions(
        {ConditionKey("K", "s"): ActiveCondition(13, ("d",), Evidence.LOG, b"{}", True)}, 30
    ),
    document_digest=b"digest",
)


def test_what_was_written_is_read() -> None:
    """Every field comes back."""
    assert read(write(SNAPSHOT)) == SNAPSHOT


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"\x63abc",
        b"\x01\xff\xff",
        sealed(1, 1, b"\xff"),
        sealed(1, 1, msgspec.msgpack.encode(["e", "?"])),
    ],
)
def test_a_foreign_snapshot_is_refused(blob: bytes) -> None:
    """Another version or damaged bytes are an error that names the kind of state."""
    with pytest.raises(SnapshotError, match=r"^snapshot "):
        Group.from_snapshot("g", Context(cluster_id="c"), blob)


@pytest.mark.parametrize("rows", [b"short", bytes(COMMITTED.itemsize)])
def test_a_damaged_table_of_offsets(rows: bytes) -> None:
    """A column that does not end with a row, or has fewer than another, is an error of the snapshot."""
    damaged = msgspec.structs.replace(SNAPSHOT, offsets=OffsetsSnapshot(["t"], rows, {}, {}, {}))
    with pytest.raises(SnapshotError, match="damaged table of offsets"):
        Group.from_snapshot("g", Context(cluster_id="c"), write(damaged))
