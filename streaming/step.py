"""One call for one key: load, apply, expire, store, re-arm, say; the same for Spark and for ``replay``.

Knows the kinds of key and Spark's rules for state and timers; must not know what happens to a group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from groupreplay.state import Deleted, Group
from groupreplay.state.bad_records import BadRecords
from groupreplay.state.context import OFFSETS_TOPIC, Context
from groupreplay.state.document import encode_document
from groupreplay.state.envelope import cloud_event
from groupreplay.state.events import Event
from groupreplay.state.job_watch import JobWatch
from groupreplay.state.redaction import redacted
from groupreplay.streaming.dead_letters import dead_letter, dead_letter_key
from groupreplay.streaming.packing import (
    BAD_RECORDS_TAG,
    GROUP_TAG,
    JOB_TAG,
    unpack_bad_records,
    unpack_group,
    unpack_job,
)
from groupreplay.streaming.settings import TopicNames

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.state import GroupState

#: Begins the keys of documents that are about no group; a group id cannot begin so.
RESERVED: Final = b"\0"

#: The key in ``group-job`` of the conditions of the job that hold.
CONDITIONS_KEY: Final = RESERVED + b"conditions"

#: The columns that a call yields. ``headers`` is a JSON object of header name to text, or null.
OUTPUT_COLUMNS: Final = ("topic", "key", "value", "headers")
#: Some rows of one key: (``packed``, ``caught_up_ms``).
Chunk = tuple[Sequence[bytes | None], Sequence[int]]
#: One row by ``OUTPUT_COLUMNS``.
OutputCells = tuple[str, bytes, bytes | None, str | None]


class Output(str, Enum):
    """The topics that a call may write to, by their field in ``TopicNames``."""

    EVENTS = "events"
    STATES = "states"
    DEAD_LETTERS = "dead_letters"
    JOB = "job"


@dataclass(frozen=True, slots=True)
class OutputRow:
    """One message for a topic; ``value`` None is a tombstone."""

    output: Output
    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Advance:
    """What one call came to.

    ``blob`` is the state to keep (None: there never was one), ``changed`` that it must be written, ``gone``
    that it may be removed, ``deadline_ms`` when to call again at the latest.
    """

    blob: bytes | None
    changed: bool
    gone: bool
    deadline_ms: int | None
    rows: list[OutputRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What every call needs to know of the job; travels to the workers once.

    ``retry_ms``: how long a timer that is due waits for the caught-up time before it looks again.
    """

    context: Context
    topics: TopicNames
    retry_ms: int = 10_000


def advance(
    key: bytes,
    blob: bytes | None,
    packed: Sequence[bytes],
    *,
    now_ms: int,
    recorded_ms: int | None,
    context: Context,
) -> Advance:
    """Takes what ``pack`` made for one tagged key into the state ``blob``; pure.

    ``now_ms`` is the moment up to which deadlines may be served, 0 for none. ``recorded_ms`` goes into the
    events as the time of their emission; None means the time at which each happened.

    Raises:
        SnapshotError: the blob was written by a release that this one cannot read.
    """
    if key.startswith(GROUP_TAG):
        group_id = key[len(GROUP_TAG) :].decode()
        return _advance_group(group_id, blob, packed, now_ms=now_ms, recorded_ms=recorded_ms, context=context)
    if key.startswith(BAD_RECORDS_TAG):
        partition = int(key[len(BAD_RECORDS_TAG) :])
        return _advance_bad_records(partition, blob, packed, recorded_ms=recorded_ms, context=context)
    if key == JOB_TAG:
        return _advance_job(blob, packed, recorded_ms=recorded_ms, context=context)
    return Advance(blob, changed=False, gone=False, deadline_ms=None, rows=[])


def _advance_group(
    group_id: str,
    blob: bytes | None,
    packed: Sequence[bytes],
    *,
    now_ms: int,
    recorded_ms: int | None,
    context: Context,
) -> Advance:
    group = Group(group_id, context) if blob is None else Group.from_snapshot(group_id, context, blob)
    events = (
        group.apply(unpack_group(packed), now_ms, recorded_ms)
        if packed
        else group.expire(now_ms, recorded_ms)
    )
    rows = [event_row(event, context, recorded_ms) for event in events]
    document = group.take_document()
    if document is not None:
        value = None
        if not isinstance(document, Deleted):
            value = encode_document(redacted(document, context.redaction))
        rows.append(OutputRow(Output.STATES, group_id.encode(), value))
    # Only now: the state remembers which document was taken.
    return Advance(
        group.snapshot() if group.changed else blob,
        changed=group.changed,
        gone=group.gone,
        deadline_ms=group.next_deadline_ms(),
        rows=rows,
    )


def _advance_bad_records(
    partition: int, blob: bytes | None, packed: Sequence[bytes], *, recorded_ms: int | None, context: Context
) -> Advance:
    bad = (
        BadRecords(partition, context) if blob is None else BadRecords.from_snapshot(partition, context, blob)
    )
    letters = [one for one in unpack_bad_records(packed) if one.record.offset > bad.applied_to]
    events = bad.apply([one.record for one in letters])
    rows = [event_row(event, context, recorded_ms) for event in events]
    rows += [
        OutputRow(Output.DEAD_LETTERS, dead_letter_key(one), dead_letter(one, context)) for one in letters
    ]
    if letters:
        name = f"{OFFSETS_TOPIC}-{partition}"
        tally = {"cluster_id": context.cluster_id, "partition": partition, "bad_records": bad.counts()}
        rows.append(OutputRow(Output.JOB, RESERVED + name.encode(), msgspec.json.encode(tally)))
    return Advance(
        bad.snapshot() if bad.changed else blob, changed=bad.changed, gone=False, deadline_ms=None, rows=rows
    )


def _advance_job(
    blob: bytes | None, packed: Sequence[bytes], *, recorded_ms: int | None, context: Context
) -> Advance:
    watch = JobWatch(context) if blob is None else JobWatch.from_snapshot(context, blob)
    rows = [event_row(event, context, recorded_ms) for event in watch.apply(unpack_job(packed), recorded_ms)]
    if rows:
        holding = {"cluster_id": context.cluster_id, "conditions": watch.conditions()}
        rows.append(OutputRow(Output.JOB, CONDITIONS_KEY, msgspec.json.encode(holding)))
    return Advance(
        watch.snapshot() if watch.changed else blob,
        changed=watch.changed,
        gone=False,
        deadline_ms=None,
        rows=rows,
    )


def event_row(event: Event, context: Context, recorded_ms: int | None) -> OutputRow:
    """The message of an event; ``recorded_ms`` None is the time of the event itself."""
    message = cloud_event(event, context, event.time_ms if recorded_ms is None else recorded_ms)
    return OutputRow(Output.EVENTS, _event_key(event), message.value, message.headers)


def _event_key(event: Event) -> bytes:
    if event.group_id is not None:
        return event.group_id.encode()
    # Records whose key cannot be read have no group; their partition keeps them in order.
    in_log = event.cause is not None and event.cause.topic == OFFSETS_TOPIC
    place = f"{OFFSETS_TOPIC}-{event.cause.partition}" if event.cause and in_log else "job"
    return RESERVED + place.encode()


def step(
    key: tuple[bytes], frames: Iterable[pd.DataFrame], state: GroupState, *, job: Job
) -> Iterator[pd.DataFrame]:
    """The function that Spark is given: ``rows_of_call`` in PySpark's words, frames of pandas.

    Our own workers take the way around them (``group_worker``).
    """
    import pandas as pd

    chunks = ((frame["packed"].tolist(), frame["caught_up_ms"].tolist()) for frame in frames)
    rows = rows_of_call(key[0], chunks, state, job)
    if rows:
        # Of one array: columns given one by one cost several times as much, and there is a frame for every key.
        cells = np.empty((len(rows), len(OUTPUT_COLUMNS)), object)
        cells[:] = rows
        yield pd.DataFrame(cells, columns=list(OUTPUT_COLUMNS))


def rows_of_call(key: bytes, chunks: Iterable[Chunk], state: GroupState, job: Job) -> list[OutputCells]:
    """What Spark calls for each key with data, and again for each timer that is due.

    PySpark keeps the timer of a call that writes nothing, and fires it again in every batch when the call was
    the timer's own: such a call must end with an update and a new timer, or with a removal.
    """
    packed: list[bytes] = []
    caught_up_ms = state.getCurrentWatermarkMs()
    for blobs, times_ms in chunks:
        packed += [blob for blob in blobs if blob is not None]
        if None in blobs:
            # The caught-up time, a batch before it is the watermark (see ``pack_probes``).
            caught_up_ms = max(caught_up_ms, *times_ms)
    processing_ms = state.getCurrentProcessingTimeMs()
    now_ms = min(processing_ms, caught_up_ms)
    result = advance(
        key,
        state.get[0] if state.exists else None,
        packed,
        now_ms=now_ms,
        recorded_ms=processing_ms,
        context=job.context,
    )
    _store(result, state, processing_ms, min(processing_ms - now_ms, job.retry_ms))
    return [_cells(row, job.topics) for row in result.rows]


def _store(result: Advance, state: GroupState, processing_ms: int, trail_ms: int) -> None:
    """``trail_ms`` is how far the caught-up time, which deadlines wait for, is behind Spark's clock."""
    if result.gone or (result.blob is None and state.hasTimedOut):
        if state.exists:
            state.remove()
    elif result.changed or state.hasTimedOut:
        state.update((result.blob,))
        if result.deadline_ms is not None:
            state.setTimeoutDuration(max(1, max(result.deadline_ms - processing_ms, 0) + trail_ms))


def _cells(row: OutputRow, topics: TopicNames) -> OutputCells:
    return getattr(topics, row.output.value), row.key, row.value, _headers_text(row.headers)


def _headers_text(headers: tuple[tuple[str, bytes], ...]) -> str | None:
    """Headers as one JSON object, because a frame's column must be of a plain type."""
    if not headers:
        return None
    return msgspec.json.encode({name: value.decode() for name, value in headers}).decode()
