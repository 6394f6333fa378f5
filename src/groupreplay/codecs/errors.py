"""Errors of decoding and encoding: values for callers, exceptions inside this package.

CodecError
 ├── DecodeError    the bytes are wrong; `decode_*` turns it into a `Malformed` value
 └── EncodeError    the caller is wrong: its version has no room for the value
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Skipped:
    """Bytes that may be right but that this release cannot read: an unknown type, version or early body."""

    key_type: int
    version: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Malformed:
    """Bytes that contradict their declaration.

    `field` is a path such as ``members[3].client_id``; `at` counts bytes from the start of the key, value or
    blob. `key_type` is None for an unreadable key and for blobs inside members.
    """

    key_type: int | None
    version: int | None
    field: str
    at: int
    reason: str


class CodecError(Exception):
    """Base of the two errors of this package."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.field = ""
        self.reason = reason

    def inside(self, part: str) -> None:
        """Put `part` (a field name or ``[index]``) in front of the field path."""
        dot = "." if self.field and not self.field.startswith("[") else ""
        self.field = f"{part}{dot}{self.field}"


class DecodeError(CodecError):
    """The bytes at position `at` contradict their declaration."""

    def __init__(self, at: int, reason: str) -> None:
        super().__init__(reason)
        self.at = at

    def __str__(self) -> str:
        return f"{self.field or 'record'} at byte {self.at}: {self.reason}"


class EncodeError(CodecError, ValueError):
    """A value that cannot be written: correct it, or choose a version that has it."""

    def __str__(self) -> str:
        return f"{self.field or 'record'}: {self.reason}"


#: A decoded record takes at most this many times its bytes, plus a constant.
MEMORY_FACTOR = 8
MEMORY_CONSTANT = 1 << 20

_FIXED_PARTS = 64 << 10  # room for the fields of the record itself, which are not charged one by one

# What CPython and its garbage collector take for small objects, rounded up.
NUMBER_COST = 28
STRING_COST = 56
BYTES_COST = 40
UUID_COST = 56
TUPLE_COST = 56
OBJECT_COST = 32  # without its slots
SLOT_COST = 8
ELEMENT_COST = 18  # a place in the growing list, and one in the tuple made of it
TAG_COST = 192
_SEEN_COST = 128  # an entry in the table of strings already seen


class Budget:
    """Memory left for the record being read.

    A few bytes can declare many objects (an empty struct is one byte on the wire and about a hundred in memory),
    so arrays are charged before they are built. Plain bytes and ASCII text are not charged: they are as long
    as their wire form, for which one share of the factor is reserved. Lists of strings repeat a few names
    (racks, topics), so equal strings become one object.
    """

    __slots__ = ("_seen", "left")

    def __init__(self, size: int) -> None:
        self.left = (MEMORY_FACTOR - 1) * size + MEMORY_CONSTANT - _FIXED_PARTS
        self._seen: dict[str, str] = {}

    def spend(self, amount: int, at: int) -> None:
        """Charge `amount` bytes for what is declared at position `at`; raises `DecodeError` when too much."""
        self.left -= amount
        if self.left < 0:
            raise DecodeError(at, f"would take more memory than {MEMORY_FACTOR} times the record's size")

    def shared(self, text: str, at: int) -> str:
        """The first equal string of this record; a new one is charged."""
        seen = self._seen.get(text)
        if seen is None:
            self.spend(STRING_COST + _SEEN_COST, at)
            seen = self._seen[text] = text
        return seen


class _NoLimit(Budget):
    """No limit, for data that cannot grow: keys, and single numbers. Can be shared."""

    __slots__ = ()

    def spend(self, amount: int, at: int) -> None:
        """Charge nothing."""


NO_LIMIT = _NoLimit(0)
