"""The last record of captures."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.state.plausible_times import LATEST_MS
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.sources.capture_order import last_record_ms
from support.histories.raw_records import Raw
from support.job.captures import rows_batch, write_capture

PROBES = "group-probes"


def rows(*times_ms: int, partition: int = 0) -> list[Raw]:
    """Records at these times."""
    return [Raw(partition, number, at, b"k", None) for number, at in enumerate(times_ms)]


def test_of_own_captures(tmp_path: Path) -> None:
    """The latest of all partitions, files and probes; the time of a probe counts only if probes are read."""
    probes = rows_batch(rows(9_000), PROBES)
    one = write_capture(
        tmp_path / "a.parquet", [*rows(5_000, 3_000), *rows(7_000, partition=4)], probes=probes
    )
    two = write_capture(tmp_path / "b.parquet", rows(8_000))
    assert last_record_ms([one], PROBES) == 9_000
    assert last_record_ms([one], "") == 7_000
    assert last_record_ms([one, two], "") == last_record_ms([tmp_path], "") == 8_000


def test_times_that_cannot_be(tmp_path: Path) -> None:
    """A record of the year 2200 does not move the end, and a time below zero is none."""
    path = write_capture(tmp_path / "a.parquet", rows(5_000, LATEST_MS + 1, -1))
    assert last_record_ms([path], PROBES) == 5_000
    assert last_record_ms([write_capture(tmp_path / "b.parquet", rows(-5))], PROBES) is None


def test_without_records(tmp_path: Path) -> None:
    """There is no last record; a missing file is an error."""
    assert last_record_ms([write_capture(tmp_path / "a.parquet", [])], PROBES) is None
    with pytest.raises(GroupReplayError):
        last_record_ms([tmp_path / "no.parquet"], PROBES)


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("statistics", [True, False])
def test_of_files_of_others(tmp_path: Path, unit: str, statistics: bool) -> None:
    """Timestamps in any unit, with other topics in the same row group, with and without statistics."""
    at = [datetime.fromtimestamp(one, timezone.utc) for one in (5, 8, 7)]
    table = pa.table(
        {
            "topic": [OFFSETS_TOPIC, "orders", OFFSETS_TOPIC],
            "partition": pa.array([0, 0, 0], pa.int32()),
            "offset": pa.array([0, 1, 2], pa.int64()),
            "timestamp": pa.array(at, pa.timestamp(unit, tz="UTC")),
            "key": pa.array([b"k"] * 3, pa.binary()),
            "value": pa.array([None] * 3, pa.binary()),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", write_statistics=statistics)
    assert last_record_ms([tmp_path / "a.parquet"], PROBES) == 7_000
    pq.write_table(table.drop_columns("topic"), tmp_path / "b.parquet", write_statistics=statistics)
    assert last_record_ms([tmp_path / "b.parquet"], PROBES) == 8_000
