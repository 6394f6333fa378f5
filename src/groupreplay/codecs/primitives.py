"""Kafka's wire types: numbers, uuids, strings, byte strings; a reader and a writer for each.

They read and write the classic and the flexible encoding (`MessageUtil`, `ByteBufferAccessor` and `ByteUtils`
of kafka-clients).

A reader is ``(data, at, budget) -> (value, next position)`` and raises `DecodeError`; a writer is
``(out, value) -> None`` and raises `EncodeError`. Everything is big-endian.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from dataclasses import dataclass
from sys import getsizeof
from typing import Any, NamedTuple, Protocol

from groupreplay.codecs.errors import (
    BYTES_COST,
    NUMBER_COST,
    STRING_COST,
    UUID_COST,
    Budget,
    DecodeError,
    EncodeError,
)

_LONGEST_STRING = 0x7FFF  # also in the flexible encoding: the generated Java readers refuse more
_LONGEST = 0x7FFFFFFF

ZERO_UUID = bytes(16)


Reader = Callable[[bytes, int, Budget], tuple[Any, int]]
Writer = Callable[[bytearray, Any], None]
LengthReader = Callable[[bytes, int], tuple[int, int]]
LengthWriter = Callable[[bytearray, int], None]


class Form(NamedTuple):
    """The layout of a message: its version, and whether it uses the flexible encoding."""

    version: int
    flexible: bool


class WireType(Protocol):
    """A type that a field can have."""

    @property
    def name(self) -> str:
        """Kafka's name of the type, as in the message schemas."""

    @property
    def zero(self) -> Any:
        """The value of a field without a default, as in Kafka's generated classes."""

    @property
    def cost(self) -> int:
        """Bytes of memory that a value takes, beyond a reference to it and its content."""

    def smallest(self, form: Form) -> int:
        """Bytes of the shortest wire form."""

    def reader(self, form: Form, nullable: bool) -> Reader:
        """The function that reads a value laid out in this form."""

    def writer(self, form: Form, nullable: bool) -> Writer:
        """The function that writes a value in this form."""


def short(data: bytes, at: int, wanted: int) -> DecodeError:
    """The error for bytes that end too early."""
    return DecodeError(at, f"needs {wanted} bytes, {max(len(data) - at, 0)} are left")


def null(at: int, length: int = -1) -> DecodeError:
    """The error for a null where the schema allows none."""
    if length < -1:
        return DecodeError(at, f"has the negative length {length}")
    return DecodeError(at, "is null, which this field may not be")


def read_uvarint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned varint of at most 31 bits.

    Stricter than Kafka, which also reads padded forms (``81 00``) and, as null, lengths of 32 bits: only brokers
    write varints, and none writes these. Refusing them keeps ``encode(decode(b)) == b`` true.
    """
    try:
        byte = data[at]
        if byte < 0x80:
            return byte, at + 1
        value, shift, position = byte & 0x7F, 7, at + 1
        while True:
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 28:
                raise DecodeError(at, "is a varint of more than 5 bytes")
    except IndexError:
        raise DecodeError(at, "is a varint that does not end") from None
    if value > _LONGEST:
        raise DecodeError(at, "is a varint of more than 31 bits")
    if byte == 0:
        raise DecodeError(at, "is a varint padded with zeros")
    return value, position


def write_uvarint(out: bytearray, value: int) -> None:
    """Append an unsigned varint, shortest form."""
    if not 0 <= value <= _LONGEST:
        raise EncodeError(f"{value} does not fit an unsigned varint")
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


@dataclass(frozen=True, slots=True)
class Number:
    """A fixed-width integer; `code` is its letter in Python's `struct`."""

    name: str
    code: str
    zero: int = 0
    cost: int = NUMBER_COST

    @property
    def size(self) -> int:
        """Bytes on the wire."""
        return struct.calcsize(">" + self.code)

    def smallest(self, form: Form) -> int:
        """Same in every form."""
        return self.size

    def reader(self, form: Form, nullable: bool) -> Reader:
        """Same in every form; never null."""
        layout = struct.Struct(">" + self.code)
        unpack, size = layout.unpack_from, layout.size

        def read(data: bytes, at: int, budget: Budget) -> tuple[int, int]:
            try:
                return unpack(data, at)[0], at + size
            except struct.error:
                raise short(data, at, size) from None

        return read

    def writer(self, form: Form, nullable: bool) -> Writer:
        """Same in every form; never null."""
        pack = struct.Struct(">" + self.code).pack

        def write(out: bytearray, value: int) -> None:
            try:
                out += pack(value)
            except struct.error:
                raise EncodeError(f"{value!r} is not an {self.name}") from None

        return write


INT8 = Number("int8", "b")
INT16 = Number("int16", "h")
INT32 = Number("int32", "i")
INT64 = Number("int64", "q")
UINT16 = Number("uint16", "H")

_CLASSIC = Form(0, False)


def _classic_length(number: Number) -> LengthReader:
    layout = struct.Struct(">" + number.code)
    unpack, size = layout.unpack_from, layout.size

    def read(data: bytes, at: int) -> tuple[int, int]:
        try:
            return unpack(data, at)[0], at + size
        except struct.error:
            raise short(data, at, size) from None

    return read


_int16_length, _int32_length = _classic_length(INT16), _classic_length(INT32)
_write_int16, _write_int32 = INT16.writer(_CLASSIC, False), INT32.writer(_CLASSIC, False)


def _compact_length(data: bytes, at: int) -> tuple[int, int]:
    length, start = read_uvarint(data, at)
    return length - 1, start


def _write_compact_length(out: bytearray, length: int) -> None:
    write_uvarint(out, length + 1)


def length_reader(form: Form, *, is_string: bool = False) -> LengthReader:
    """Reads the length in front of strings, bytes and arrays; one below zero stands for null.

    Kafka writes -1 and reads any: classic lengths are also written by clients, in the blobs of members.
    """
    if form.flexible:
        return _compact_length
    return _int16_length if is_string else _int32_length


def length_writer(form: Form, *, is_string: bool = False) -> LengthWriter:
    """Writes what `length_reader` reads."""
    if form.flexible:
        return _write_compact_length
    return _write_int16 if is_string else _write_int32


@dataclass(frozen=True, slots=True)
class Text:
    """A string: UTF-8 behind its length in bytes.

    ``errors`` as for ``bytes.decode``: ``strict`` makes other bytes malformed, ``surrogateescape`` keeps them.
    """

    name: str = "string"
    zero: str = ""
    cost: int = STRING_COST
    errors: str = "strict"

    def smallest(self, form: Form) -> int:
        """The length alone."""
        return 1 if form.flexible else 2

    def reader(self, form: Form, nullable: bool) -> Reader:
        """Reads str, or None when nullable."""
        length_of, errors = length_reader(form, is_string=True), self.errors

        def read(data: bytes, at: int, budget: Budget) -> tuple[str | None, int]:
            length, start = length_of(data, at)
            if length < 0:
                if nullable:
                    return None, start
                raise null(at, length)
            end = start + length
            if end > len(data):
                raise short(data, start, length)
            if length > _LONGEST_STRING:
                raise DecodeError(at, f"is a string of {length} bytes; Kafka's limit is {_LONGEST_STRING}")
            try:
                value = data[start:end].decode(errors=errors)
            except UnicodeDecodeError as error:
                raise DecodeError(start + error.start, f"is not UTF-8: {error.reason}") from None
            if not value.isascii():
                budget.spend(getsizeof(value), at)
            return value, end

        return read

    def writer(self, form: Form, nullable: bool) -> Writer:
        """Writes str, or None when nullable."""
        write_length, errors = length_writer(form, is_string=True), self.errors

        def write(out: bytearray, value: str | None) -> None:
            if value is None:
                write_null(out, write_length, nullable)
                return
            try:
                encoded = value.encode(errors=errors)
            except UnicodeEncodeError as error:
                raise EncodeError(f"is not text that UTF-8 can hold: {error.reason}") from None
            if len(encoded) > _LONGEST_STRING:
                raise EncodeError(f"is a string of {len(encoded)} bytes; the limit is {_LONGEST_STRING}")
            write_length(out, len(encoded))
            out += encoded

        return write


def is_text(text: str) -> bool:
    """Whether the bytes of a ``CLIENT_STRING`` were UTF-8; a text that was not has lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes behind their length."""

    name: str = "bytes"
    zero: bytes = b""
    cost: int = BYTES_COST

    def smallest(self, form: Form) -> int:
        """The length alone."""
        return 1 if form.flexible else 4

    def reader(self, form: Form, nullable: bool) -> Reader:
        """Reads bytes, or None when nullable."""
        length_of = length_reader(form)

        def read(data: bytes, at: int, budget: Budget) -> tuple[bytes | None, int]:
            length, start = length_of(data, at)
            if length < 0:
                if nullable:
                    return None, start
                raise null(at, length)
            end = start + length
            if end > len(data):
                raise short(data, start, length)
            return data[start:end], end

        return read

    def writer(self, form: Form, nullable: bool) -> Writer:
        """Writes bytes, or None when nullable."""
        write_length = length_writer(form)

        def write(out: bytearray, value: bytes | None) -> None:
            if value is None:
                write_null(out, write_length, nullable)
                return
            write_length(out, len(value))
            out += value

        return write


@dataclass(frozen=True, slots=True)
class Uuid:
    """16 bytes; all zero means no id."""

    name: str = "uuid"
    zero: bytes = ZERO_UUID
    cost: int = UUID_COST

    def smallest(self, form: Form) -> int:
        """Same in every form."""
        return 16

    def reader(self, form: Form, nullable: bool) -> Reader:
        """Reads 16 bytes; never null."""

        def read(data: bytes, at: int, budget: Budget) -> tuple[bytes, int]:
            end = at + 16
            if end > len(data):
                raise short(data, at, 16)
            return data[at:end], end

        return read

    def writer(self, form: Form, nullable: bool) -> Writer:
        """Writes 16 bytes; never null."""

        def write(out: bytearray, value: bytes) -> None:
            if len(value) != 16:
                raise EncodeError(f"is a uuid of {len(value)} bytes; it takes 16")
            out += value

        return write


STRING = Text()
#: A string in a blob that a client encodes and brokers store as it is: its bytes may be no UTF-8 (see ``is_text``).
CLIENT_STRING = Text(errors="surrogateescape")
BYTES = Blob()
UUID = Uuid()


def write_null(out: bytearray, write_length: LengthWriter, nullable: bool) -> None:
    """Write the length that stands for null; raises `EncodeError` where the schema allows none."""
    if not nullable:
        raise EncodeError("is None, which this field may not be")
    write_length(out, -1)


def uuid_text(uuid: bytes) -> str:
    """Kafka's text form of a uuid: URL-safe base64 without padding, 22 characters."""
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode()


def uuid_bytes(text: str) -> bytes:
    """The inverse of `uuid_text`; raises ValueError when `text` is no Kafka uuid."""
    try:
        uuid = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except ValueError:
        uuid = b""
    if len(uuid) != 16 or uuid_text(uuid) != text:
        raise ValueError(f"{text!r} is not a Kafka uuid: 22 characters of A-Z, a-z, 0-9, - and _")
    return uuid
