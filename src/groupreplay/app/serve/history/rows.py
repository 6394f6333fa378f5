"""Messages of the job's topics as rows of the history; None for what the job cannot have written."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from groupreplay.app.serve.answers import Condition, Event
from groupreplay.app.text.event_text import text_of
from groupreplay.codecs.kafka_terms import shown_type
from groupreplay.state.events.event import Severity, name_of
from groupreplay.state.output.envelope import event_type
from groupreplay.state.phrases import subject, timestamp_ms
from groupreplay.streaming.contract.messages import (
    OBJECTS,
    ConditionForm,
    EventHead,
    GroupHead,
    Integer,
    MessageDecoder,
)
from groupreplay.streaming.sinks.known_groups import group_label
from groupreplay.timeline.event_reading import read_events
from groupreplay.timeline.facts import is_trouble

#: What one group's row can be found by: its id, state, type and conditions, topics, and names of members; more of it
#: is not searched.
_SEARCHED: Final = 8_192
MOST_TOPICS: Final = 50
_LEVEL: Final = 1
_SEVERITIES: Final = {severity.name: int(severity) for severity in Severity}
#: A document or event of the job is at most 256 KiB; more is not decompressed.
_MOST_BYTES: Final = 1 << 20

Json = dict[str, Any]


class _StoredData(msgspec.Struct):
    """The fields of any event's ``data`` that are stored beside it."""

    group_id: str | None = None
    condition_id: str | None = None
    status: str | None = None
    since_ms: Integer | None = None


class _StoredEvent(EventHead):
    data: _StoredData


class _StoredMember(msgspec.Struct):
    instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    topics: list[str] | None = None


class _StoredDocument(GroupHead, kw_only=True):
    members: list[_StoredMember] = msgspec.field(default_factory=list)
    subscribed_topics: list[str] | None = None
    conditions: list[ConditionForm] = msgspec.field(default_factory=list)


_events: Final = MessageDecoder[_StoredEvent](_StoredEvent)
_documents: Final = MessageDecoder[_StoredDocument](_StoredDocument)


class HistoryEvent(NamedTuple):
    """An event; ``digest`` identifies it. Times in milliseconds since 1970; ``body`` is compressed.

    ``trouble``: it tells of something wrong, and is no condition: a strip shows its moment.
    """

    digest: bytes
    time_ms: int
    name: str
    label: str
    severity: int
    condition_id: str
    since_ms: int
    resolved: bool
    trouble: bool
    body: bytes


class HistoryCondition(NamedTuple):
    """An active condition of a group; ``body`` is the API's form of it."""

    condition_id: str
    name: str
    severity: int
    since_ms: int
    body: bytes


class HistoryGroup(NamedTuple):
    """A group's document and what it is found by; ``severity`` 0 and ``risk`` empty without a condition."""

    label: str
    group_id: str
    type: str
    state: str
    generation: int | None
    members: int
    severity: int
    risk: str
    since_ms: int | None
    expires_ms: int | None
    offsets: int
    searched: str
    body: bytes
    topics: tuple[str, ...]
    conditions: tuple[HistoryCondition, ...]


class CommitCounts(msgspec.Struct, frozen=True):
    """Commits by the label of a group between two times; ``complete``: all partitions were read to their ends.

    ``error``: why there are none.
    """

    since_ms: int
    until_ms: int
    commits: dict[str, int] = {}
    complete: bool = True
    error: str | None = None


COUNTS: Final = MessageDecoder[CommitCounts](CommitCounts)
#: ``HistoryCondition.body``.
CONDITIONS: Final = MessageDecoder[Condition](Condition)


def event_row(value: bytes | None) -> HistoryEvent | None:
    """The row of a message of ``group-events``; None when it is no event."""
    # Events are sent on as lines of text: the job writes none with a line end.
    whole = None if value is None or b"\n" in value or b"\r" in value else OBJECTS.decode(value)
    if value is None or whole is None:
        return None
    event = _events.decode(value)
    at_ms = None if event is None else timestamp_ms(event.time)
    if event is None or at_ms is None:
        return None
    data = event.data
    return HistoryEvent(
        digest=hashlib.blake2b(event.id.encode(), digest_size=16).digest(),
        time_ms=at_ms,
        name=name_of(event.type)[:200],
        label="" if data.group_id is None else group_label(data.group_id),
        severity=event.severitynumber,
        condition_id=(data.condition_id or "")[:400],
        since_ms=at_ms if data.since_ms is None else min(data.since_ms, at_ms),
        resolved=data.status == "resolved",
        trouble=not data.condition_id and any(map(is_trouble, read_events([whole]))),
        body=packed(value),
    )


def group_row(key: bytes, value: bytes) -> HistoryGroup | None:
    """The row of a message of ``group-states``; None when it is no document of the group that the key names."""
    whole, document = OBJECTS.decode(value), _documents.decode(value)
    if whole is None or document is None:
        return None
    label = group_label(document.group_id)
    if label != group_label(key.decode("utf-8", "replace")):
        return None
    conditions = tuple(_condition_rows(document, whole))
    worst = min(conditions, key=lambda condition: (-condition.severity, condition.since_ms), default=None)
    topics = tuple(sorted(_topics(document)))
    return HistoryGroup(
        label=label,
        group_id=document.group_id,
        type=shown_type(document.type, simple=document.simple),
        state=document.state,
        generation=document.epoch,
        members=document.member_count,
        severity=0 if worst is None else worst.severity,
        risk="" if worst is None else worst.name,
        since_ms=document.since_ms,
        expires_ms=document.offsets.next_expiry_ms,
        offsets=document.offsets.partitions,
        searched=_searched(document, topics, conditions),
        body=packed(value),
        topics=topics[:MOST_TOPICS],
        conditions=conditions,
    )


def _topics(document: _StoredDocument) -> set[str]:
    topics = set(document.subscribed_topics or ())
    return topics.union(*(member.topics or () for member in document.members))


def _searched(
    document: _StoredDocument, topics: tuple[str, ...], conditions: tuple[HistoryCondition, ...]
) -> str:
    """Everything in lower case: SQLite compares letters beyond ASCII as they are."""
    names = {
        name
        for member in document.members
        for name in (member.instance_id, member.client_id, member.client_host)
        if name
    }
    holding = sorted({condition.name for condition in conditions})
    parts = (document.group_id, document.state, document.type, *holding, *topics, *sorted(names))
    return "\n".join(parts)[:_SEARCHED].lower()


def _condition_rows(document: _StoredDocument, whole: Json) -> Iterator[HistoryCondition]:
    for fields in whole["conditions"] if document.conditions else ():
        condition = condition_of(fields, document.group_id)
        yield HistoryCondition(
            condition_id=condition.condition_id,
            name=condition.name,
            severity=_SEVERITIES[condition.severity],
            since_ms=condition.since_ms or 0,
            body=msgspec.json.encode(condition),
        )


def condition_of(fields: Json, group_id: str | None) -> Condition:
    """An active condition of a document as the API shows it: with one sentence, and who blocks or is suspected."""
    name, severity = str(fields.get("condition", "")), fields.get("severity")
    return Condition(
        condition_id=str(fields.get("condition_id", "")),
        name=name,
        severity=severity if severity in _SEVERITIES else "INFO",
        group_id=group_id,
        since_ms=fields.get("since_ms"),
        subject=subject(fields),
        summary=text_of({"type": event_type(name), "data": {"group_id": group_id, **fields}}),
        blockers=_objects(fields.get("blockers")),
        suspects=_objects(fields.get("suspects")),
        runbook=str(fields.get("runbook", "")),
    )


def shown_event(value: bytes) -> Event:
    """An event as the API sends it: the CloudEvent as the job wrote it, and its sentence."""
    return Event(msgspec.Raw(value), text_of(OBJECTS.decode(value) or {}))


def _objects(value: Any) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def packed(value: bytes) -> bytes:
    """Compressed, as the history stores it."""
    return zlib.compress(value, _LEVEL)


def unpacked(body: bytes) -> bytes:
    """What ``packed`` has compressed."""
    return zlib.decompressobj().decompress(body, _MOST_BYTES)
