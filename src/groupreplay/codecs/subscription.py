"""The blobs inside classic members: subscriptions and assignments of consumers and of Kafka Connect's workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeVar

from groupreplay.codecs.compiled import IRREGULAR, UNWRITABLE, compiled, compiled_writer
from groupreplay.codecs.composites import Array, Nested
from groupreplay.codecs.errors import NO_LIMIT, Budget, DecodeError, Malformed
from groupreplay.codecs.primitives import BYTES, CLIENT_STRING, INT16, INT32, INT64, Form
from groupreplay.codecs.schema import Struct, Versioned, form_of, plan_of, read_fields, wire, write_fields

_FORM = Form(0, False)
_read_version = INT16.reader(_FORM, False)
_write_version = INT16.writer(_FORM, False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions(Struct):
    """Partitions of one topic, in the order of the bytes."""

    topic: str = wire(CLIENT_STRING)
    partitions: tuple[int, ...] = wire(Array(INT32))


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription(Versioned):
    """The subscription that a consumer sends when it joins.

    v1 added the owned partitions (KIP-429), v2 the generation they come from, v3 the rack (KIP-881).
    """

    VERSIONS: ClassVar[range] = range(4)

    topics: tuple[str, ...] = wire(Array(CLIENT_STRING))
    user_data: bytes | None = wire(BYTES, nullable=True, default=None)
    owned_partitions: tuple[TopicPartitions, ...] = wire(Array(Nested(TopicPartitions)), since=1, default=())
    generation_id: int = wire(INT32, since=2, default=-1)
    rack_id: str | None = wire(CLIENT_STRING, since=3, nullable=True, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment(Versioned):
    """The leader's assignment for one member; the same layout in every version."""

    VERSIONS: ClassVar[range] = range(4)

    assigned_partitions: tuple[TopicPartitions, ...] = wire(Array(Nested(TopicPartitions)))
    user_data: bytes | None = wire(BYTES, nullable=True, default=None)


#: The meaning of zero bytes: brokers store them for a member that the leader assigned nothing.
NO_ASSIGNMENT = Assignment(version=0, assigned_partitions=(), user_data=None)

Blob = TypeVar("Blob", bound=Versioned)


def decode_subscription(data: bytes) -> Subscription | Malformed:
    """Read a member's subscription; never raises."""
    return decode_blob(Subscription, data)


def decode_assignment(data: bytes) -> Assignment | Malformed:
    """Read a member's assignment; zero bytes are `NO_ASSIGNMENT`; never raises."""
    return decode_blob(Assignment, data) if data else NO_ASSIGNMENT


def subscribed_topics(data: bytes) -> tuple[str, ...] | Malformed:
    """The topic names of a subscription, read as version 0 whatever its version says.

    So does the coordinator (`ClassicGroup.computeSubscribedTopics`): later versions only append, so names are
    found even where the rest of the blob is broken.
    """
    subscription = decode_blob(Subscription, data, as_version=0)
    return subscription if isinstance(subscription, Malformed) else subscription.topics


def decode_blob(message: type[Blob], data: bytes, as_version: int | None = None) -> Blob | Malformed:
    """Read a blob that starts with its version; never raises.

    A later version is read as the newest known one (`ConsumerProtocol.checkSubscriptionVersion`): the new fields
    go to `leftover`, and `version` stays as it was read. A negative version is malformed.
    """
    version = None
    try:
        version, at = _read_version(data, 0, NO_LIMIT)
        if version < 0:
            raise DecodeError(0, f"is the negative version {version}")
        known = min(version, message.VERSIONS[-1]) if as_version is None else as_version
        try:
            blob: Blob = compiled(message, form_of(message, known))(data, at, Budget(len(data)), version)[0]
            return blob
        except IRREGULAR:
            pass
        values, at = read_fields(plan_of(message, known), data, at, Budget(len(data)))
    except DecodeError as error:
        return Malformed(None, version, error.field or "version", error.at, error.reason)
    return message(version=version, leftover=data[at:], **values)


def encode_blob(blob: Versioned) -> bytes:
    """The inverse of `decode_blob`, but `NO_ASSIGNMENT` is written in full; raises `EncodeError`."""
    out = bytearray()
    _write_version(out, blob.version)
    version = min(blob.version, blob.VERSIONS[-1])
    try:
        compiled_writer(type(blob), form_of(type(blob), version))(out, blob)
    except UNWRITABLE:
        del out[2:]
        write_fields(plan_of(type(blob), version), out, blob)
    return bytes(out + blob.leftover)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorTasks(Struct):
    """Tasks of one connector; task -1 is the connector itself."""

    connector: str = wire(CLIENT_STRING)
    tasks: tuple[int, ...] = wire(Array(INT32))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectMetadata(Versioned):
    """The metadata that a worker sends when it joins.

    v1 added the present assignment of the worker, as the bytes of a `ConnectAssignment` (KIP-415).
    """

    VERSIONS: ClassVar[range] = range(3)

    url: str = wire(CLIENT_STRING)
    config_offset: int = wire(INT64)
    allocation: bytes | None = wire(BYTES, since=1, nullable=True, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectAssignment(Versioned):
    """The leader's assignment for one worker.

    v1 added the revoked tasks and the delay before the next rebalance, and lets lists be null. Here
    `assigned` may be null in v0, too.
    """

    VERSIONS: ClassVar[range] = range(3)

    error: int = wire(INT16)
    leader: str = wire(CLIENT_STRING)
    leader_url: str = wire(CLIENT_STRING)
    config_offset: int = wire(INT64)
    assigned: tuple[ConnectorTasks, ...] | None = wire(Array(Nested(ConnectorTasks)), nullable=True)
    revoked: tuple[ConnectorTasks, ...] | None = wire(
        Array(Nested(ConnectorTasks)), since=1, nullable=True, default=None
    )
    delay_ms: int = wire(INT32, since=1, default=0)
