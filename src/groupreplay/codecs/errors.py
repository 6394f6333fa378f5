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
