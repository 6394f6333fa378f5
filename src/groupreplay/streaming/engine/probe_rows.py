"""Messages of ``group-probes`` as rows of the packed schema: for groups, for the job, and its watermark.

Runs in Spark's Python workers and in ``replay``. A message that cannot be read is counted and skipped: other programs
may write to the topic, and nothing in here may raise.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa

from groupreplay.state.job.observations import (
    JobObservation,
    ObservationPlace,
)
from groupreplay.state.phrases import counted
from groupreplay.state.snapshot.observations import Probe, ProbeAnswer
from groupreplay.streaming.contract.probe_messages import (
    DocumentRequest,
    GroupAnswer,
    GroupRecords,
    HeartbeatMessage,
    JobDocumentsRequest,
    ProbeMessage,
    decode_message,
)
from groupreplay.streaming.engine.packing.pack import OUTPUT_SCHEMA
from groupreplay.streaming.engine.wire import (
    BAD_RECORDS_TAG,
    DOCUMENT_WANTED,
    GROUP_TAG,
    HEARTBEAT_TAG,
    JOB_TAG,
    PackedDocumentRequest,
    PackedProbe,
    are_records,
    to_wire,
)

log = logging.getLogger(__name__)

#: The columns that ``pack_probes`` reads; ``timestamp`` in milliseconds, the others as in Spark's Kafka source.
INPUT_COLUMNS: Final = ("partition", "offset", "timestamp", "timestampType", "key", "value")
UNREADABLE: Final = "probes_unreadable"
MISDATED: Final = "probes_misdated"
#: Counts of messages that were left out: those of other programs, and those dated ahead of their append time.
COUNTS: Final = (UNREADABLE, MISDATED)
#: The rows that ``pack_probes`` writes: the first row of each batch also has the counts.
PROBES_SCHEMA: Final = functools.reduce(
    pa.Schema.append, (pa.field(name, pa.int64()) for name in COUNTS), OUTPUT_SCHEMA
)
#: Kafka's number for a timestamp that the broker has set.
_LOG_APPEND_TIME: Final = 1
#: A message may be dated this far ahead of its append time: clocks differ, also when nothing is wrong.
_MOST_AHEAD_MS: Final = 60_000

#: Key, packed, and the caught-up time in microseconds.
_Row: TypeAlias = tuple[bytes, bytes | None, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeFilter:
    """Which messages are used: answers about one cluster, and the heartbeats of one job there.

    ``job_id`` None: the heartbeats of any job. ``run_id`` None: no watermark and no requests (``replay``). The
    caught-up time and the requests of another run do not apply to this one.
    """

    topic: str
    cluster_id: str
    job_id: str | None = None
    run_id: str | None = None


def pack_probes(batches: Iterable[pa.RecordBatch], probe_filter: ProbeFilter) -> Iterator[pa.RecordBatch]:
    """Packs messages into rows of ``PROBES_SCHEMA``, in their order.

    A message is left out if it is dated more than a minute ahead of its append time. Where the topic has no append
    times (``CreateTime``), nothing is known about that.

    The caught-up time reaches every group with the watermark, one batch later. Groups with an answer in the batch are
    rebalancing and get it at once, as a last row of each, and so do groups whose document is asked for: for that one
    call must see all messages of a batch.
    """
    answered: set[bytes] = set()
    caught_up_us: int | None = None
    for batch in batches:
        rows: list[_Row] = []
        counts = dict.fromkeys(COUNTS, 0)
        for message, place, append_ms in placed_messages(batch, probe_filter.topic):
            if message is None:
                counts[UNREADABLE] += 1
            elif message.cluster_id != probe_filter.cluster_id:
                continue
            elif _is_ahead(message, append_ms):
                counts[MISDATED] += 1
            else:
                rows += _rows(message, place, append_ms, probe_filter)
        _log_counts(counts, probe_filter.topic)
        for row_key, _, row_caught_up_us in rows:
            if row_key.startswith(GROUP_TAG):
                answered.add(row_key)
            elif row_caught_up_us is not None:
                caught_up_us = max(row_caught_up_us, caught_up_us or 0)
        yield _batch(rows, counts)
    if caught_up_us is not None and answered:
        yield _batch([(key, None, caught_up_us) for key in sorted(answered)], {})


def placed_messages(
    batch: pa.RecordBatch, topic: str
) -> Iterator[tuple[ProbeMessage | None, ObservationPlace, int | None]]:
    """Each message of a batch with ``INPUT_COLUMNS`` (None: of another program), its place, and its ``append_time``."""
    columns = (batch[name].to_pylist() for name in INPUT_COLUMNS)
    for partition, offset, timestamp_ms, kind, key, value in zip(*columns, strict=True):
        place = ObservationPlace(topic, partition, offset)
        yield decode_message(key, value), place, append_time(timestamp_ms, kind)


def append_time(timestamp_ms: int, kind: int) -> int | None:
    """When the broker appended a message; ``kind`` is its ``timestampType``. None: the client has dated it."""
    return timestamp_ms if kind == _LOG_APPEND_TIME else None


def _is_ahead(message: ProbeMessage, append_ms: int | None) -> bool:
    dated_ms = message.dated_ms
    return append_ms is not None and dated_ms is not None and dated_ms - append_ms > _MOST_AHEAD_MS


def _log_counts(counts: Mapping[str, int], topic: str) -> None:
    if counts[UNREADABLE]:
        log.warning(
            "skipped %s of topic %s, not written by groupreplay",
            counted(counts[UNREADABLE], "message"),
            topic,
        )
    if counts[MISDATED]:
        log.warning(
            "skipped %s of topic %s, dated more than a minute ahead of the append time; "
            "check the clocks of the machines that write there",
            counted(counts[MISDATED], "message"),
            topic,
        )


def _rows(
    message: ProbeMessage, place: ObservationPlace, append_ms: int | None, probe_filter: ProbeFilter
) -> list[_Row]:
    if isinstance(message, DocumentRequest | GroupRecords | JobDocumentsRequest):
        return _request_rows(message) if message.run_id == probe_filter.run_id else []
    rows: list[_Row] = []
    seen = _observation(message, place, append_ms, probe_filter)
    if isinstance(seen, ProbeAnswer):
        rows.append((GROUP_TAG + message.key, to_wire(PackedProbe(seen)), None))
    elif seen is not None:
        rows.append((JOB_TAG, to_wire(seen), None))
    if isinstance(message, HeartbeatMessage) and probe_filter.run_id == message.run_id:
        caught_up_ms = message.caught_up_ms
        if caught_up_ms is not None and append_ms is not None:
            # Spark's watermark never goes back, and nothing written after the message can have been applied before it.
            caught_up_ms = min(caught_up_ms, append_ms)
        rows.append((HEARTBEAT_TAG, None, None if caught_up_ms is None else 1_000 * caught_up_ms))
    return rows


def job_observation(
    message: ProbeMessage | None, place: ObservationPlace, append_ms: int | None, probe_filter: ProbeFilter
) -> JobObservation | None:
    """What the driver itself applies of a message: the same observation that the query gets, or None as there.

    ``append_ms`` is None where the client has dated the message.
    """
    if message is None or message.cluster_id != probe_filter.cluster_id or _is_ahead(message, append_ms):
        return None
    seen = _observation(message, place, append_ms, probe_filter)
    return None if isinstance(seen, ProbeAnswer) else seen


def group_probe(
    message: ProbeMessage | None, place: ObservationPlace, append_ms: int | None, probe_filter: ProbeFilter
) -> Probe | None:
    """The answer about a group that a message has, as the query gets it; None as there.

    ``append_ms`` is None where the client has dated the message.
    """
    if not isinstance(message, GroupAnswer) or message.cluster_id != probe_filter.cluster_id:
        return None
    return None if _is_ahead(message, append_ms) else message.observation(place, append_ms)


def _observation(
    message: ProbeMessage, place: ObservationPlace, append_ms: int | None, probe_filter: ProbeFilter
) -> ProbeAnswer | JobObservation | None:
    """What a message says, but for heartbeats of another job."""
    if isinstance(message, HeartbeatMessage) and probe_filter.job_id not in (None, message.job_id):
        return None
    return message.observation(place, append_ms)


def _request_rows(message: DocumentRequest | GroupRecords | JobDocumentsRequest) -> list[_Row]:
    if isinstance(message, GroupRecords):
        return [(GROUP_TAG + message.key, message.packed, None)] if are_records(message.packed) else []
    if isinstance(message, DocumentRequest):
        return [(GROUP_TAG + message.key, to_wire(PackedDocumentRequest(message.in_topic)), None)]
    partitions = [BAD_RECORDS_TAG + str(number).encode() for number in range(message.partitions)]
    return [(key, DOCUMENT_WANTED, None) for key in (JOB_TAG, *partitions)]


def _batch(rows: Sequence[_Row], counts: Mapping[str, int]) -> pa.RecordBatch:
    if not rows and any(counts.values()):
        rows = [(HEARTBEAT_TAG, None, None)]  # changes nothing, but carries the counts
    padding = [None] * (len(rows) - 1)
    columns = [
        *(zip(*rows, strict=True) if rows else ((), (), ())),
        *([counts.get(name, 0), *padding] if rows else () for name in COUNTS),
    ]
    arrays = [pa.array(values, kind.type) for values, kind in zip(columns, PROBES_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=PROBES_SCHEMA)
