"""What must hold for any bytes whatever; one call is one execution."""

from __future__ import annotations

from groupreplay.codecs import (
    REGISTRY,
    Key,
    Malformed,
    Skipped,
    Value,
    decode_assignment,
    decode_key,
    decode_subscription,
    decode_value,
    encode_assignment,
    encode_key,
    encode_subscription,
    encode_value,
    subscribed_topics,
    to_json,
)
from groupreplay.codecs.connect import (
    decode_connect_assignment,
    decode_connect_metadata,
    encode_connect_assignment,
    encode_connect_metadata,
)

#: A key of every type, to put values under.
KEYS = [
    key_class(**{name: _value for name, _value in fields.items() if name in key_class.__dataclass_fields__})
    for key_class, _ in REGISTRY.values()
    for fields in [{"group": "g", "topic": "t", "partition": 0, "member_id": "m", "regular_expression": "r"}]
]
BLOBS = (
    (decode_subscription, encode_subscription),
    (decode_assignment, encode_assignment),
    (decode_connect_metadata, encode_connect_metadata),
    (decode_connect_assignment, encode_connect_assignment),
)


def check_key(data: bytes) -> Key | Skipped | Malformed:
    """Any bytes are a key that is written back byte for byte, or skipped, or malformed with a place."""
    key = decode_key(data)
    if isinstance(key, Key):
        assert encode_key(key) == data
        to_json(key, None)
    else:
        check_refusal(key, data)
    return key


def check_value(key: Key, data: bytes) -> Value | Skipped | Malformed:
    """The same of a value under this key."""
    value = decode_value(key, data)
    assert value is not None
    if isinstance(value, Value):
        assert encode_value(value) == data
        to_json(key, value)
    else:
        check_refusal(value, data)
    return value


def check_refusal(refusal: Skipped | Malformed, data: bytes) -> None:
    """It says why, and a malformed one where: inside the bytes or at their end."""
    assert isinstance(refusal, Skipped | Malformed)
    assert refusal.reason
    if isinstance(refusal, Malformed):
        assert refusal.field
        assert 0 <= refusal.at <= len(data)


def fuzz_one_input(data: bytes) -> None:
    """The entry for a fuzzer: the first byte chooses what the others are taken for."""
    chosen, rest = (data[0] if data else 0), data[1:]
    if chosen < 0x20:
        check_key(rest)
    elif chosen < 0x40:
        decode, encode = BLOBS[chosen % len(BLOBS)]
        blob = decode(rest)
        if isinstance(blob, Malformed):
            check_refusal(blob, rest)
        elif rest:
            assert encode(blob) == rest  # type: ignore[arg-type]
        subscribed_topics(rest)
    else:
        check_value(KEYS[chosen % len(KEYS)], rest)
