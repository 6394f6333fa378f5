"""Redpanda's dialect: what its records have beside the bytes of Kafka's. It is read where Kafka's reading fails.

Source: Redpanda's ``src/v/kafka/server/group_metadata.cc`` of 2024-12. A member of a ``GroupMetadata`` value of version
3 begins with an int16 of its own, its version. Keys of old tombstones have their length in front, four bytes in little
endian. A member's id would have to be one character long for Kafka's reading to succeed, too.
"""

from __future__ import annotations

import struct
from typing import Final

#: The name of the dialect in documents.
REDPANDA: Final = "redpanda"
#: The version of the value with members as they are read here.
VALUE_VERSION: Final = 3
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_LENGTH: Final = struct.Struct("<I")
#: Versions of a member that were written.
_MEMBER_VERSIONS: Final = range(4)
_GENERATION_BYTES: Final = 4
_TIME_BYTES: Final = 8
_TIMEOUTS_BYTES: Final = 8


def without_length(key: bytes) -> bytes | None:
    """The key in a tombstone's key with a length in front; None: there is none."""
    if len(key) <= _LENGTH.size or _LENGTH.unpack_from(key)[0] != len(key) - _LENGTH.size:
        return None
    return key[_LENGTH.size :]


def as_kafka(value: bytes) -> bytes | None:
    """A ``GroupMetadata`` value without the versions of its members; None: the bytes are not exactly that."""
    try:
        places = _member_places(value)
    except (struct.error, ValueError):
        return None
    ends = [*places, len(value)]
    return value[: ends[0]] + b"".join(
        value[place + _INT16.size : end] for place, end in zip(places, ends[1:], strict=True)
    )


def _member_places(value: bytes) -> list[int]:
    """Where each member begins; raises ValueError or struct.error if a byte is missing or left over."""
    at = _after_string(value, _INT16.size)  # protocol type
    at = _after_string(value, at + _GENERATION_BYTES)  # protocol
    at = _after_string(value, at) + _TIME_BYTES  # leader
    (count,) = _INT32.unpack_from(value, at)
    at += _INT32.size
    places = list[int]()
    for _ in range(count):
        places.append(at)
        if _INT16.unpack_from(value, at)[0] not in _MEMBER_VERSIONS:
            raise ValueError("no version of a member")
        at += _INT16.size
        for _ in ("member id", "instance id", "client id", "client host"):
            at = _after_string(value, at)
        at += _TIMEOUTS_BYTES
        for _ in ("subscription", "assignment"):
            at = _after(value, at + _INT32.size, _INT32.unpack_from(value, at)[0])
    if not places or at != len(value):
        raise ValueError("no member, or bytes behind the last one")
    return places


def _after_string(value: bytes, at: int) -> int:
    return _after(value, at + _INT16.size, _INT16.unpack_from(value, at)[0])


def _after(value: bytes, at: int, length: int) -> int:
    end = at + max(0, length)
    if length < -1 or end > len(value):
        raise ValueError("a length that cannot be")
    return end
