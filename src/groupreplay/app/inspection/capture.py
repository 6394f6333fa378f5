"""Copies the topics of a live cluster into a capture file, with what replay must know."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
from confluent_kafka import KafkaException

from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.base.files import require_new
from groupreplay.streaming.base.process import stop_requests
from groupreplay.streaming.config.settings import Cluster, RetentionFlags
from groupreplay.streaming.contract.log import ProgressCallback, no_progress
from groupreplay.streaming.kafka.broker_config import effective_retention, known_release
from groupreplay.streaming.kafka.topic_reader import follow_topic
from groupreplay.streaming.sources.capture import CaptureWriter
from groupreplay.streaming.sources.capture_context import (
    CaptureContext,
)
from groupreplay.streaming.sources.source import Rows
from groupreplay.streaming.sources.topic import Probes, ProbesPlace, open_probes, read_topic
from groupreplay.version import __version__

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturePlan:
    """What to capture, and where to: ``follow_seconds`` after the copy with new records."""

    cluster: Cluster
    path: Path
    probes: ProbesPlace | None = None
    follow_seconds: float = 0
    force: bool = False


#: How long the last answers and the end of the file may take after a signal: what was copied cannot be copied again.
_FILE_SECONDS: Final = 30.0


def capture(
    plan: CapturePlan,
    *,
    progress: ProgressCallback = no_progress,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Copy the topic up to its current end, then new records for some time; returns the number of records.

    Also copies the probes topic, if there is one, and what the cluster says about retention, release and topic. A
    signal while following ends the copy early and keeps the records; before that it leaves no file.

    Raises:
        GroupReplayError: the cluster cannot be read, or the file exists or cannot be written.
    """
    require_new([plan.path], force=plan.force)
    rows = read_topic(plan.cluster, progress=progress)
    connection = rows.connection
    assert connection is not None
    observed = None if plan.probes is None else open_probes(plan.probes)
    context = _context(rows, observed)
    with CaptureWriter(
        plan.path, cluster_id=rows.cluster_id, era=rows.era, context=context, force=plan.force
    ) as writer:
        writer.note_bounds(OFFSETS_TOPIC, rows.starts, rows.ends)
        writer.topic_names.update(connection.topic_names())
        for batch in chain(rows.batches, observed.batches if observed else ()):
            writer.write(batch)
        if plan.follow_seconds:
            deadline = clock() + plan.follow_seconds
            with stop_requests(_FILE_SECONDS) as stop:
                later = follow_topic(
                    connection, OFFSETS_TOPIC, rows.ends, lambda: stop.made or clock() >= deadline
                )
                _follow(writer, later, progress)
                if not stop.made:  # when the last answer of the brokers came is not known then
                    writer.context = msgspec.structs.replace(context, complete_ms=now_ms())
                for batch in observed.since() if observed else ():
                    writer.write(batch)
                writer.topic_names.update(connection.topic_names())
    return writer.rows


def _follow(writer: CaptureWriter, batches: Iterable[pa.RecordBatch], progress: ProgressCallback) -> None:
    for batch in batches:
        writer.write(batch)
        progress(writer.rows, None)


def _context(rows: Rows, observed: Probes | None) -> CaptureContext:
    """What the cluster says about itself; what this login may not ask for is left out."""
    assert rows.connection is not None
    retention = effective_retention(RetentionFlags(), rows.connection)
    settings = dict[str, str]()
    try:
        settings = rows.connection.topic_settings(OFFSETS_TOPIC)
    except (KafkaException, GroupReplayError) as error:
        log.debug("the configuration of %s cannot be read: %s", OFFSETS_TOPIC, error)
    return CaptureContext(
        tool=f"groupreplay {__version__}",
        command="capture",
        begun_ms=rows.complete_ms,
        complete_ms=rows.complete_ms,
        brokers=known_release(rows.connection),
        retention_ms=retention.retention_ms,
        check_interval_ms=retention.check_interval_ms,
        sessions={kind: settings[:3] for kind, settings in retention.sessions.items()},
        partitions=rows.partitions,
        topic_settings=dict(sorted(settings.items())),
        probes=None if observed is None else observed.topic,
    )
