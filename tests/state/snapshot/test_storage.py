"""Snapshots as bytes, of this version and of those before."""

from __future__ import annotations

import msgspec
import pytest

from groupreplay.codecs.kafka_terms import GroupType, Phase
from groupreplay.state import Context, Group
from groupreplay.state.events.event import Evidence, History
from groupreplay.state.snapshot import group_state
from groupreplay.state.snapshot.conditions import ActiveCondition, ConditionKey, Conditions
from groupreplay.state.snapshot.group_snapshot import GroupActivity, GroupSnapshot
from groupreplay.state.snapshot.log_position import LogPosition, PendingRecord, ProbeQueue
from groupreplay.state.snapshot.losses import Change, Losses, Lost
from groupreplay.state.snapshot.members import Member
from groupreplay.state.snapshot.modern import Modern
from groupreplay.state.snapshot.observations import Probe
from groupreplay.state.snapshot.offsets import OffsetsSnapshot
from groupreplay.state.snapshot.slot_history import SlotHistory
from groupreplay.state.snapshot.storage import read, write
from groupreplay.state.snapshot.version_1 import TextKeyCondition, active_conditions
from groupreplay.state.stored_form import SnapshotError, sealed

MEMBER = Member("m", "i", "c", "/h", 1, 2, ("range",), ("t",), {"t": "0"})
FORMER = Member("n", None, "c", "/h", 1, 2, (), None, None)
LOST = Lost("t", 1, 2, 3, "retention", True)

#: Every field has a value that no other field and no default has.
SNAPSHOT = GroupSnapshot(
    log=LogPosition("e", 1, 2, 3, 4, [PendingRecord(5, 6, b"k", None)]),
    probes=ProbeQueue([Probe(7, "Stable", "p", 8, 9)], 10, 11),
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

BODY = write(SNAPSHOT)[6:]

#: The same as the releases with version 1 wrote it: the parts in one flat array.
VERSION_1 = (
    *("e", 1, 2, 3, Phase.STABLE, GroupType.STREAMS, History.FULL, 15, "consumer", "range", "leader"),
    *(12, 13, 14, (MEMBER,), (FORMER,), {"o": {"t": "1"}}, SNAPSHOT.log.pending, b"digest"),
    *(SNAPSHOT.offsets, SNAPSHOT.group.modern, SNAPSHOT.group.open_rebalance, 20, 4, 30),
    *(SNAPSHOT.probes.waiting, 10, SNAPSHOT.group.in_progress, {"K s": (13, "d", "log", b"{}", True)}, 16),
    *(SNAPSHOT.activity, (LOST,), SNAPSHOT.losses.changes, SNAPSHOT.slot_history, 11),
)


def version_1(*fields: object) -> bytes:
    """A snapshot with these first fields."""
    return b"\x01" + msgspec.msgpack.encode(fields)


def test_what_was_written_is_read() -> None:
    """Every field comes back."""
    assert read(write(SNAPSHOT)) == SNAPSHOT


def test_version_1_is_read() -> None:
    """Every field of the flat array has its place in a part."""
    assert read(version_1(*VERSION_1)) == SNAPSHOT


@pytest.mark.parametrize(
    ("key", "dedup_key", "expected"),
    [
        ("k", "", (ConditionKey("k", ""), (), ())),
        ("k a b", "20", (ConditionKey("k", "a b"), ("20",), ())),
        ("k", "not_joined\0", (ConditionKey("k", ""), ("",), ("not_joined",))),
        ("k", "a,b\0wedged\0m\0n", (ConditionKey("k", ""), ("wedged", "m", "n"), ("a", "b"))),
    ],
)
def test_text_keys_of_version_1(key: str, dedup_key: str, expected: tuple[object, ...]) -> None:
    """The text key becomes name and subject; the text of a stuck rebalance its reasons, and what else it reported."""
    old = TextKeyCondition(17, dedup_key, Evidence.PROBE, b"{}", True)
    ((found, one),) = active_conditions({key: old}).items()
    assert (found, one.dedup_key, one.reported) == expected
    assert (one.severity, one.evidence, one.condition, one.late) == (17, Evidence.PROBE, b"{}", True)


def test_version_2_is_read() -> None:
    """It has the same fields behind the version alone."""
    assert read(b"\x02" + BODY) == SNAPSHOT


def test_version_3_is_read() -> None:
    """It has the least reader, and no checksum."""
    assert read(b"\x03\x01" + BODY) == SNAPSHOT


def test_a_short_array_of_version_1_is_read() -> None:
    """Its first releases wrote fewer fields; those that are missing are blank."""
    assert read(version_1("e", 7)) == GroupSnapshot(log=LogPosition("e", 7))


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"\x63abc",
        b"\x01\xff\xff",
        b"\x02\xff\xff",
        b"\x03\x01\xff",
        sealed(4, 1, b"\xff"),
        version_1("e", "?"),
    ],
)
def test_a_foreign_snapshot_is_refused(blob: bytes) -> None:
    """Another version or damaged bytes are an error that names the version."""
    with pytest.raises(SnapshotError, match="version"):
        Group.from_snapshot("g", Context(cluster_id="c"), blob)


def test_a_damaged_table_of_offsets() -> None:
    """A column that does not end with a row is an error of the snapshot, not of the group."""
    damaged = msgspec.structs.replace(SNAPSHOT, offsets=OffsetsSnapshot(["t"], b"short", {}, {}, {}))
    with pytest.raises(SnapshotError, match="damaged table of offsets"):
        Group.from_snapshot("g", Context(cluster_id="c"), write(damaged))


def test_no_version_is_read_as_another() -> None:
    """A wrong version byte is found out: the first field is text in version 1, an array in 2, and a number in 3.

    Version 4 has a checksum.
    """
    old, sums = version_1(*VERSION_1)[1:], write(SNAPSHOT)[1:]
    three = (b"\x01" + BODY, b"\x02" + old, b"\x03" + BODY, b"\x03" + old, b"\x02\x01" + BODY)
    for blob in (*three, b"\x01" + sums, b"\x02" + sums, b"\x03" + sums, b"\x04" + BODY, b"\x04\x01" + BODY):
        with pytest.raises(SnapshotError, match=r"damaged|for readers from"):
            read(blob)
