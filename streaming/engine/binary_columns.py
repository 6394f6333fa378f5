"""A binary Arrow column laid open for NumPy: gathers numbers and strings from many values at once.

Knows Arrow's buffers and big-endian numbers; must not know what the bytes mean.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]


class BinaryColumn(NamedTuple):
    """Value ``i`` is ``data[start[i]:end[i]]``; a null one is empty."""

    data: Bytes
    start: Ints
    end: Ints
    is_null: Flags

    @classmethod
    def of(cls, column: pa.LargeBinaryArray) -> BinaryColumn:
        """The buffers behind an Arrow column, not copied."""
        _, offsets, data = column.buffers()
        places = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
        return cls(
            np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8),
            places[:-1],
            places[1:],
            numbers(column.is_null().cast(pa.uint8())).astype(bool),
        )

    def __len__(self) -> int:
        return len(self.start)

    def at(self, row: int) -> bytes | None:
        """One value; None for a null."""
        return None if self.is_null[row] else self.data[self.start[row] : self.end[row]].tobytes()


def numbers(column: pa.Array) -> npt.NDArray[Any]:
    """A column of numbers without nulls, not copied. Arrow's own ``to_numpy`` would load pandas first."""
    return np.from_dlpack(column)


def structures(data: Bytes, at: Ints, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """What begins at each of the bytes ``at``, read as ``dtype``; all of it must lie in the data.

    A view where the distance from one to the next is always the same, as it is in most logs.
    """
    if not len(at):
        return np.zeros(0, dtype)
    step = int(at[1] - at[0]) if len(at) > 1 else 1
    if step > 0 and np.array_equal(at, np.arange(int(at[0]), int(at[0]) + step * len(at), step)):
        even: npt.NDArray[Any] = np.ndarray((len(at),), dtype, data, offset=int(at[0]), strides=(step,))
        return even
    # One beginning at each byte, overlapping; only those asked for are ever read.
    everywhere: npt.NDArray[Any] = np.ndarray((len(data) - dtype.itemsize + 1,), dtype, data, strides=(1,))
    gathered: npt.NDArray[Any] = everywhere[at]
    return gathered


def integers(data: Bytes, at: Ints, dtype: str) -> Ints:
    """The integers of ``dtype`` (such as ``>i4``) that begin at the bytes ``at``."""
    return structures(data, at, np.dtype(dtype)).astype(np.int64)


def is_ascii(data: Bytes, start: Ints, length: Ints) -> Flags:
    """Which of the strings are ASCII; they lie in ``data`` one behind the other, in rising order."""
    ascii_only = np.ones(len(start), bool)
    filled = np.flatnonzero(length > 0)
    if len(filled):
        bounds = np.column_stack((start[filled], start[filled] + length[filled])).ravel()
        # The last stretch runs to the end of the data by itself, and an index there would be out of bounds.
        bounds = bounds[: len(bounds) - int(bounds[-1] == len(data))]
        # Every other stretch lies between two strings.
        ascii_only[filled] = np.maximum.reduceat(data, bounds)[::2] < 128
    return ascii_only


def distinct(data: Bytes, start: Ints, length: Ints) -> tuple[list[bytes], Ints]:
    """(the distinct strings, which of them each string is)."""
    ends = np.cumsum(length)
    places = np.repeat(start - ends + length, length) + np.arange(ends[-1] if len(ends) else 0)
    strings = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(),
        len(start),
        [None, pa.py_buffer(np.r_[0, ends].astype(np.int64)), pa.py_buffer(data[places])],
    ).dictionary_encode()
    return strings.dictionary.to_pylist(), numbers(strings.indices).astype(np.int64)
