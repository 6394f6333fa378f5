"""One call for one key without Spark: load the state, apply, expire, and return the messages to write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from groupreplay.state import Deleted, Group
from groupreplay.state.events.event import Event
from groupreplay.state.job.bad_records import BadRecords
from groupreplay.state.job.job_watch import JobWatch
from groupreplay.state.output.document import encode_document
from groupreplay.state.output.envelope import cloud_event
from groupreplay.state.policy.context import OFFSETS_TOPIC, Context
from groupreplay.state.policy.redaction import redacted
from groupreplay.streaming.contract.output import CONDITIONS_KEY, RESERVED, Output, OutputRow
from groupreplay.streaming.engine.dead_letters import dead_letter, dead_letter_key
from groupreplay.streaming.engine.wire import (
    BAD_RECORDS_TAG,
    GROUP_TAG,
    JOB_TAG,
    unpack_bad_records,
    unpack_group,
    unpack_job,
)

if TYPE_CHECKING:
    pass


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
