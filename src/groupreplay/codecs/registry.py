"""The table of record types, and the four functions that read and write keys and values."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from groupreplay.codecs import classic, consumer, offsets, redpanda, share, streams
from groupreplay.codecs.classic import GroupMetadataValue
from groupreplay.codecs.compiled import IRREGULAR, UNWRITABLE, compiled, compiled_writer
from groupreplay.codecs.errors import NO_LIMIT, Budget, DecodeError, EncodeError, Malformed, Skipped
from groupreplay.codecs.offsets import OffsetCommitValue
from groupreplay.codecs.primitives import Form
from groupreplay.codecs.schema import (
    Key,
    Struct,
    Value,
    Versioned,
    form_of,
    once,
    plan,
    plan_of,
    read_fields,
    wires,
    write_fields,
)

_Message = TypeVar("_Message", bound=Struct)

#: The values of ``inter.broker.protocol.version``, in order; "2.1" is 2.1-IV2.
PROTOCOL_VERSIONS: Final = (
    *("0.9.0", "0.10.0", "0.10.1", "0.10.2", "0.11.0", "1.0", "1.1", "2.0", "2.1-IV0", "2.1-IV1", "2.1"),
    *(f"2.{minor}" for minor in range(2, 9)),
    *(f"3.{minor}" for minor in range(10)),
)
#: The place of each, and of the releases whose coordinators do not know that setting.
_ORDER: Final = {name: place for place, name in enumerate((*PROTOCOL_VERSIONS, "4.0", "4.1"))}
#: Each version with the first release that writes it.
WRITTEN_SINCE: Final[Mapping[type[Value], tuple[tuple[str, int], ...]]] = {
    OffsetCommitValue: (("0.9.0", 1), ("2.1-IV0", 2), ("2.1-IV1", 3), ("4.1", 4)),
    GroupMetadataValue: (("0.9.0", 0), ("0.10.1", 1), ("2.1-IV0", 2), ("2.3", 3)),
}
#: Of an offset for which the client has set a retention time: the only version with an expiry of its own.
VERSION_WITH_EXPIRY: Final = 1


@once
def written_version(message: type[Value], release: str) -> int:
    """The version that is written, by the protocol version or, from 4.0 on, the release. KeyError for others."""
    reached = _ORDER[release]
    return max(version for since, version in WRITTEN_SINCE[message] if _ORDER[since] <= reached)


def as_written(value: _Message, version: int) -> _Message:
    """The message as a reader of this version has it: fields that the version lacks hold their defaults."""
    changes: dict[str, Any] = {"version": version} if isinstance(value, Versioned) else {}
    for each in wires(type(value)):
        content = getattr(value, each.name)
        if not each.exists_in(version):
            changes[each.name] = each.default
        elif isinstance(content, tuple):
            changes[each.name] = tuple(
                as_written(one, version) if isinstance(one, Struct) else one for one in content
            )
    return replace(value, **changes)


#: Key type id -> (key class, value class); ids as in Kafka's `CoordinatorRecordType`.
REGISTRY: Final[Mapping[int, tuple[type[Key], type[Value]]]] = {
    key.KEY_TYPE: (key, value)
    for key, value in (
        (offsets.LegacyOffsetCommitKey, offsets.OffsetCommitValue),
        (offsets.OffsetCommitKey, offsets.OffsetCommitValue),
        (classic.GroupMetadataKey, classic.GroupMetadataValue),
        (consumer.ConsumerGroupMetadataKey, consumer.ConsumerGroupMetadataValue),
        (consumer.ConsumerGroupPartitionMetadataKey, consumer.ConsumerGroupPartitionMetadataValue),
        (consumer.ConsumerGroupMemberMetadataKey, consumer.ConsumerGroupMemberMetadataValue),
        (
            consumer.ConsumerGroupTargetAssignmentMetadataKey,
            consumer.ConsumerGroupTargetAssignmentMetadataValue,
        ),
        (consumer.ConsumerGroupTargetAssignmentMemberKey, consumer.ConsumerGroupTargetAssignmentMemberValue),
        (
            consumer.ConsumerGroupCurrentMemberAssignmentKey,
            consumer.ConsumerGroupCurrentMemberAssignmentValue,
        ),
        (share.ShareGroupPartitionMetadataKey, share.ShareGroupPartitionMetadataValue),
        (share.ShareGroupMemberMetadataKey, share.ShareGroupMemberMetadataValue),
        (share.ShareGroupMetadataKey, share.ShareGroupMetadataValue),
        (share.ShareGroupTargetAssignmentMetadataKey, share.ShareGroupTargetAssignmentMetadataValue),
        (share.ShareGroupTargetAssignmentMemberKey, share.ShareGroupTargetAssignmentMemberValue),
        (share.ShareGroupCurrentMemberAssignmentKey, share.ShareGroupCurrentMemberAssignmentValue),
        (share.ShareGroupStatePartitionMetadataKey, share.ShareGroupStatePartitionMetadataValue),
        (consumer.ConsumerGroupRegularExpressionKey, consumer.ConsumerGroupRegularExpressionValue),
        (streams.StreamsGroupMetadataKey, streams.StreamsGroupMetadataValue),
        (streams.StreamsGroupMemberMetadataKey, streams.StreamsGroupMemberMetadataValue),
        (streams.StreamsGroupTargetAssignmentMetadataKey, streams.StreamsGroupTargetAssignmentMetadataValue),
        (streams.StreamsGroupTargetAssignmentMemberKey, streams.StreamsGroupTargetAssignmentMemberValue),
        (streams.StreamsGroupCurrentMemberAssignmentKey, streams.StreamsGroupCurrentMemberAssignmentValue),
        (streams.StreamsGroupTopologyKey, streams.StreamsGroupTopologyValue),
    )
}

_INT16 = struct.Struct(">h")
#: Each key type has one layout; the type id is not a version.
_KEY_FORM = Form(0, False)


def decode_key(data: bytes | None) -> Key | Skipped | Malformed:
    """Read a record key; never raises. A record without a key is malformed: Kafka writes none to this topic."""
    key = _kafka_key(data)
    if isinstance(key, Key) or data is None or (inner := redpanda.without_length(data)) is None:
        return key
    other = _kafka_key(inner)
    return other if isinstance(other, Key) and not other.leftover else key


def _kafka_key(data: bytes | None) -> Key | Skipped | Malformed:
    if data is None or len(data) < 2:
        return Malformed(None, None, "type", 0, f"needs 2 bytes, {len(data or b'')} are left")
    key_type = _INT16.unpack_from(data)[0]
    known = REGISTRY.get(key_type)
    if known is None:
        return Skipped(key_type, None, f"record type {key_type} is not known")
    try:
        key: Key = compiled(known[0], _KEY_FORM)(data, 2, NO_LIMIT)[0]
    except IRREGULAR:
        return _irregular_key(known[0], data)
    return key


def _irregular_key(message: type[Key], data: bytes) -> Key | Malformed:
    key_type = message.KEY_TYPE
    try:
        values, at = read_fields(plan(message, _KEY_FORM), data, 2, NO_LIMIT)
    except DecodeError as error:
        return Malformed(key_type, None, error.field, error.at, error.reason)
    return message(leftover=data[at:], **values)


def encode_key(key: Key) -> bytes:
    """The inverse of `decode_key`; raises `EncodeError`."""
    out = bytearray(_INT16.pack(key.KEY_TYPE))
    try:
        compiled_writer(type(key), _KEY_FORM)(out, key)
    except UNWRITABLE:
        del out[2:]
        write_fields(plan(type(key), _KEY_FORM), out, key)
    return bytes(out + key.leftover)


def decode_value(key: Key, data: bytes | None) -> Value | Skipped | Malformed | None:
    """Read the value of a record with this key; None is a tombstone; never raises."""
    if data is None:
        return None
    key_type = key.KEY_TYPE
    if len(data) < 2:
        return Malformed(key_type, None, "version", 0, f"needs 2 bytes, {len(data)} are left")
    version = _INT16.unpack_from(data)[0]
    message = REGISTRY[key_type][1]
    if version not in message.VERSIONS:
        return Skipped(key_type, version, f"version {version} of {message.__name__} is not known")
    if message.EARLY_RELEASES:
        return _read_unambiguous(message, key_type, version, data)
    value = _read_body(message, key_type, version, data)
    if isinstance(value, Malformed) and (message, version) == (GroupMetadataValue, redpanda.VALUE_VERSION):
        return _read_dialect(message, key_type, version, data) or value
    return value


def _read_dialect(message: type[Value], key_type: int, version: int, data: bytes) -> Value | None:
    """A value that is malformed as Kafka's, if it is Redpanda's to the last byte."""
    inner = redpanda.as_kafka(data)
    value = None if inner is None else _read_body(message, key_type, version, inner)
    if not isinstance(value, Value) or value.leftover:
        return None
    return replace(value, dialect=redpanda.REDPANDA)


def _read_body(
    message: type[Value], key_type: int, version: int, data: bytes, early: bool = False
) -> Value | Malformed:
    value: Value | None
    try:
        value = compiled(message, form_of(message, version, early))(data, 2, Budget(len(data)), version)[0]
    except IRREGULAR:
        value = None
    # Not in the handler: there the exception keeps what was read until then, which would count twice.
    return _irregular_body(message, key_type, version, data, early) if value is None else value


def _irregular_body(
    message: type[Value], key_type: int, version: int, data: bytes, early: bool
) -> Value | Malformed:
    try:
        values, at = read_fields(plan_of(message, version, early), data, 2, Budget(len(data)))
    except DecodeError as error:
        return Malformed(key_type, version, error.field, error.at, error.reason)
    if early:
        values["early"] = True
    return message(version=version, leftover=data[at:], **values)


def _read_unambiguous(
    message: type[Value], key_type: int, version: int, data: bytes
) -> Value | Skipped | Malformed:
    """Of two layouts under one version number, the only one that accounts for every byte.

    Elsewhere bytes that are left over are kept; here they are a sign of the other layout.
    """
    # The early value is not kept: two whole values would take twice the memory.
    early_fits = _fits_early(message, version, data)
    value = _read_body(message, key_type, version, data)
    if _fits(value) and not early_fits:
        return value
    if early_fits and not _fits(value):
        return _read_body(message, key_type, version, data, early=True)
    if isinstance(value, Malformed):
        return value
    doubt = "two bodies fit the bytes" if early_fits else "no body accounts for all bytes"
    return Skipped(key_type, version, f"{doubt}: today's or that of Kafka {message.EARLY_RELEASES}")


def _fits_early(message: type[Value], version: int, data: bytes) -> bool:
    """Nearly always not: why is of no interest, and would be searched for in most records of newer groups."""
    try:
        read = compiled(message, form_of(message, version, True))
        return not read(data, 2, Budget(len(data)), version)[0].leftover
    except IRREGULAR:
        return False


def _fits(body: Value | Malformed) -> bool:
    return isinstance(body, Value) and not body.leftover


def encode_value(value: Value) -> bytes:
    """The inverse of `decode_value`; raises `EncodeError`."""
    if value.version not in value.VERSIONS:
        raise EncodeError(f"{type(value).__name__} has no version {value.version}")
    out = bytearray(_INT16.pack(value.version))
    try:
        compiled_writer(type(value), form_of(type(value), value.version, value.early))(out, value)
    except UNWRITABLE:
        del out[2:]
        write_fields(plan_of(type(value), value.version, value.early), out, value)
    return bytes(out + value.leftover)
