"""The time of the last record of captures, without reading their records.

Ages and times of day in flags count back from it, so it must be known before the first record is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa

from groupreplay.app.inspection.capture_files.columns import as_type, is_one_of
from groupreplay.app.inspection.capture_files.log_order import OpenedFile, open_capture, reading_capture
from groupreplay.app.inspection.capture_files.places import capture_places
from groupreplay.state import OFFSETS_TOPIC
from groupreplay.state.plausible_times import LATEST_MS
from groupreplay.streaming.kafka.topic_reader import plausible_bounds


def last_record_ms(
    paths: Iterable[Path], probes_topic: str, columns: Mapping[str, str] | None = None
) -> int | None:
    """The latest time of a record of the log or of the probes, in milliseconds since 1970; None without records.

    Times that cannot be (``plausible_times``) do not count. It reads the statistics of the row groups, and the columns
    ``timestamp`` and ``topic`` of those without. ``columns``: see ``read_captures``.

    Raises:
        GroupReplayError: a file is missing, not a capture or damaged.
    """
    topics = frozenset({OFFSETS_TOPIC, probes_topic})
    times = list[int]()
    for place in capture_places(paths):
        opened = open_capture(place, columns or {})
        with reading_capture(opened.path):
            for index in range(opened.file.num_row_groups):
                times += _latest(opened, index, topics)
    return max(times, default=None)


def _latest(opened: OpenedFile, index: int, topics: Collection[str]) -> list[int]:
    """The latest time of a row group in a list, or nothing."""
    group = opened.file.metadata.row_group(index)
    stored, constants = opened.layout.stored, opened.layout.constants
    statistics = {
        column.path_in_schema: column.statistics for column in map(group.column, range(group.num_columns))
    }
    topic = (constants["topic"],) * 2 if "topic" in constants else _bounds(statistics[stored["topic"]])
    times = _bounds(statistics[stored["timestamp"]])
    if topic is not None and topic[0] == topic[1] and times is not None:
        latest_ms = _ms(times[1])
        if latest_ms <= LATEST_MS:
            return [latest_ms] if topic[0] in topics and latest_ms >= 0 else []
    latest = None
    wanted = [name for name in ("timestamp", "topic") if name in stored]
    for batch in opened.file.iter_batches(row_groups=[index], columns=[stored[name] for name in wanted]):
        table = pa.Table.from_batches([batch]).rename_columns(
            [next(name for name in wanted if stored[name] == column) for column in batch.schema.names]
        )
        at_ms = as_type(table["timestamp"], pa.int64())
        if "topic" not in constants:
            at_ms = at_ms.filter(is_one_of(table["topic"], topics))
        elif constants["topic"] not in topics:
            return []
        if (bounds := plausible_bounds(at_ms)) is not None:
            latest = bounds[1] if latest is None else max(latest, bounds[1])
    return [] if latest is None else [latest]


def _bounds(statistics: Any) -> tuple[Any, Any] | None:
    return (statistics.min, statistics.max) if statistics is not None and statistics.has_min_max else None


def _ms(value: int | datetime) -> int:
    """Other writers store timestamps, in UTC with or without saying so."""
    if isinstance(value, int):
        return value
    at = value.replace(tzinfo=timezone.utc) if value.tzinfo is None else value
    return int(at.timestamp() * 1000)
