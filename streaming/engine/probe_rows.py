"""Messages of ``group-probes`` as rows of the packed schema: for groups, for the job, and its watermark.

Runs in Spark's Python workers and in ``replay``. A message that cannot be read is counted and skipped: other programs
may write to the topic, and nothing in here may raise.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa

from groupreplay.state.job.observations import HeartbeatObservation, ObservationPlace, RoundObservation
from groupreplay.state.snapshot.observations import Probe, ProbedMember
from groupreplay.streaming.contract.probe_messages import (
    DocumentRequest,
    GroupAnswer,
    HeartbeatMessage,
    JobDocumentsRequest,
    ProbeMessage,
    RoundSummary,
    decode_message,
)
from groupreplay.streaming.engine.pack import OUTPUT_SCHEMA
from groupreplay.streaming.engine.wire import (
    BAD_RECORDS_TAG,
    DOCUMENT_WANTED,
    GROUP_TAG,
    HEARTBEAT_TAG,
    JOB_TAG,
    PackedDocumentRequest,
    PackedProbe,
    to_wire,
)

log = logging.getLogger(__name__)

#: The columns that ``pack_probes`` reads, with the types of Spark's Kafka source.
INPUT_COLUMNS: Final = ("partition", "offset", "key", "value")

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
    """Packs messages into rows of ``pack.OUTPUT_SCHEMA``, in their order.

    The caught-up time reaches every group with the watermark, one batch later. Groups with an answer in the batch are
    rebalancing and get it at once, as a last row of each, and so do groups whose document is asked for: for that one
    call must see all messages of a batch.
    """
    answered: set[bytes] = set()
    caught_up_us: int | None = None
    for batch in batches:
        rows: list[_Row] = []
        unread = 0
        for partition, offset, key, value in zip(
            *(batch[name].to_pylist() for name in INPUT_COLUMNS), strict=True
        ):
            message = decode_message(key, value)
            if message is None:
                unread += 1
            elif message.cluster_id == probe_filter.cluster_id:
                rows += _rows(message, ObservationPlace(probe_filter.topic, partition, offset), probe_filter)
        if unread:
            log.warning(
                "%d messages of topic %s were not written by groupreplay and were skipped",
                unread,
                probe_filter.topic,
            )
        for row_key, _, row_caught_up_us in rows:
            if row_key.startswith(GROUP_TAG):
                answered.add(row_key)
            elif row_caught_up_us is not None:
                caught_up_us = max(row_caught_up_us, caught_up_us or 0)
        yield _batch(rows)
    if caught_up_us is not None and answered:
        yield _batch([(key, None, caught_up_us) for key in sorted(answered)])


def _rows(message: ProbeMessage, place: ObservationPlace, probe_filter: ProbeFilter) -> list[_Row]:
    if isinstance(message, GroupAnswer):
        return [(GROUP_TAG + message.group_id.encode(), to_wire(PackedProbe(_probe(message, place))), None)]
    if isinstance(message, RoundSummary):
        return [(JOB_TAG, to_wire(_round(message, place)), None)]
    if isinstance(message, DocumentRequest | JobDocumentsRequest):
        return _request_rows(message) if message.run_id == probe_filter.run_id else []
    rows: list[_Row] = []
    if probe_filter.job_id in (None, message.job_id):
        rows.append((JOB_TAG, to_wire(_beat(message, place)), None))
    if probe_filter.run_id == message.run_id:
        caught_up_us = None if message.caught_up_ms is None else 1_000 * message.caught_up_ms
        rows.append((HEARTBEAT_TAG, None, caught_up_us))
    return rows


def _request_rows(message: DocumentRequest | JobDocumentsRequest) -> list[_Row]:
    if isinstance(message, DocumentRequest):
        packed = to_wire(PackedDocumentRequest(message.in_topic))
        return [(GROUP_TAG + message.group_id.encode(), packed, None)]
    partitions = [BAD_RECORDS_TAG + str(number).encode() for number in range(message.partitions)]
    return [(key, DOCUMENT_WANTED, None) for key in (JOB_TAG, *partitions)]


def _beat(message: HeartbeatMessage, place: ObservationPlace) -> HeartbeatObservation:
    return HeartbeatObservation(
        message.at_ms,
        place,
        message.caught_up_ms,
        message.run_id,
        message.unmissed_expired,
        message.dead_letters,
        message.quarantined,
        message.release,
        message.retries,
    )


def _probe(message: GroupAnswer, place: ObservationPlace) -> Probe:
    return Probe(
        taken_ms=message.taken_ms,
        state=message.state,
        topic=place.topic,
        partition=place.partition,
        offset=place.offset,
        broker=message.broker,
        members=tuple(
            ProbedMember(one.member_id, one.instance_id, one.client_id, one.client_host)
            for one in message.members
        ),
        interval_ms=message.interval_ms,
        unseen_ms=message.interval_ms if message.unseen_ms is None else message.unseen_ms,
    )


def _round(message: RoundSummary, place: ObservationPlace) -> RoundObservation:
    return RoundObservation(
        taken_ms=message.taken_ms,
        place=place,
        brokers=message.brokers,
        rights=message.rights,
        partitions=message.partitions,
        partition_count=message.partition_count,
    )


def _batch(rows: Sequence[_Row]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    arrays = [pa.array(values, kind.type) for values, kind in zip(columns, OUTPUT_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=OUTPUT_SCHEMA)
