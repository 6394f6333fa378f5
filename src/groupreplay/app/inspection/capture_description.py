"""Describes a capture: what it knows of its cluster, and how far back each partition reaches. Needs no Kafka client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

import msgspec

from groupreplay.app.text.tables import Table, moment
from groupreplay.state.phrases import data_size, timestamp
from groupreplay.streaming.contract.log import ProgressCallback, no_progress
from groupreplay.streaming.sources.capture import read_captures
from groupreplay.streaming.sources.capture_columns import capture_places
from groupreplay.streaming.sources.capture_context import (
    CaptureContext,
    ExtentCounter,
    PartitionExtent,
    decoded_context,
    latest_context,
)
from groupreplay.streaming.sources.capture_order import open_capture

#: The settings of a topic that decide how far back it reaches.
_REACH: Final = (
    "cleanup.policy",
    "delete.retention.ms",
    "min.compaction.lag.ms",
    "max.compaction.lag.ms",
    "min.cleanable.dirty.ratio",
    "segment.bytes",
    "segment.ms",
    "retention.ms",
)
_UNKNOWN: Final = "not known"
_PROBES: Final = "group-probes"


class CaptureDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A capture without its records; ``context`` is None in files of other writers. Sizes in bytes."""

    files: int
    bytes: int
    cluster_id: str
    topic_id: str
    context: CaptureContext | None
    extents: Sequence[PartitionExtent]
    topic_names: Mapping[str, str]

    def rows(self) -> list[tuple[str, str]]:
        """What is known, as names and values for the terminal."""
        known = self.context or CaptureContext()
        log = [one for one in self.extents if one.topic != (known.probes or _PROBES)]
        probes = [one for one in self.extents if one.topic == (known.probes or _PROBES)]
        settings = [f"{name}={known.topic_settings[name]}" for name in _REACH if name in known.topic_settings]
        missing = sum(one.missing for one in log)
        return [
            ("files", f"{self.files} ({data_size(self.bytes)})"),
            ("written by", f"{known.tool}, {known.command}" if known.tool else _UNKNOWN),
            ("begun", _time(known.begun_ms)),
            ("log complete up to", _time(known.complete_ms)),
            ("cluster", self.cluster_id),
            ("brokers", known.brokers or _UNKNOWN),
            ("offsets.retention.minutes", _minutes(known.retention_ms)),
            ("offsets.retention.check.interval.ms", _number(known.check_interval_ms)),
            ("id of __consumer_offsets", self.topic_id),
            ("partitions of __consumer_offsets", _number(known.partitions)),
            ("settings of __consumer_offsets", ", ".join(settings) or _UNKNOWN),
            ("records", f"{sum(one.records for one in log):,} in {len(log)} partitions"),
            ("first and last record", _span(log)),
            ("offsets without a record", f"{missing:,} (removed by compaction, or of transactions)"),
            ("answers of the prober", f"{sum(one.records for one in probes):,}"),
            ("first and last answer", _span(probes)),
            ("names of topics", f"{len(self.topic_names):,}"),
        ]

    def extents_table(self) -> Table:
        """How far back each partition reaches."""
        columns = ("TOPIC", "PARTITION", "RECORDS", "LOG-START", "FIRST", "LAST", "LOG-END", "SINCE", "UNTIL")
        rows = [
            (
                *(one.topic, one.partition, one.records, one.log_start, one.first_offset, one.last_offset),
                *(one.log_end, moment(one.first_ms), moment(one.last_ms), one.missing, one.compacted),
            )
            for one in self.extents
        ]
        return Table((*columns, "MISSING", "COMPACTED"), rows)


def describe_capture(
    path: Path, columns: Mapping[str, str] | None = None, progress: ProgressCallback = no_progress
) -> CaptureDescription:
    """What the metadata of a capture, or of a folder of them, says; the records are read if it does not count them.

    Raises:
        GroupReplayError: a file is missing, not a capture or damaged, or the captures do not belong together.
    """
    opened = [open_capture(place, columns or {}) for place in capture_places([path])]
    contexts = [decoded_context(file.metadata) for file in opened]
    context = latest_context(contexts)
    probes = _PROBES if context is None or context.probes is None else context.probes
    rows = read_captures([path], probes_topic=probes, columns=columns, progress=progress)
    extents = () if context is None or None in contexts else context.extents
    if not extents:
        counter = ExtentCounter()
        for batch in chain(rows.probes, rows.batches):
            counter.add(batch)
        extents = counter.extents()
    return CaptureDescription(
        files=len(opened),
        bytes=sum(file.path.stat().st_size for file in opened),
        cluster_id=rows.cluster_id,
        topic_id=rows.era,
        context=None if context is None else msgspec.structs.replace(context, extents=()),
        extents=extents,
        topic_names=rows.topic_names,
    )


def _time(at_ms: int | None) -> str:
    return _UNKNOWN if at_ms is None else timestamp(at_ms)


def _number(value: int | None) -> str:
    return _UNKNOWN if value is None else str(value)


def _minutes(value_ms: int | None) -> str:
    return _UNKNOWN if value_ms is None else f"{value_ms // 60_000} ({value_ms / 86_400_000:.3g} days)"


def _span(extents: Sequence[PartitionExtent]) -> str:
    first = min((one.first_ms for one in extents if one.first_ms is not None), default=None)
    last = max((one.last_ms for one in extents if one.last_ms is not None), default=None)
    return "none" if first is None or last is None else f"{timestamp(first)} to {timestamp(last)}"
