"""Properties of the codecs that hold for any bytes; ``fuzz_one_input`` is the entry point for a fuzzer."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from groupreplay.codecs import (
    REGISTRY,
    ConnectAssignment,
    ConnectMetadata,
    Key,
    Malformed,
    Skipped,
    Value,
    composites,
    decode_assignment,
    decode_blob,
    decode_key,
    decode_subscription,
    decode_value,
    encode_blob,
    encode_key,
    encode_value,
    primitives,
    registry,
    subscribed_topics,
)
from groupreplay.codecs.compiled import UNWRITABLE
from groupreplay.codecs.kafka_json import to_json
from groupreplay.codecs.primitives import LengthWriter

_FIELDS: dict[str, Any] = {
    "group": "g",
    "topic": "t",
    "partition": 0,
    "member_id": "m",
    "regular_expression": "r",
}
#: One key of every type, for decoding values.
KEYS = [
    key_class(**{name: _value for name, _value in _FIELDS.items() if name in key_class.__dataclass_fields__})
    for key_class, _ in REGISTRY.values()
]
BLOB_DECODERS = (
    decode_subscription,
    decode_assignment,
    partial(decode_blob, ConnectMetadata),
    partial(decode_blob, ConnectAssignment),
)

#: Bytes of a length by their kind: two and four bytes, and a varint, for which Kafka subtracts one.
NULL_LENGTHS = {
    "-2": (b"\xff\xfe", b"\xff\xff\xff\xfe", b"\xff\xff\xff\xff\x0f"),
    "the most negative": (b"\x80\0", b"\x80\0\0\0", b"\x81\x80\x80\x80\x08"),
    "the largest": (b"\x7f\xff", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07"),
    "one more": (b"\x7f\xff", b"\x7f\xff\xff\xff", b"\x80\x80\x80\x80\x08"),
    "padded": (b"\xff\xff", b"\xff\xff\xff\xff", b"\x80\0"),
}


def check_key(data: bytes) -> Key | Skipped | Malformed:
    """Any bytes decode to a key that encodes to the same bytes, to Skipped, or to Malformed with a position."""
    key = decode_key(data)
    if isinstance(key, Key):
        assert encode_key(key) == data
        to_json(key, None)
    else:
        check_refusal(key, data)
    return key


def check_value(key: Key, data: bytes) -> Value | Skipped | Malformed:
    """Any bytes decode, as the value of this key, to a value, to Skipped or to Malformed in the same way.

    A value encodes to the same bytes, but for lengths that stand for null.
    """
    value = decode_value(key, data)
    assert value is not None
    if isinstance(value, Value):
        assert is_same(encode_value(value), data)
        to_json(key, value)
    else:
        check_refusal(value, data)
    return value


def is_same(written: bytes, read: bytes) -> bool:
    """Whether these are the same bytes, except that any length below zero is written as -1, which Kafka writes."""
    return len(written) == len(read) and all(
        one in (other, 0xFF) for one, other in zip(written, read, strict=True)
    )


def check_refusal(refusal: Skipped | Malformed, data: bytes) -> None:
    """Skipped and Malformed give a reason; Malformed gives a field and a position inside the bytes or at their end."""
    assert isinstance(refusal, Skipped | Malformed)
    assert refusal.reason
    if isinstance(refusal, Malformed):
        assert refusal.field
        assert 0 <= refusal.at <= len(data)


def fuzz_one_input(data: bytes) -> None:
    """Decodes the bytes; the first byte selects the decoder."""
    chosen, rest = (data[0] if data else 0), data[1:]
    if chosen < 0x20:
        check_key(rest)
    elif chosen < 0x40:
        blob = BLOB_DECODERS[chosen % len(BLOB_DECODERS)](rest)
        if isinstance(blob, Malformed):
            check_refusal(blob, rest)
        elif rest:
            assert is_same(encode_blob(blob), rest)
        subscribed_topics(rest)
    else:
        check_value(KEYS[chosen % len(KEYS)], rest)


def write_nulls_with(length: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on our codecs write null with this length."""
    short, long, varint = NULL_LENGTHS[length]

    def write(out: bytearray, write_length: LengthWriter, nullable: bool) -> None:
        assert nullable
        if write_length is primitives._write_compact_length:
            out += varint
        else:
            out += short if write_length is primitives._write_int16 else long

    def interpreted(*_: object) -> None:
        raise UNWRITABLE[0]("compiled writers have a length of their own")

    monkeypatch.setattr(registry, "compiled_writer", interpreted)
    for module in (primitives, composites):
        monkeypatch.setattr(module, "write_null", write)
