"""The time of the last record of captures, without reading their records.

Ages and times of day in flags count back from it, so it must be known before the first record is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.state.plausible_times import LATEST_MS
from groupreplay.streaming.inspection.capture_file import capture_files, open_capture, reading_capture


def last_record_ms(paths: Iterable[Path], probes_topic: str) -> int | None:
    """The latest time of a record of the log or of the probes, in milliseconds since 1970; None without records.

    Times that cannot be (``plausible_times``) do not count. It reads the statistics of the row groups, and the columns
    ``timestamp`` and ``topic`` of those without.

    Raises:
        GroupReplayError: a file is missing, not a capture or damaged.
    """
    topics = frozenset({OFFSETS_TOPIC, probes_topic})
    found = list[int]()
    for path in capture_files(paths):
        _, file = open_capture(path)
        with reading_capture(path):
            found += (at_ms for index in range(file.num_row_groups) for at_ms in _latest(file, index, topics))
    return max(found, default=None)


def _latest(file: pq.ParquetFile, index: int, topics: Collection[str]) -> list[int]:
    """The latest time of a row group in a list, or nothing."""
    group = file.metadata.row_group(index)
    columns = (group.column(number) for number in range(group.num_columns))
    statistics = {one.path_in_schema: one.statistics for one in columns}
    has_topic = "topic" in statistics
    topic = _bounds(statistics["topic"]) if has_topic else (OFFSETS_TOPIC, OFFSETS_TOPIC)
    times = _bounds(statistics["timestamp"])
    if topic is not None and topic[0] == topic[1] and times is not None:
        latest_ms = _ms(times[1])
        if latest_ms <= LATEST_MS:
            return [latest_ms] if topic[0] in topics and latest_ms >= 0 else []
    table = file.read_row_group(index, columns=["timestamp", *(["topic"] if has_topic else [])])
    if has_topic:
        table = table.filter(pc.is_in(table["topic"], pa.array(sorted(topics), table["topic"].type)))
    at_ms = table["timestamp"]
    if pa.types.is_timestamp(at_ms.type):
        at_ms = at_ms.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
    latest = pc.max(
        at_ms.filter(pc.and_(pc.less_equal(at_ms, LATEST_MS), pc.greater_equal(at_ms, 0)))
    ).as_py()
    return [] if latest is None else [latest]


def _bounds(statistics: Any) -> tuple[Any, Any] | None:
    return (statistics.min, statistics.max) if statistics is not None and statistics.has_min_max else None


def _ms(value: int | datetime) -> int:
    """Other writers store timestamps, in UTC with or without saying so."""
    if isinstance(value, int):
        return value
    at = value.replace(tzinfo=timezone.utc) if value.tzinfo is None else value
    return int(at.timestamp() * 1000)
