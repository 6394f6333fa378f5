"""What can go wrong with bytes, as values for callers and as exceptions inside this package.

    CodecError
     ├── DecodeError    the bytes are at fault; `decode_*` turns it into a `Malformed` value
     └── EncodeError    the caller is at fault: a value that its version cannot carry

Knows no record and no wire type.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Skipped:
    """Bytes that may be right but that this release does not know: an unknown type, version or early body."""

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
    """The bytes at position `at` cannot be what their declaration says."""

    def __init__(self, at: int, reason: str) -> None:
        super().__init__(reason)
        self.at = at

    def __str__(self) -> str:
        return f"{self.field or 'record'} at byte {self.at}: {self.reason}"


class EncodeError(CodecError, ValueError):
    """A value that cannot be written: set it right, or choose a version that carries it."""

    def __str__(self) -> str:
        return f"{self.field or 'record'}: {self.reason}"
