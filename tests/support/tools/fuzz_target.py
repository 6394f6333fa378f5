"""Properties of the codecs that hold for any bytes; ``fuzz_one_input`` is the entry point for a fuzzer."""

from __future__ import annotations

from functools import partial

from groupreplay.codecs import (
    REGISTRY,
    ConnectAssignment,
    ConnectMetadata,
    Key,
    Malformed,
    Skipped,
    Value,
    decode_assignment,
    decode_blob,
    decode_key,
    decode_subscription,
    decode_value,
    encode_blob,
    encode_key,
    encode_value,
    subscribed_topics,
)
from groupreplay.codecs.kafka_json import to_json

#: One key of every type, for decoding values.
KEYS = [
    key_class(**{name: _value for name, _value in fields.items() if name in key_class.__dataclass_fields__})
    for key_class, _ in REGISTRY.values()
    for fields in [{"group": "g", "topic": "t", "partition": 0, "member_id": "m", "regular_expression": "r"}]
]
BLOB_DECODERS = (
    decode_subscription,
    decode_assignment,
    partial(decode_blob, ConnectMetadata),
    partial(decode_blob, ConnectAssignment),
)


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
    """Any bytes decode, as the value of this key, to a value, to Skipped or to Malformed in the same way."""
    value = decode_value(key, data)
    assert value is not None
    if isinstance(value, Value):
        assert encode_value(value) == data
        to_json(key, value)
    else:
        check_refusal(value, data)
    return value


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
            assert encode_blob(blob) == rest
        subscribed_topics(rest)
    else:
        check_value(KEYS[chosen % len(KEYS)], rest)
