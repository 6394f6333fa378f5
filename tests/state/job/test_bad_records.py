"""Records that could not be used: each counted once, few of them said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from groupreplay.state import Context, SnapshotError
from groupreplay.state.events.event import Event
from groupreplay.state.events.group_events import RecordMalformed, RecordSkipped
from groupreplay.state.job.bad_records import BadRecord, BadRecords
from groupreplay.state.stored_form import sealed

CONTEXT = Context(cluster_id="c", era="e")


def bad(offset: int, at_ms: int = 0, **fields: object) -> BadRecord:
    """A malformed offset commit, unless the fields say otherwise."""
    record = BadRecord(
        partition=3,
        offset=offset,
        timestamp_ms=at_ms,
        group="g",
        kind="malformed",
        key_type=1,
        version=4,
        field="metadata",
        byte_position=14,
        reason="needs 3 bytes, 2 are left",
    )
    return replace(record, **fields)  # type: ignore[arg-type]


def said(events: list[Event]) -> list[tuple[type, int, int]]:
    """(fact, offset, suppressed) of each event."""
    return [(type(event.fact), event.cause.offset, event.fact.suppressed) for event in events]  # type: ignore[attr-defined]


def test_one_event_a_minute_of_each_kind_and_type() -> None:
    """A burst is said once; after a minute of record time the next one tells how many were not."""
    records = BadRecords(3, CONTEXT)
    burst = [bad(offset, offset * 1_000) for offset in range(50)]
    assert said(records.apply(burst)) == [(RecordMalformed, 0, 0)]
    assert said(records.apply([bad(50, 50_000, kind="skipped", key_type=99)])) == [(RecordSkipped, 50, 0)]
    assert said(records.apply([bad(51, 60_000)])) == [(RecordMalformed, 51, 49)]
    assert records.counts() == [
        {"kind": "malformed", "key_type": 1, "records": 51},
        {"kind": "skipped", "key_type": 99, "records": 1},
    ]


def test_a_record_is_counted_once_however_often_it_is_read() -> None:
    """Spark may hand a batch over again: what was taken in before is ignored, in this era of the topic."""
    records = BadRecords(3, CONTEXT)
    records.apply([bad(5), bad(4)])
    blob = records.snapshot()
    again = BadRecords.from_snapshot(3, CONTEXT, blob)
    assert again.apply([bad(4), bad(5)]) == []
    assert (again.changed, again.snapshot()) == (False, blob)
    recreated = BadRecords.from_snapshot(3, replace(CONTEXT, era="later"), blob)
    assert said(recreated.apply([bad(0, 90_000)])) == [(RecordMalformed, 0, 1)]


@pytest.mark.parametrize("cut", range(0, 12, 3))
def test_where_batches_are_cut_does_not_matter(cut: int) -> None:
    """The same records give the same events and state, in one call or two, through a snapshot."""
    records = [bad(offset, offset * 17_000, key_type=offset % 2) for offset in range(12)]
    whole = BadRecords(3, CONTEXT)
    events = whole.apply(records)
    first = BadRecords(3, CONTEXT)
    before = first.apply(records[:cut])
    second = BadRecords.from_snapshot(3, CONTEXT, first.snapshot())
    assert before + second.apply(records[cut:]) == events
    assert second.snapshot() == whole.snapshot()


def test_a_wrong_clock_does_not_silence_the_rest() -> None:
    """After a record that claims to be of the far future the next one is said at once."""
    records = BadRecords(3, CONTEXT)
    assert len(records.apply([bad(0, 10**15), bad(1, 1_000), bad(2, 2_000)])) == 2


def test_the_past_is_counted_and_not_said() -> None:
    """Records from before the first start of the job are counted; they are no events and none suppressed."""
    records = BadRecords(3, replace(CONTEXT, emit_since_ms=5_000))
    assert said(records.apply([bad(0, 4_999), bad(1, 5_000)])) == [(RecordMalformed, 1, 0)]
    assert records.counts() == [{"kind": "malformed", "key_type": 1, "records": 2}]


def test_the_tallies_are_bounded() -> None:
    """Whoever may write to the topic can invent 65 536 key types: beyond a limit they share one tally."""
    records = BadRecords(3, CONTEXT)
    records.apply([bad(offset, key_type=offset, kind="skipped") for offset in range(1_000)])
    counts = records.counts()
    assert len(counts) == 65
    assert counts[-1] == {"kind": "skipped", "key_type": None, "records": 936}


def test_an_unreadable_snapshot_is_refused() -> None:
    """A state of another release is an error that names the version, never an empty state."""
    with pytest.raises(SnapshotError, match="version 9"):
        BadRecords.from_snapshot(3, CONTEXT, b"\x09rest")


def test_a_timestamp_that_cannot_be() -> None:
    """It is counted apart, with those of any type that it stands for; its event has the time by which it was read.

    One in five minutes of these times is told.
    """
    records = BadRecords(3, CONTEXT)
    wrong = {"timestamp_ms": 2**60, "kind": "timestamp", "field": "timestamp"}
    step = 250_000
    first, second = (
        bad(at, **wrong, key_type=at, read_ms=at * step // 2, seen_ms=at * step // 2, others=9)
        for at in (1, 2)
    )
    third = bad(3, **wrong, read_ms=2 * step, seen_ms=2 * step)
    # Its own time can be, and a time inside it cannot; what counts is by when it had been read.
    fourth = bad(4, timestamp_ms=10 * step, kind="timestamp", field="commitTimestamp", seen_ms=2 * step + 9)
    events = records.apply([first, second, third, fourth])
    assert said(events) == [(RecordMalformed, 1, 0), (RecordMalformed, 3, 19)]
    assert [(event.time_ms, event.cause and event.cause.timestamp_ms) for event in events] == [
        (125_000, 125_000),
        (500_000, 500_000),
    ]
    assert records.counts() == [{"kind": "timestamp", "key_type": None, "records": 22}]


def test_records_without_any_time_are_said_once() -> None:
    """Without a heartbeat beside it a record with a wrong time has none: alternating ones must not be said each."""
    records = BadRecords(3, CONTEXT)
    undated = [bad(at, 2**60, kind="malformed", read_ms=0) for at in (1, 3, 5)]
    dated = [bad(at, 10_000_000 + at) for at in (0, 2, 4)]
    assert said(records.apply([*undated, *dated])) == [(RecordMalformed, 0, 0)]


@pytest.mark.parametrize(
    "blob", [b"\x01\xff", b"\x01abcd", b"\x04abcd", sealed(1, 1, b"\xff"), sealed(1, 2, b"\x90")]
)
def test_a_damaged_snapshot_is_refused(blob: bytes) -> None:
    """It is no reason to quarantine the key: the job ends with 5."""
    with pytest.raises(SnapshotError):
        BadRecords.from_snapshot(3, CONTEXT, blob)
