"""What a capture says beside its records: its context in the file's metadata, and which offsets each partition has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pytest

from groupreplay.state.plausible_times import LATEST_MS
from groupreplay.state.policy.context import OwnSettings, SessionSettings
from groupreplay.streaming.config.retention import Retention
from groupreplay.streaming.sources.capture_context import (
    CONTEXT,
    CaptureContext,
    ExtentCounter,
    PartitionExtent,
    decoded_context,
    latest_context,
    retention_of,
)
from support.histories.raw_records import Raw
from support.job.captures import rows_batch


def extent(partition: int, **more: int) -> PartitionExtent:
    """An extent of the topic ``t``."""
    return PartitionExtent(topic="t", partition=partition, **more)


def test_written_and_read() -> None:
    """What is written comes back; without the key there is no context."""
    context = CaptureContext(
        tool="x 1", retention_ms=60_000, topic_settings={"cleanup.policy": "compact"}, extents=[extent(3)]
    )
    assert decoded_context({CONTEXT: msgspec.json.encode(context)}) == context
    assert decoded_context({}) is None
    assert decoded_context(None) is None


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b'{"format":"groupreplay.capture.v9"}',
        b'{"retention_ms":-1}',
        b'{"retention_ms":"7"}',
        b'{"check_interval_ms":0}',
        b'{"complete_ms":%d}' % (LATEST_MS + 1),
        b'{"extents":[{"topic":"t","partition":%d}]}' % 2**70,
    ],
)
def test_metadata_of_anybody(text: bytes) -> None:
    """What is no context, of another format, or has values that cannot be, counts as none."""
    assert decoded_context({CONTEXT: text}) is None


def test_of_several_files() -> None:
    """The latest one counts; what it does not know is taken from the others. Overlapping extents cannot be added."""
    first = CaptureContext(complete_ms=1, retention_ms=60_000, brokers="Kafka 3.9", extents=[extent(1)])
    second = CaptureContext(complete_ms=2, retention_ms=120_000, extents=[extent(2)])
    assert latest_context([second, None, first]) == CaptureContext(
        complete_ms=2, retention_ms=120_000, brokers="Kafka 3.9", extents=(extent(1), extent(2))
    )
    again = latest_context([first, first])
    assert again is not None
    assert again.extents == ()
    assert latest_context([None]) is None


@pytest.mark.parametrize(
    ("captures", "expected"),
    [
        ([{"a": {"s": 1}}, {"b": {"s": 2}}], {"a": {"s": 1}, "b": {"s": 2}}),
        ([{"a": {"s": 1}}, {"a": {"s": 2}}], {"a": {"s": 2}}),
        ([{}, {}], {}),
        ([{"a": {"s": 1}}, None], None),
    ],
)
def test_the_settings_of_groups_of_several_captures(
    captures: Sequence[Mapping[str, Mapping[str, int]] | None],
    expected: Mapping[str, Mapping[str, int]] | None,
) -> None:
    """Those of all, the later first; if nobody asked for one of them, it is not known which groups have none."""
    contexts = [CaptureContext(complete_ms=at, group_settings=own) for at, own in enumerate(captures)]
    merged = latest_context(contexts)
    assert merged is not None
    assert merged.group_settings == expected
    other = latest_context([*contexts, None])
    assert other is not None
    assert other.group_settings is None


def test_retention() -> None:
    """As far as it is known, with the release."""
    assert retention_of(CaptureContext()) == Retention()
    assert retention_of(CaptureContext(retention_ms=5, check_interval_ms=6)) == Retention(
        retention_ms=5, check_interval_ms=6
    )
    assert retention_of(CaptureContext(brokers="Kafka 3.9")) == Retention(broker_release=(3, 9))
    sessions = {"consumer": SessionSettings(9, 8, 3, "broker", "broker")}
    assert retention_of(CaptureContext(sessions={"consumer": (9, 8, 3)})) == Retention(sessions=sessions)
    own = {"g": {"consumer.session.timeout.ms": 7}}
    assert retention_of(CaptureContext(group_settings=own)) == Retention(own_settings=OwnSettings(own))


def test_a_capture_of_brokers_of_no_release(caplog: pytest.LogCaptureFixture) -> None:
    """One sentence says so, and the release counts as unknown."""
    assert retention_of(CaptureContext(brokers="Redpanda")) == Retention()
    (record,) = caplog.records
    assert record.getMessage() == "the capture names its brokers 'Redpanda', which is no release of Kafka"


@pytest.mark.parametrize(("missing", "gaps", "compacted"), [(0, 0, "no"), (3, 0, "possibly"), (3, 1, "yes")])
def test_compacted(missing: int, gaps: int, compacted: str) -> None:
    """Single offsets without a record may be markers of transactions."""
    assert extent(0, missing=missing, gaps=gaps).compacted == compacted


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
