"""All events that there are, and their JSON Schemas (2020-12), made from their declarations."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from groupreplay.codecs.kafka_terms import GroupType
from groupreplay.state.conditions.registry import CONDITIONS
from groupreplay.state.events import group_events, offset_events
from groupreplay.state.events.event import Cause, Evidence, Fact, History, Severity
from groupreplay.state.events.job_events import JobGap
from groupreplay.state.output.envelope import data_schema, event_type

#: Every fact, in the order of the docs.
FACTS: Final[tuple[type[Fact], ...]] = (
    group_events.GroupCreated,
    group_events.GroupEmptied,
    group_events.GroupDeleted,
    group_events.GroupConverted,
    group_events.RebalanceStarted,
    group_events.RebalanceCompleted,
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
    return {fact.NAME: event_schema(fact) for fact in EVENTS}
