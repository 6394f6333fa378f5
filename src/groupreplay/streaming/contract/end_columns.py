"""Many numbers in few bytes: columns of integers, such as those of the ends of partitions."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

#: Places that a table may have, which bounds the memory of a reader.
MOST_PLACES: Final = 2_000_000
_HEAD: Final = struct.Struct("<IB")
#: A message has at most 1 MiB; this is what a column of zeros would make of it.
_MOST_BYTES: Final = 256 << 20


def column_bytes(columns: Sequence[Ints]) -> bytes:
    """Columns of numbers: of each column first the lowest bytes of all numbers. Small numbers have only those."""
    body = bytearray()
    for column in columns:
        numbers = column.astype("<i8")
        width = (int(numbers.view("<u8").max()).bit_length() + 7) // 8 if len(numbers) else 0
        body += _HEAD.pack(len(numbers), width)
        body += np.ascontiguousarray(numbers.view(np.uint8).reshape(-1, 8)[:, :width].T).tobytes()
    return bytes(body)


def pack_columns(columns: Sequence[Ints]) -> bytes:
    """The same, compressed."""
    return zlib.compress(column_bytes(columns), 9)


def unpack_columns(packed: bytes, count: int) -> list[Ints]:
    """The inverse of ``pack_columns``, of so many columns.

    Raises:
        ValueError: these are other bytes.
    """
    stream = zlib.decompressobj()
    try:
        body = stream.decompress(packed, _MOST_BYTES)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not stream.eof:
        raise ValueError("the columns are cut off")
    return columns_of(body, count)


def columns_of(body: bytes, count: int) -> list[Ints]:
    """The inverse of ``column_bytes``, of so many columns.

    Raises:
        ValueError: these are other bytes.
    """
    columns, at = list[Ints](), 0
    for _ in range(count):
        if len(body) - at < _HEAD.size:
            raise ValueError("a column is missing")
        length, width = _HEAD.unpack_from(body, at)
        at += _HEAD.size
        if width > 8 or length > MOST_PLACES or len(body) - at < length * width:
            raise ValueError("a column is cut off")
        planes = np.frombuffer(body, np.uint8, length * width, at).reshape(width, length)
        column = np.zeros((length, 8), np.uint8)
        column[:, :width] = planes.T
        columns.append(column.view("<i8").reshape(length).astype(np.int64))
        at += length * width
    return columns


def unsigned(values: Ints) -> Ints:
    """Small numbers of either sign as small numbers."""
    return (values << 1) ^ (values >> 63)


def signed(values: Ints) -> Ints:
    """The inverse."""
    return (values.view(np.uint64) >> np.uint64(1)).view(np.int64) ^ -(values & 1)


@dataclass(slots=True)
class EndColumns:
    """By place: the end, the log start offset, the end minus the last stable offset, and the leader's epoch."""

    end: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    start: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    waiting: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    epoch: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    def grow(self, count: int) -> None:
        """Make room for so many places."""
        missing = count - len(self.end)
        if missing > 0:
            for name in self.__dataclass_fields__:
                column = getattr(self, name)
                setattr(self, name, np.concatenate([column, np.zeros(missing, column.dtype)]))
