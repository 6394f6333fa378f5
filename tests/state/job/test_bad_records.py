"""Records that could not be used: each counted once, few of them said."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from groupreplay.codecs import (
    REGISTRY,
    Assignment,
    ConnectAssignment,
    ConnectMetadata,
    ConnectorTasks,
    GroupMetadataValue,
    Subscription,
    TopicPartitions,
    encode_blob,
)
from groupreplay.codecs.composites import Array, Nested
from groupreplay.codecs.schema import wires
from groupreplay.state import Context, SnapshotError
from groupreplay.state.events.event import Event
from groupreplay.state.events.group_events import RecordMalformed, RecordSkipped
from groupreplay.state.job.bad_records import BadRecord, BadRecords, LeftOut, left_out
from groupreplay.state.snapshot.members import read_members
from groupreplay.state.snapshot.partitions import MOST_PARTITIONS
from groupreplay.state.stored_form import sealed
from support.histories.builders import generation, member
from support.histories.record_samples import random_message, random_value

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
    """Also one that a later release wrote."""
    with pytest.raises(SnapshotError):
        BadRecords.from_snapshot(3, CONTEXT, blob)


NO_TEXT = "t\udcff"


def of_consumer(*topics: TopicPartitions, subscribed: tuple[str, ...] = ("t",)) -> GroupMetadataValue:
    """A record with one consumer, its assignment and subscription."""
    return with_blobs(
        "consumer",
        encode_blob(Subscription(version=0, topics=subscribed)),
        encode_blob(Assignment(version=1, assigned_partitions=topics)),
    )


def with_blobs(protocol_type: str, subscription: bytes, assignment: bytes) -> GroupMetadataValue:
    """A record with one member that has these blobs."""
    value = generation(1, member("a", [0]), at=1).value
    assert isinstance(value, GroupMetadataValue)
    one = replace(value.members[0], subscription=subscription, assignment=assignment)
    return replace(value, protocol_type=protocol_type, members=(one,))


def topic(name: str, *partitions: int) -> TopicPartitions:
    """Partitions of one topic."""
    return TopicPartitions(topic=name, partitions=partitions)


def test_an_ordinary_record_has_nothing_to_leave_out() -> None:
    """Partitions above 127 and names with bytes above 127 are values like others."""
    assert left_out(of_consumer(topic("t", 0, 1, 130, 2**31 - 1), topic("ü", 5))) is None


def test_partitions_of_a_classic_member() -> None:
    """Below zero and no text: the field, the numbers, and the state without them."""
    value = of_consumer(topic("t", -1, 3, -(2**31)), topic(NO_TEXT, 4), subscribed=("t", NO_TEXT))
    assert left_out(value) == LeftOut(
        "members[0].subscription", "left out: 2 names that are not UTF-8, 2 partitions below zero"
    )
    (one,) = read_members(value)
    assert (one.topics, one.partitions) == (("t",), {"t": "3"})


def test_more_partitions_than_any_topic_has() -> None:
    """The lowest are kept; repeats do not count."""
    value = of_consumer(topic("t", *range(MOST_PARTITIONS + 7), 0, 0))
    assert left_out(value) == LeftOut(
        "members[0].assignment", f"left out: 7 partitions beyond {MOST_PARTITIONS} of one topic"
    )
    (one,) = read_members(value)
    assert one.partitions == {"t": f"0-{MOST_PARTITIONS - 1}"}


def test_a_connect_worker() -> None:
    """Tasks below -1, which is the connector itself, and names that are no text, in all three lists."""
    tasks = (ConnectorTasks(connector="c", tasks=(-1, 0, -5)), ConnectorTasks(connector=NO_TEXT, tasks=(1,)))
    assignment = encode_blob(
        ConnectAssignment(version=0, error=0, leader="l", leader_url="u", config_offset=1, assigned=tasks)
    )
    worker = ConnectMetadata(version=1, url=NO_TEXT, config_offset=1, allocation=assignment)
    value = with_blobs("connect", encode_blob(worker), assignment)
    assert left_out(value) == LeftOut(
        "members[0].subscription", "left out: 3 names that are not UTF-8, 2 tasks below -1"
    )
    (one,) = read_members(value)
    assert one.worker is not None
    assert (one.worker.url, one.worker.connectors, one.worker.tasks) == ("", ("c",), {"c": "0"})


def lists_of_partitions() -> list[Any]:
    """Every field of every declared value that is a list of something with a list of partitions."""
    return [
        (value, wire)
        for _, value in REGISTRY.values()
        for wire in wires(value)
        if isinstance(wire.type, Array)
        and isinstance(wire.type.element, Nested)
        and any(inner.name == "partitions" for inner in wires(wire.type.element.message))
    ]


@pytest.mark.parametrize(("kind", "field"), lists_of_partitions())
def test_every_list_of_partitions_in_a_record(kind: Any, field: Any) -> None:
    """Each is found by its declaration: a new record type is counted as well."""
    value = random_value(Random(1), kind, 0, early=field.until is not None)
    value = replace(value, **{one.name: () for of, one in lists_of_partitions() if of is kind})
    element = random_message(Random(1), field.type.element.message, 0)
    value = replace(value, **{field.name: (replace(element, partitions=(-1, 0, -2)),)})
    assert left_out(value) == LeftOut(field.name, "left out: 2 partitions below zero")
