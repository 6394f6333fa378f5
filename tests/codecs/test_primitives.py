"""Wire types one by one: limits, zero, null, short by one byte, absurd lengths."""

from __future__ import annotations

from typing import Any

import pytest

from groupreplay.codecs.errors import NO_LIMIT, DecodeError, EncodeError
from groupreplay.codecs.primitives import (
    BYTES,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT16,
    UUID,
    Form,
    Number,
    WireType,
    read_uvarint,
    uuid_bytes,
    uuid_text,
    write_uvarint,
)

CLASSIC, FLEXIBLE = Form(0, False), Form(0, True)


def written(kind: WireType, value: Any, form: Form = CLASSIC, nullable: bool = False) -> bytes:
    """The bytes of one value."""
    out = bytearray()
    kind.writer(form, nullable)(out, value)
    return bytes(out)


def read(
    kind: WireType, data: bytes, form: Form = CLASSIC, nullable: bool = False, at: int = 0
) -> tuple[Any, int]:
    """The value at a position, and the next position."""
    return kind.reader(form, nullable)(data, at, NO_LIMIT)


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        (INT8, -(2**7), 2**7 - 1),
        (INT16, -(2**15), 2**15 - 1),
        (INT32, -(2**31), 2**31 - 1),
        (INT64, -(2**63), 2**63 - 1),
        (UINT16, 0, 2**16 - 1),
    ],
)
class TestNumbers:
    def test_limits(self, kind: Number, low: int, high: int) -> None:
        """Both limits and zero go there and back at their fixed width, big-endian."""
        for value in (low, 0, high):
            data = written(kind, value)
            assert data == value.to_bytes(kind.size, "big", signed=low < 0)
            assert read(kind, b"xx" + data, at=2) == (value, 2 + kind.size)

    def test_short_by_one_byte(self, kind: Number, low: int, high: int) -> None:
        """A missing byte is told with what was needed and what was left."""
        with pytest.raises(DecodeError, match=f"needs {kind.size} bytes, {kind.size - 1} are left") as caught:
            read(kind, bytes(kind.size + 2), at=3)
        assert caught.value.at == 3

    def test_beyond_the_limits(self, kind: Number, low: int, high: int) -> None:
        """A number that does not fit is the caller's fault."""
        for value in (low - 1, high + 1):
            with pytest.raises(EncodeError, match=f"{value} is not an {kind.name}"):
                written(kind, value)


@pytest.mark.parametrize(
    ("value", "data"),
    [(0, "00"), (127, "7f"), (128, "8001"), (16_383, "ff7f"), (16_384, "808001"), (2**31 - 1, "ffffffff07")],
)
def test_uvarint(value: int, data: str) -> None:
    """Seven bits a byte, low group first, the high bit says that more follow."""
    out = bytearray()
    write_uvarint(out, value)
    assert out.hex() == data
    assert read_uvarint(b"\xff" + out + b"\xff", 1) == (value, 1 + len(out))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("", "does not end"),
        ("80", "does not end"),
        ("ffffffff", "does not end"),
        ("8100", "padded"),
        ("808000", "padded"),
        ("ffffffff0f", "more than 31 bits"),
        ("ffffffffff01", "more than 5 bytes"),
        ("ffffffffffffffffff01", "more than 5 bytes"),
    ],
)
def test_bad_uvarints(data: str, reason: str) -> None:
    """Endless, padded and too long varints are malformed at their first byte.

    Kafka reads padded ones, but never writes them: refusing them is what keeps encode(decode(b)) == b.
    """
    with pytest.raises(DecodeError, match=reason) as caught:
        read_uvarint(bytes.fromhex(data), 0)
    assert caught.value.at == 0


def test_uvarints_that_cannot_be_written() -> None:
    """Negative numbers and more than 31 bits do not fit."""
    for value in (-1, 2**31):
        with pytest.raises(EncodeError, match="does not fit"):
            write_uvarint(bytearray(), value)


@pytest.mark.parametrize(
    ("kind", "value", "form", "data"),
    [
        (STRING, "", CLASSIC, "0000"),
        (STRING, "é", CLASSIC, "0002c3a9"),
        (STRING, None, CLASSIC, "ffff"),
        (STRING, "", FLEXIBLE, "01"),
        (STRING, "é", FLEXIBLE, "03c3a9"),
        (STRING, None, FLEXIBLE, "00"),
        (BYTES, b"", CLASSIC, "00000000"),
        (BYTES, b"\x00\xff", CLASSIC, "0000000200ff"),
        (BYTES, None, CLASSIC, "ffffffff"),
        (BYTES, b"", FLEXIBLE, "01"),
        (BYTES, b"\x00\xff", FLEXIBLE, "0300ff"),
        (BYTES, None, FLEXIBLE, "00"),
    ],
)
def test_lengths_and_nulls(kind: WireType, value: Any, form: Form, data: str) -> None:
    """Classic strings have int16 lengths, classic bytes int32 ones, flexible both a varint of length + 1."""
    assert written(kind, value, form, nullable=True).hex() == data
    assert read(kind, bytes.fromhex(data), form, nullable=True) == (value, len(data) // 2)
    if value is None:
        with pytest.raises(DecodeError, match="is null"):
            read(kind, bytes.fromhex(data), form)
        with pytest.raises(EncodeError, match="is None"):
            written(kind, value, form)


@pytest.mark.parametrize("length", [126, 127, 128, 16_382, 16_383, 16_384, 32_767])
@pytest.mark.parametrize("form", [CLASSIC, FLEXIBLE])
def test_string_lengths_around_the_limits_of_the_varint(length: int, form: Form) -> None:
    """Lengths where the varint grows, up to Kafka's longest string."""
    value = "x" * length
    data = written(STRING, value, form)
    assert read(STRING, data, form) == (value, len(data))
    with pytest.raises(DecodeError, match=f"needs {length} bytes, {length - 1} are left"):
        read(STRING, data[:-1], form)


def test_strings_longer_than_kafka_takes() -> None:
    """32 768 bytes are refused both ways, as by Kafka, although a flexible length could say more."""
    with pytest.raises(EncodeError, match="32768 bytes; the limit is 32767"):
        written(STRING, "é" * 16_384, FLEXIBLE)
    out = bytearray()
    write_uvarint(out, 32_769)
    with pytest.raises(DecodeError, match="string of 32768 bytes"):
        read(STRING, bytes(out) + b"x" * 32_768, FLEXIBLE)


@pytest.mark.parametrize("kind", [STRING, BYTES])
def test_absurd_lengths(kind: WireType) -> None:
    """Lengths beyond the bytes left and negative ones are told, and nothing is allocated; nullable, these are null."""
    with pytest.raises(DecodeError, match="are left"):
        read(kind, b"\x7f\xff\xff\xff", CLASSIC)
    with pytest.raises(DecodeError, match="negative length"):
        read(kind, b"\xff\xfe\xff\xff", CLASSIC)
    assert read(kind, b"\xff\xfe\xff\xff", CLASSIC, nullable=True) == (None, 2 if kind is STRING else 4)
    with pytest.raises(DecodeError, match="needs 2147483646 bytes, 0 are left"):
        read(kind, b"\xff\xff\xff\xff\x07", FLEXIBLE)


@pytest.mark.parametrize("data", [b"a\xff", b"a\xc3", b"a\xed\xa0\x80", b"a\xc0\x80"])
def test_invalid_utf8(data: bytes) -> None:
    """Wrong, cut, surrogate and overlong sequences are malformed at their position, never replaced."""
    with pytest.raises(DecodeError, match="not UTF-8") as caught:
        read(STRING, bytes([0, len(data)]) + data)
    assert caught.value.at == 3


def test_text_that_utf8_cannot_hold() -> None:
    """A lone surrogate cannot be written."""
    with pytest.raises(EncodeError, match="not text that UTF-8 can hold"):
        written(STRING, "\ud800")


def test_uuids() -> None:
    """Sixteen bytes, no length, no null."""
    uuid = bytes(range(16))
    assert written(UUID, uuid) == uuid
    assert read(UUID, b"x" + uuid, at=1) == (uuid, 17)
    with pytest.raises(DecodeError, match="needs 16 bytes, 15 are left"):
        read(UUID, uuid[1:])
    with pytest.raises(EncodeError, match="uuid of 3 bytes"):
        written(UUID, b"abc")


@pytest.mark.parametrize("kind", [INT8, INT16, INT32, INT64, UINT16, STRING, BYTES, UUID])
@pytest.mark.parametrize("form", [CLASSIC, FLEXIBLE])
def test_smallest_is_the_size_of_the_zero_value(kind: WireType, form: Form) -> None:
    """No value is shorter than the empty one, which bounds how many elements some bytes can hold."""
    assert kind.smallest(form) == len(written(kind, kind.zero, form))


def test_uuid_text() -> None:
    """URL-safe base64 without padding, as Kafka prints topic ids."""
    assert uuid_text(bytes(range(1, 17))) == "AQIDBAUGBwgJCgsMDQ4PEA"
    assert uuid_text(b"\xff" * 16) == "_____________________w"
    for uuid in (bytes(16), bytes(range(1, 17)), b"\xfb\xff" * 8):
        assert uuid_bytes(uuid_text(uuid)) == uuid


@pytest.mark.parametrize(
    "text", ["", "AQID", "AQIDBAUGBwgJCgsMDQ4PE!", "AQIDBAUGBwgJCgsMDQ4PEB", "+" * 22, "é" * 22]
)
def test_texts_that_are_no_uuid(text: str) -> None:
    """Wrong lengths, alphabets and stray bits are refused with the text."""
    with pytest.raises(ValueError, match="is not a Kafka uuid"):
        uuid_bytes(text)
