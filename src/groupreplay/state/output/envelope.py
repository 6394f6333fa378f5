"""Events as CloudEvents 1.0, in JSON, and their JSON Schemas (2020-12): the only module that knows this encoding.

The time at which an event is recorded is an argument.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from groupreplay.codecs.kafka_terms import GroupType
from groupreplay.state.conditions.registry import CONDITIONS
from groupreplay.state.conditions.tracker import group_hash
from groupreplay.state.events import group_events, incident_events, lag_events, offset_events
from groupreplay.state.events.event import (
    TYPE_PREFIX,
    Cause,
    Event,
    Evidence,
    Fact,
    History,
    JobGap,
    Severity,
)
from groupreplay.state.phrases import safe_text, timestamp
from groupreplay.state.policy.context import OFFSETS_TOPIC, Context, redacted

#: Tried in turn until the document fits: entries kept of each list or map, characters kept of each text.
_CUTS: Final = ((200, 4096), (50, 1024), (10, 256), (3, 64), (0, 32))

#: Fields that identify something: a part of an id is another id, or none.
_WHOLE: Final = frozenset(
    {
        *("id", "source", "type", "time", "dataschema", "recordedtime", "sequence", "datacontenttype"),
        *("condition_id", "cluster_id", "job_id", "run_id", "key_sha256", "value_sha256"),
    }
)


def _cut(value: Any, entries: int, characters: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= characters else value[: characters - 1] + "…"
    if isinstance(value, dict):
        kept = list(value.items())[:entries]
        return {_cut(key, entries, characters): _cut(item, entries, characters) for key, item in kept}
    if isinstance(value, list | tuple):
        return [_cut(item, entries, characters) for item in value[:entries]]
    return value


def fit_json(document: dict[str, Any], limit: int, inner: str | None = None) -> bytes:
    """The document as JSON of at most ``limit`` bytes.

    A document that is too long has its lists, maps and texts cut, and gets ``truncated: true``; its own
    fields stay, and ids are not cut: it may remain longer than a very small ``limit``. ``inner`` names a field
    whose value is such a document (the ``data`` of an envelope):
    then the fields of both levels stay.
    """
    encoded = msgspec.json.encode(document)
    for entries, characters in _CUTS:
        if len(encoded) <= limit:
            break
        smaller = _cut_fields(document, entries, characters, inner)
        if inner is None:
            smaller["truncated"] = True
        else:
            smaller[inner] = {**_cut_fields(document[inner], entries, characters), "truncated": True}
        encoded = msgspec.json.encode(smaller)
    return encoded


def _cut_fields(
    document: dict[str, Any], entries: int, characters: int, but: str | None = None
) -> dict[str, Any]:
    return {
        name: value if name in _WHOLE else _cut(value, entries, characters)
        for name, value in document.items()
        if name != but
    }


MAX_BYTES: Final = 64 * 1024
CONTENT_TYPE: Final = "application/cloudevents+json"
VERSION: Final = "v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudEvent:
    """One event, ready to be written: attributes in text form and the whole as JSON (``value``)."""

    id: str
    type: str
    source: str
    subject: str
    time: str
    severity: Severity
    value: bytes

    @property
    def headers(self) -> tuple[tuple[str, bytes], ...]:
        """Kafka headers: the content type, and what a consumer may want to filter on without parsing."""
        return (
            ("content-type", CONTENT_TYPE.encode()),
            ("ce_specversion", b"1.0"),
            ("ce_id", self.id.encode()),
            ("ce_type", self.type.encode()),
            ("ce_source", self.source.encode()),
            ("ce_subject", self.subject.encode()),
            ("ce_time", self.time.encode()),
        )


def event_type(name: str) -> str:
    """The CloudEvents type of a fact: ``rebalance.completed`` is ``groupreplay.rebalance.completed.v1``."""
    return f"{TYPE_PREFIX}{name}.{VERSION}"


def data_schema(name: str) -> str:
    """The URI that names the JSON Schema of a fact's event; ``groupreplay schema`` prints it."""
    return f"urn:groupreplay:schema:{name}:{VERSION}"


def event_id(event: Event, context: Context) -> str:
    """The deterministic id: the position of the cause in the log, the event's name, and its ordinal."""
    cause = event.cause
    if isinstance(event.fact, incident_events.Incident):
        # The time is that of a step of the finder, which follows from the events that it was found from.
        return f"{event.fact.incident_id}-{event.fact.NAME}-{event.time_ms}"
    if cause is None:
        # Mostly conditions, which begin or end when time passes; their id contains the group and the kind.
        again = f"-{event.setbacks}" if event.setbacks else ""
        return f"{getattr(event.fact, 'condition_id', None) or _name_and_group(event)}-{event.time_ms}{again}"
    return f"{cause.topic}-{context.era}-{cause.partition}-{cause.offset}-{event.fact.NAME}-{event.ordinal}"


def _name_and_group(event: Event) -> str:
    """For events of several groups at one time, such as those of damaged states; the id has no text of a client."""
    name = event.fact.NAME
    return name if event.group_id is None else f"{group_hash(event.group_id)}-{name}"


def _sequence(event: Event) -> str:
    """Sorts as text: by the position in the offsets topic, then by time, then by the order at one position."""
    cause = event.cause
    partition, offset = event.place or ((cause.partition, cause.offset) if cause else (0, 0))
    return f"{max(partition, 0):05d}-{max(offset, 0):020d}-{event.time_ms:015d}-{event.ordinal:05d}"


def event_data(event: Event, context: Context, recorded_ms: int) -> dict[str, Any]:
    """The ``data`` of an event: the fields every event has, then its own."""
    return {
        "cluster_id": context.cluster_id,
        "group_id": event.group_id,
        "group_type": event.group_type.value,
        "simple": event.simple,
        "evidence": event.evidence.value,
        "history": event.history.value,
        "catch_up": recorded_ms - event.time_ms > context.catch_up_after_ms,
        "labels": {**context.labels, **event.labels},
        "cause": msgspec.to_builtins(event.cause),
        **msgspec.to_builtins(event.fact),
    }


def _place(event: Event) -> str:
    cause = event.cause
    in_log = cause is not None and cause.topic == OFFSETS_TOPIC
    return f"{cause.topic}-{cause.partition}-{cause.offset}" if cause and in_log else "job"


def cloud_event(event: Event, context: Context, recorded_ms: int) -> CloudEvent:
    """The event as a CloudEvent of at most 64 KiB; it has ``truncated: true`` when something was cut."""
    severity = event.fact.severity if event.severity is None else event.severity
    # An attribute must not be empty, a group id may be.
    subject = safe_text(_place(event) if event.group_id is None else event.group_id) or "(empty)"
    attributes: dict[str, Any] = {
        "specversion": "1.0",
        "id": event_id(event, context),
        "source": f"kafka://{context.cluster_id}/{OFFSETS_TOPIC}",
        "type": event_type(event.fact.NAME),
        "subject": subject,
        "time": timestamp(event.time_ms),
        "datacontenttype": "application/json",
        "dataschema": data_schema(event.fact.NAME),
        "recordedtime": timestamp(recorded_ms),
        "sequence": _sequence(event),
        "partitionkey": subject,
        "severitynumber": int(severity),
        "severitytext": severity.name,
    }
    data = redacted(event_data(event, context, recorded_ms), context.redaction)
    document = {**attributes, "data": data}
    return CloudEvent(
        id=attributes["id"],
        type=attributes["type"],
        source=attributes["source"],
        subject=subject,
        time=attributes["time"],
        severity=severity,
        value=fit_json(document, MAX_BYTES, inner="data"),
    )


#: Every fact, in the order of the docs.
FACTS: Final[tuple[type[Fact], ...]] = (
    group_events.GroupCreated,
    group_events.GroupEmptied,
    group_events.GroupDeleted,
    group_events.GroupConverted,
    group_events.RebalanceStarted,
    group_events.RebalanceCompleted,
    lag_events.RebalanceCost,
    group_events.MemberLeft,
    group_events.MemberJoined,
    group_events.MemberUpdated,
    group_events.StaticReplaced,
    offset_events.OffsetsExpired,
    offset_events.OffsetsDeleted,
    offset_events.OffsetsReset,
    offset_events.OffsetsSet,
    offset_events.OffsetRewound,
    offset_events.OffsetsSummary,
    incident_events.IncidentOpened,
    incident_events.IncidentResolved,
    JobGap,
    group_events.RecordMalformed,
    group_events.RecordSkipped,
    group_events.GroupQuarantined,
    group_events.GroupStateDamaged,
)
#: In the order of the docs.
EVENTS: Final[tuple[type[Fact], ...]] = (*FACTS, *CONDITIONS)


_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_TEXT: Final = {"type": "string", "minLength": 1}
_MOMENT: Final = {"type": "string", "format": "date-time"}


def _surroundings(components: dict[str, Any]) -> dict[str, Any]:
    return {
        "cluster_id": {"type": "string", "description": "Id of the watched cluster."},
        "group_id": {
            "anyOf": [{"type": "string"}, {"type": "null"}],
            "description": "The group; null for a record whose key cannot be read, and for the job itself.",
        },
        "group_type": {
            "enum": [kind.value for kind in GroupType],
            "description": "The type of the group, as Kafka's tools name it.",
        },
        "simple": {"type": "boolean", "description": "A group without members that only holds offsets."},
        "evidence": {
            "enum": [kind.value for kind in Evidence],
            "description": "A record proves it, an answer of a broker proves it, or a rule infers it.",
        },
        "history": {
            "enum": [kind.value for kind in History],
            "description": "Whether the group's history is known without a gap.",
        },
        "catch_up": {
            "type": "boolean",
            "description": "Recorded more than a minute after it happened; do not alert on it.",
        },
        "labels": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "Labels from the rules and from --label.",
        },
        "cause": {
            "anyOf": [components[Cause.__name__], {"type": "null"}],
            "description": "The record that proves the event; null when only time has passed.",
        },
    }


def _inlined(schema: Any, components: dict[str, Any]) -> Any:
    """Schema with its references replaced: each event's schema stands alone."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            rest = {name: value for name, value in schema.items() if name != "$ref"}
            return {**_inlined(components[schema["$ref"].rsplit("/", 1)[1]], components), **rest}
        return {name: _inlined(value, components) for name, value in schema.items()}
    if isinstance(schema, list):
        return [_inlined(item, components) for item in schema]
    return schema


def event_schema(fact: type[Fact]) -> dict[str, Any]:
    """The schema of one kind of event as it stands in ``group-events``."""
    (_, _), components = msgspec.json.schema_components([fact, Cause])
    components = {name: _inlined(schema, components) for name, schema in components.items()}
    own = components[fact.__name__]
    surroundings = _surroundings(components)
    data = {
        "type": "object",
        "properties": {
            **surroundings,
            **own["properties"],
            "truncated": {"const": True, "description": "Lists or texts were cut to keep the event small."},
        },
        "required": [*surroundings, *own["required"]],
        "additionalProperties": False,
    }
    severities = sorted(Severity)
    attributes = {
        "specversion": {"const": "1.0"},
        "id": {
            **_TEXT,
            "description": "The same in each repeat of the event: drop ids that were there before.",
        },
        "source": {
            **_TEXT,
            "format": "uri",
            "description": "The watched topic: `kafka://<cluster id>/__consumer_offsets`.",
        },
        "type": {"const": event_type(fact.NAME)},
        "subject": {
            **_TEXT,
            "description": "The group id, escaped for display; else the place of the record.",
        },
        "time": {**_MOMENT, "description": "When it happened."},
        "datacontenttype": {"const": "application/json"},
        "dataschema": {"const": data_schema(fact.NAME)},
        "recordedtime": {**_MOMENT, "description": "When the job emitted it."},
        "sequence": {**_TEXT, "description": "Compared as text, it orders the events of one group."},
        "partitionkey": {**_TEXT, "description": "The same as `subject`."},
        "severitynumber": {"enum": [int(severity) for severity in severities]},
        "severitytext": {"enum": [severity.name for severity in severities]},
        "data": data,
    }
    return {
        "$schema": _DIALECT,
        "$id": data_schema(fact.NAME),
        "title": fact.NAME,
        "description": fact.DOC,
        "type": "object",
        "properties": attributes,
        "required": list(attributes),
        "additionalProperties": False,
    }


def json_schemas() -> dict[str, dict[str, Any]]:
    """Event name -> schema, in the order of the docs."""
    # As they are written: a default of a tuple is a list there.
    return {fact.NAME: msgspec.json.decode(msgspec.json.encode(event_schema(fact))) for fact in EVENTS}
