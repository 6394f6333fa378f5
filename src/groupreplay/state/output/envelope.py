"""Events as CloudEvents 1.0, in JSON: the only module that knows this encoding.

The time at which an event is recorded is an argument.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

from groupreplay.state.display.phrases import timestamp
from groupreplay.state.display.safe_text import safe_text
from groupreplay.state.events.event import TYPE_PREFIX, Event, Severity
from groupreplay.state.output.sizes import fit_json
from groupreplay.state.policy.context import OFFSETS_TOPIC, Context
from groupreplay.state.policy.redaction import redacted

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
    if cause is None:
        # Only conditions begin or end when time passes; their id contains the group and the kind.
        again = f"-{event.setbacks}" if event.setbacks else ""
        return f"{getattr(event.fact, 'condition_id', event.fact.NAME)}-{event.time_ms}{again}"
    return f"{cause.topic}-{context.era}-{cause.partition}-{cause.offset}-{event.fact.NAME}-{event.ordinal}"


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
        "cause": _plain(event.cause),
        **_plain(event.fact),
    }


def _plain(value: Any) -> Any:
    if hasattr(value, "__dataclass_fields__"):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


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
