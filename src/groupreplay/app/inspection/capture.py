"""Copies the topics of a live cluster into a capture file, with what replay must know."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaException

from groupreplay.codecs import decode_key
from groupreplay.codecs.consumer import ConsumerGroupMetadataKey
from groupreplay.codecs.share import ShareGroupMetadataKey
from groupreplay.codecs.streams import StreamsGroupMetadataKey
from groupreplay.state import OFFSETS_TOPIC
from groupreplay.streaming.base.clock import now_ms
from groupreplay.streaming.base.errors import GroupReplayError
from groupreplay.streaming.base.files import require_new
from groupreplay.streaming.base.process import stop_requests
from groupreplay.streaming.config.settings import Cluster, RetentionFlags
from groupreplay.streaming.contract.log import ProgressCallback, no_progress
from groupreplay.streaming.kafka.broker_config import effective_retention, known_release
from groupreplay.streaming.kafka.clients import Connection
from groupreplay.streaming.kafka.group_admin import GroupAdmin
from groupreplay.streaming.kafka.topic_reader import follow_topic
from groupreplay.streaming.sources.capture import CaptureWriter
from groupreplay.streaming.sources.capture_context import (
    CaptureContext,
)
from groupreplay.streaming.sources.source import Rows
from groupreplay.streaming.sources.topic import Probes, ProbesPlace, open_probes, read_topic
from groupreplay.version import __version__

log = logging.getLogger(__name__)
#: The keys of the records with the epoch of a group of the newer kinds, and the first two bytes of each.
_EPOCH_KEYS: Final = (ConsumerGroupMetadataKey, ShareGroupMetadataKey, StreamsGroupMetadataKey)
_EPOCH_TYPES: Final = tuple(key.KEY_TYPE.to_bytes(2, "big") for key in _EPOCH_KEYS)
#: How long the last answers and the end of the file may take after a signal: what was copied cannot be copied again.
_FILE_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturePlan:
    """What to capture, and where to: ``follow_seconds`` after the copy with new records."""

    cluster: Cluster
    path: Path
    probes: ProbesPlace | None = None
    follow_seconds: float = 0
    force: bool = False


def capture(
    plan: CapturePlan,
    *,
    progress: ProgressCallback = no_progress,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Copy the topic up to its current end, then new records for some time; returns the number of records.

    Also copies the probes topic, if there is one, and what the cluster says about retention, release, topic and
    groups. A signal while following ends the copy early and keeps the records; before that it leaves no file.

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
        groups = set[str]()
        _write(writer, chain(_noting(rows.batches, groups), observed.batches if observed else ()))
        if plan.follow_seconds:
            deadline = clock() + plan.follow_seconds
            with stop_requests(_FILE_SECONDS) as stop:
                later = follow_topic(
                    connection, OFFSETS_TOPIC, rows.ends, lambda: stop.made or clock() >= deadline
                )
                _write(writer, _noting(later, groups), progress)
                if not stop.made:  # when the last answer of the brokers came is not known then
                    writer.context = msgspec.structs.replace(context, complete_ms=now_ms())
                _write(writer, observed.since() if observed else ())
                writer.topic_names.update(connection.topic_names())
        writer.context = _with_settings(writer.context or context, connection, groups)
    return writer.rows


def _write(
    writer: CaptureWriter, batches: Iterable[pa.RecordBatch], progress: ProgressCallback = no_progress
) -> None:
    for batch in batches:
        writer.write(batch)
        progress(writer.rows, None)


def _noting(batches: Iterable[pa.RecordBatch], groups: set[str]) -> Iterator[pa.RecordBatch]:
    """The same batches; adds the groups of the newer kinds in them."""
    for batch in batches:
        groups |= _newer_groups(batch)
        yield batch


def _newer_groups(batch: pa.RecordBatch) -> set[str]:
    """The groups of the newer kinds in these rows, by the keys of their epochs."""
    types = pc.binary_slice(batch["key"], 0, 2)
    keys = batch["key"].filter(pc.is_in(types, pa.array(_EPOCH_TYPES, pa.binary()))).unique()
    return {key.group for key in map(decode_key, keys.to_pylist()) if isinstance(key, _EPOCH_KEYS)}


def _with_settings(context: CaptureContext, connection: Connection, groups: set[str]) -> CaptureContext:
    """The context with what these groups have set for themselves, if that is known of each."""
    own = GroupAdmin(connection).own_settings(groups)
    if own.keys() != groups:
        return context
    settings = {group: settings for group, settings in own.items() if settings}
    return msgspec.structs.replace(context, group_settings=settings)


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
