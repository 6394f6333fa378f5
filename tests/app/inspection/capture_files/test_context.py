"""The context of a capture in a file's metadata."""

from __future__ import annotations

import msgspec
import pytest

from groupreplay.app.inspection.capture_files.context import (
    CONTEXT,
    CaptureContext,
    PartitionExtent,
    decoded_context,
    latest_context,
    retention_of,
)
from groupreplay.state.plausible_times import LATEST_MS
from groupreplay.state.policy.context import SessionSettings
from groupreplay.streaming.kafka.retention import Retention


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


def test_retention() -> None:
    """As far as it is known, with the release."""
    assert retention_of(CaptureContext()) == Retention()
    assert retention_of(CaptureContext(retention_ms=5, check_interval_ms=6)) == Retention(
        retention_ms=5, check_interval_ms=6
    )
    assert retention_of(CaptureContext(brokers="Kafka 3.9")) == Retention(broker_release=(3, 9))
    sessions = {"consumer": SessionSettings(9, 8, 3)}
    assert retention_of(CaptureContext(sessions={"consumer": (9, 8, 3)})) == Retention(sessions=sessions)


def test_a_capture_of_brokers_of_no_release(caplog: pytest.LogCaptureFixture) -> None:
    """One sentence says so, and the release counts as unknown."""
    assert retention_of(CaptureContext(brokers="Redpanda")) == Retention()
    (record,) = caplog.records
    assert record.getMessage() == "the capture names its brokers 'Redpanda', which is no release of Kafka"


@pytest.mark.parametrize(("missing", "gaps", "compacted"), [(0, 0, "no"), (3, 0, "possibly"), (3, 1, "yes")])
def test_compacted(missing: int, gaps: int, compacted: str) -> None:
    """Single offsets without a record may be markers of transactions."""
    assert extent(0, missing=missing, gaps=gaps).compacted == compacted
