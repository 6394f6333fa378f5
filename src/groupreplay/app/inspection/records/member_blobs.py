"""The subscription and the assignment of classic members as JSON, with the names of Kafka's own schemas.

Kafka's formatters print both as base64, because only the protocol type of the group says what they are.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

from groupreplay.codecs import (
    Assignment,
    ConnectAssignment,
    ConnectMetadata,
    GroupMetadataValue,
    Malformed,
    Subscription,
    decode_blob,
)
from groupreplay.codecs.kafka_json import blob_json
from groupreplay.codecs.kafka_terms import CONSUMER_PROTOCOL_TYPE
from groupreplay.codecs.schema import Versioned
from groupreplay.state.snapshot.members import CONNECT_PROTOCOL_TYPE

#: Protocol type -> for each of the two fields, Kafka's name of its schema and our class.
_SCHEMAS: Final[Mapping[str, Mapping[str, tuple[str, type[Versioned]]]]] = {
    CONSUMER_PROTOCOL_TYPE: {
        "subscription": ("ConsumerProtocolSubscription", Subscription),
        "assignment": ("ConsumerProtocolAssignment", Assignment),
    },
    CONNECT_PROTOCOL_TYPE: {
        "subscription": ("ConnectProtocol.WorkerState", ConnectMetadata),
        "assignment": ("ConnectProtocol.Assignment", ConnectAssignment),
    },
}
FIELDS: Final = ("subscription", "assignment")


def with_members(record: Mapping[str, Any], value: object) -> dict[str, Any]:
    """The JSON of a record; if it is one of a classic group, its members' subscriptions and assignments are decoded.

    Each of them becomes ``{"schema", "version", "data"}``; bytes that cannot be decoded become ``{"schema",
    "undecodable", "bytes"}`` with the reason and the base64; zero bytes, which brokers store for a member without an
    assignment, become None. Bytes after the end of the schema are ignored, as Kafka does.
    """
    if not isinstance(value, GroupMetadataValue):
        return dict(record)
    data = record["value"]["data"]
    members = [
        {**shown, **{name: _decoded(value.protocol_type, name, getattr(member, name)) for name in FIELDS}}
        for shown, member in zip(data["members"], value.members, strict=True)
    ]
    return {**record, "value": {**record["value"], "data": {**data, "members": members}}}


def _decoded(protocol_type: str, name: str, raw: bytes) -> dict[str, Any] | None:
    if not raw:
        return None
    if protocol_type not in _SCHEMAS:
        reason = f"the protocol type {protocol_type!r} has a format of its own"
        return {"schema": None, "undecodable": reason, "bytes": _base64(raw)}
    schema, kind = _SCHEMAS[protocol_type][name]
    blob = decode_blob(kind, raw)
    if isinstance(blob, Malformed):
        reason = f"field {blob.field} at byte {blob.at}: {blob.reason}"
        return {"schema": schema, "undecodable": reason, "bytes": _base64(raw)}
    data = blob_json(blob)
    if isinstance(blob, ConnectMetadata) and blob.allocation is not None:
        data["allocation"] = _decoded(protocol_type, "assignment", blob.allocation)
    return {"schema": schema, "version": blob.version, "data": data}


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")
