"""What ``groupreplay capture --show`` says."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groupreplay.app.inspection.capture_description import CaptureDescription, describe_capture
from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.sources.capture import read_captures
from groupreplay.streaming.sources.capture_context import CaptureContext, PartitionExtent
from support.histories.raw_records import Raw
from support.job.captures import CLUSTER_ID, ERA, invoke, rows_batch, write_capture
from support.job.probes import probes_batch, summed_up

ROWS = [Raw(2, offset, 1_767_225_600_000 + offset, b"k", None) for offset in (4, 5, 9)]
CONTEXT = CaptureContext(
    tool="groupreplay 9",
    command="capture",
    complete_ms=1_767_225_700_000,
    brokers="Kafka 3.9",
    retention_ms=60_000,
    check_interval_ms=5_000,
    partitions=50,
    topic_settings={"cleanup.policy": "compact", "other": "x"},
    probes="group-probes",
)
EXTENT = PartitionExtent(
    topic=OFFSETS_TOPIC,
    partition=2,
    records=3,
    first_offset=4,
    last_offset=9,
    first_ms=1_767_225_600_004,
    last_ms=1_767_225_600_009,
    missing=3,
    gaps=1,
)


def test_with_a_context(tmp_path: Path) -> None:
    """Everything is in the metadata; the records are not read."""
    path = write_capture(tmp_path / "a.parquet", ROWS, context=CONTEXT, topic_names={"id": "orders"})
    read: list[int] = []
    found = describe_capture(path, progress=lambda done, total: read.append(done))
    assert found == CaptureDescription(
        files=1,
        bytes=path.stat().st_size,
        cluster_id=CLUSTER_ID,
        topic_id=ERA,
        context=CONTEXT,
        extents=(EXTENT,),
        topic_names={"id": "orders"},
    )
    assert read == []


@pytest.mark.parametrize("overlapping", [False, True])
def test_what_is_not_written_is_counted(tmp_path: Path, overlapping: bool) -> None:
    """In files of other writers and of earlier releases, and where files overlap."""
    context = CONTEXT if overlapping else None
    write_capture(tmp_path / "a.parquet", ROWS, context=context, probes=probes_batch([summed_up(at=1)]))
    if overlapping:
        write_capture(tmp_path / "b.parquet", ROWS[:2], context=context)
    found = describe_capture(tmp_path)
    assert found.context == context
    assert [one for one in found.extents if one.topic == OFFSETS_TOPIC] == [EXTENT]
    assert [(one.topic, one.records) for one in found.extents] == [(OFFSETS_TOPIC, 3), ("group-probes", 1)]


def test_on_the_terminal(tmp_path: Path) -> None:
    """Names and values, and a line for each partition; JSON has everything."""
    path = write_capture(
        tmp_path / "a.parquet", ROWS, context=CONTEXT, probes=probes_batch([summed_up(at=1)])
    )
    printed = invoke("capture", "--show", path)
    assert (printed.exit_code, printed.stderr) == (0, "")
    lines = [" ".join(line.split()) for line in printed.stdout.splitlines()]
    for line in (
        "written by groupreplay 9, capture",
        "log complete up to 2026-01-01T00:01:40.000Z",
        "brokers Kafka 3.9",
        "offsets.retention.minutes 1 (0.000694 days)",
        "offsets.retention.check.interval.ms 5000",
        "partitions of __consumer_offsets 50",
        "settings of __consumer_offsets cleanup.policy=compact",
        "offsets without a record 3 (removed by compaction, or of transactions)",
        "answers of the prober 1",
        f"{OFFSETS_TOPIC} 2 3 - 4 9 - 2026-01-01T00:00:00.004Z 2026-01-01T00:00:00.009Z 3 yes",
    ):
        assert line in lines
    found = json.loads(invoke("capture", "--show", path, "--output", "json").stdout)
    assert found["context"]["topic_settings"] == {"cleanup.policy": "compact", "other": "x"}
    assert [one["records"] for one in found["extents"]] == [3, 1]


def test_a_file_of_another_writer(tmp_path: Path) -> None:
    """What it does not have is said to be unknown."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_batches([rows_batch(ROWS)]), path)
    lines = [" ".join(line.split()) for line in invoke("capture", "--show", path).stdout.splitlines()]
    for line in ("written by not known", "cluster unknown", "brokers not known", "records 3 in 1 partitions"):
        assert line in lines
    assert read_captures([path]).retention is None
