"""Events, documents and dead letters as messages in JSON: the encoding of everything that the job writes to its sink.

No other module turns them into bytes. Another encoding is one more module with these functions.
"""

from __future__ import annotations

import hashlib
import logging
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from groupreplay.state import Deleted
from groupreplay.state.events.event import Event, Severity
from groupreplay.state.job.bad_records import BadRecord
from groupreplay.state.output.document import encode_document
from groupreplay.state.output.envelope import CloudEvent, cloud_event, fit_json
from groupreplay.state.policy.context import OFFSETS_TOPIC, Context, redacted
from groupreplay.state.snapshot.observations import Extent
from groupreplay.streaming.contract.messages import (
    CONDITIONS_KEY,
    JOB_KEY,
    OWNER_KEY,
    RESERVED,
    STATE_KEY,
    BadRecordCounts,
    JobConditions,
    JobDocument,
    JobStateMessage,
    KindCount,
    Output,
    OutputRow,
    OwnerClaim,
    bad_records_key,
)
from groupreplay.streaming.engine.wire import BadRecordBytes

#: Codec errors quote a few bytes at most; this bounds what a future one might quote.
_REASON_LIMIT: Final = 1_000
#: Characters of base64 that a shortened dead letter keeps of key and value; multiples of four.
_EXCERPTS: Final = (32_768, 8_192, 2_048, 512, 0)
_GROUP_LIMIT: Final = 256


def event_row(event: Event, context: Context, recorded_ms: int | None) -> OutputRow:
    """The message of an event; ``recorded_ms`` None stands for the time of the event itself."""
    message = cloud_event(event, context, event.time_ms if recorded_ms is None else recorded_ms)
    return OutputRow(
        Output.EVENTS, _event_key(event), message.value, message.headers, message.type, int(message.severity)
    )


def incident_row(value: bytes) -> OutputRow:
    """The message of an event about an incident across groups, which another process has made."""
    event = msgspec.json.decode(value, type=_Attributes)
    headers = CloudEvent(**msgspec.structs.asdict(event), severity=Severity.INFO, value=value).headers
    return OutputRow(Output.EVENTS, JOB_KEY, value, headers)


class _Attributes(msgspec.Struct):
    id: str
    type: str
    source: str
    subject: str
    time: str


def state_row(group_id: str, document: dict[str, Any] | Deleted, context: Context) -> OutputRow:
    """The document of a group, or the tombstone of a deleted group."""
    value = None if isinstance(document, Deleted) else encode_document(redacted(document, context.redaction))
    return OutputRow(Output.STATES, group_id.encode(), value)


def conditions_row(conditions: list[dict[str, Any]], context: Context) -> OutputRow:
    """The active conditions of the job."""
    value = JobConditions(context.cluster_id, conditions)
    return OutputRow(Output.JOB, CONDITIONS_KEY, msgspec.json.encode(value))


def job_state_row(state: bytes, context: Context) -> OutputRow:
    """The state of the job's conditions, for the driver."""
    value = JobStateMessage(
        cluster_id=context.cluster_id, job_id=context.job_id, era=context.era, state=state
    )
    return OutputRow(Output.JOB, STATE_KEY, msgspec.json.encode(value))


def bad_records_row(partition: int, counts: Sequence[dict[str, object]], context: Context) -> OutputRow:
    """How many records of one partition could not be used, ever."""
    value = BadRecordCounts(context.cluster_id, partition, msgspec.convert(counts, list[KindCount]))
    return OutputRow(Output.JOB, bad_records_key(OFFSETS_TOPIC, partition), msgspec.json.encode(value))


def job_row(document: JobDocument, limit: int | None = None) -> OutputRow:
    """The status of the job; with a ``limit``, which the topic demands, lists and texts are cut."""
    value = msgspec.json.encode(document)
    if limit is not None and len(value) > limit:
        value = fit_json(msgspec.to_builtins(document), limit)
    return OutputRow(Output.JOB, JOB_KEY, value)


def claim_row(claim: OwnerClaim) -> OutputRow:
    """The claim of a run to the job's topics."""
    return OutputRow(Output.JOB, OWNER_KEY, msgspec.json.encode(claim))


def dead_letter_row(bad: BadRecordBytes, context: Context) -> OutputRow:
    """A record that could not be used.

    The key is ``topic-partition-offset``, so that a repeat has the key of the first message. ``*_base64`` hold the
    first bytes, at most 64 KiB; ``*_length`` and ``*_sha256`` describe all bytes. A redaction hides the bytes, in which
    client ids and hosts may stand anywhere, and keys the hashes.
    """
    redaction = context.redaction
    if redaction is not None:
        bad = msgspec.structs.replace(
            bad,
            key=None,
            value=None,
            key_sha256=bad.key_sha256 and redaction.digest(bad.key_sha256, 32),
            value_sha256=bad.value_sha256 and redaction.digest(bad.value_sha256, 32),
        )
    # msgspec writes bytes as base64.
    return _letter_row(
        bad.record,
        context,
        key_length=bad.key_length,
        key_sha256=bad.key_sha256,
        key_base64=bad.key,
        value_length=bad.value_length,
        value_sha256=bad.value_sha256,
        value_base64=bad.value,
    )


def commits_letter_row(first: BadRecord, extent: Extent, context: Context) -> OutputRow:
    """Commits that could not be used, as a range of offsets: ``pack`` does not keep their bytes."""
    return _letter_row(first, context, last_offset=extent.last_offset, commits=extent.commits)


def unfit_letter_row(row: OutputRow, limit: int, context: Context) -> OutputRow:
    """In place of a message that its topic would refuse and that cannot be shortened enough.

    ``topic`` is null, and ``output`` names the topic by its flag. With a redaction it has no bytes.
    """
    value = row.value or b""
    shown = context.redaction is None
    letter = {
        "cluster_id": context.cluster_id,
        "topic": None,
        "output": row.output.value,
        "era": context.era,
        "partition": None,
        "offset": None,
        "timestamp_ms": None,
        "group_id": row.key.decode("utf-8", "replace")[:_GROUP_LIMIT],
        "kind": "too_large",
        "key_type": None,
        "version": None,
        "field": None,
        "byte_position": None,
        "reason": f"a message of {len(row.key) + len(value)} bytes cannot be shortened to {limit}",
        "key_length": len(row.key),
        "key_sha256": hashlib.sha256(row.key).hexdigest() if shown else None,
        "key_base64": b64encode(row.key[: _EXCERPTS[0]]).decode() if shown else None,
        "value_length": None if row.value is None else len(value),
        "value_sha256": hashlib.sha256(value).hexdigest() if shown and value else None,
        "value_base64": b64encode(value[: _EXCERPTS[0]]).decode() if shown and value else None,
    }
    # The id of an event is in a header: a repeat has the same key.
    what = row.key + dict(row.headers).get("ce_id", b"")
    key = f"{row.output.value}-{hashlib.sha256(what).hexdigest()[:32]}".encode()
    return OutputRow(Output.DEAD_LETTERS, key, msgspec.json.encode(letter))


def shortened(row: OutputRow, limit: int, size: Callable[[OutputRow], int]) -> OutputRow | None:
    """The message with ``truncated: true``, as far as it can be cut; None for a tombstone. Ids stay as they are."""
    if row.value is None:
        return None
    document = msgspec.json.decode(row.value)
    room = limit - size(replace(row, value=b""))
    if row.output is Output.DEAD_LETTERS:
        for characters in _EXCERPTS:
            value = msgspec.json.encode(_letter_excerpt(document, characters))
            if len(value) <= room:
                return replace(row, value=value)
        document = _letter_excerpt(document, 0)
    inner = "data" if row.output is Output.EVENTS else None
    return replace(row, value=fit_json(document, room, inner))


def _letter_excerpt(letter: dict[str, Any], characters: int) -> dict[str, Any]:
    excerpts = {
        name: text[:characters] or None
        for name in ("key_base64", "value_base64")
        if (text := letter.get(name)) is not None
    }
    return {**letter, **excerpts, "truncated": True}


def _letter_row(record: BadRecord, context: Context, **fields: object) -> OutputRow:
    letter = {
        "cluster_id": context.cluster_id,
        "topic": OFFSETS_TOPIC,
        "era": context.era,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "group_id": record.group,
        "kind": record.kind,
        "key_type": record.key_type,
        "version": record.version,
        "field": record.field and record.field[:_REASON_LIMIT],
        "byte_position": record.byte_position,
        "reason": record.reason[:_REASON_LIMIT],
        **fields,
    }
    key = f"{OFFSETS_TOPIC}-{record.partition}-{record.offset}".encode()
    return OutputRow(Output.DEAD_LETTERS, key, msgspec.json.encode(letter))


def _event_key(event: Event) -> bytes:
    if event.group_id is not None:
        return event.group_id.encode()
    # Records whose key cannot be read have no group; the key of their partition keeps them in order.
    in_log = event.cause is not None and event.cause.topic == OFFSETS_TOPIC
    place = f"{OFFSETS_TOPIC}-{event.cause.partition}" if event.cause and in_log else "job"
    return RESERVED + place.encode()


log = logging.getLogger(__name__)

#: What a batch of one message adds: 61 bytes, and the lengths in the message.
_BATCH_BYTES: Final = 100
#: Lengths of the name and the value of a header.
_HEADER_BYTES: Final = 6


def message_bytes(row: OutputRow) -> int:
    """An upper bound of what a broker counts for the message."""
    headers = sum(len(name) + len(value) + _HEADER_BYTES for name, value in row.headers)
    return _BATCH_BYTES + len(row.key) + len(row.value or b"") + headers


def fit_rows(
    rows: Sequence[OutputRow], limits: Mapping[str, int], context: Context
) -> tuple[Sequence[OutputRow], int]:
    """The rows with those that are too large replaced, and the number of those that nothing could be written of.

    ``limits`` by the values of ``Output``; outputs without one are not limited.
    """
    if not limits or all(message_bytes(row) <= limits.get(row.output.value, _NO_LIMIT) for row in rows):
        return rows, 0
    fitting = [_fitting(row, limits, context) for row in rows]
    return [row for row in fitting if row is not None], fitting.count(None)


_NO_LIMIT: Final = 1 << 62


def _fitting(row: OutputRow, limits: Mapping[str, int], context: Context) -> OutputRow | None:
    limit = limits.get(row.output.value, _NO_LIMIT)
    smaller = _within(row, limit)
    if smaller is None and row.output is not Output.DEAD_LETTERS:
        letter = unfit_letter_row(row, limit, context)
        smaller = _within(letter, limits.get(letter.output.value, _NO_LIMIT))
    if smaller is None:
        log.error(
            "a message of %d bytes for %s is not written: %d are allowed, and a dead letter does not fit either",
            message_bytes(row),
            row.output.value,
            limit,
        )
    return smaller


def _within(row: OutputRow, limit: int) -> OutputRow | None:
    if message_bytes(row) <= limit:
        return row
    smaller = shortened(row, limit, message_bytes)
    return None if smaller is None or message_bytes(smaller) > limit else smaller
