"""Binary Arrow columns as NumPy arrays: reads numbers and strings out of many values at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]


class BinaryColumn(NamedTuple):
    """Value ``i`` is ``data[start[i]:end[i]]``; a null value is empty."""

    data: Bytes
    start: Ints
    end: Ints
    is_null: Flags

    @classmethod
    def of(cls, column: pa.LargeBinaryArray) -> BinaryColumn:
        """The buffers of an Arrow column, without a copy."""
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
        """One value; None for null."""
        return None if self.is_null[row] else self.data[self.start[row] : self.end[row]].tobytes()


def numbers(column: pa.Array) -> npt.NDArray[Any]:
    """A column of numbers without nulls, without a copy. Arrow's own ``to_numpy`` would import pandas."""
    return np.from_dlpack(column)


def structures(data: Bytes, at: Ints, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The structures of ``dtype`` that begin at the bytes ``at``; all of them must lie inside the data.

    Returns a view when they are evenly spaced, as in most logs.
    """
    if not len(at):
        return np.zeros(0, dtype)
    step = int(at[1] - at[0]) if len(at) > 1 else 1
    if step > 0 and np.array_equal(at, np.arange(int(at[0]), int(at[0]) + step * len(at), step)):
        even: npt.NDArray[Any] = np.ndarray((len(at),), dtype, data, offset=int(at[0]), strides=(step,))
        return even
    # Overlapping structures, one beginning at each byte; only those at ``at`` are read.
    everywhere: npt.NDArray[Any] = np.ndarray((len(data) - dtype.itemsize + 1,), dtype, data, strides=(1,))
    gathered: npt.NDArray[Any] = everywhere[at]
    return gathered


def integers(data: Bytes, at: Ints, dtype: str) -> Ints:
    """The integers of ``dtype`` (such as ``>i4``) that begin at the bytes ``at``."""
    return structures(data, at, np.dtype(dtype)).astype(np.int64)


def is_ascii(data: Bytes, start: Ints, length: Ints) -> Flags:
    """Which of the strings are ASCII; they do not overlap and are in rising order of their place in ``data``."""
    ascii_only = np.ones(len(start), bool)
    filled = np.flatnonzero(length > 0)
    if len(filled):
        bounds = np.column_stack((start[filled], start[filled] + length[filled])).ravel()
        # ``reduceat`` extends the last stretch to the end of the data; an index there would be out of bounds.
        bounds = bounds[: len(bounds) - int(bounds[-1] == len(data))]
        # Every other stretch lies between two strings.
        ascii_only[filled] = np.maximum.reduceat(data, bounds)[::2] < 128
    return ascii_only


def distinct(data: Bytes, start: Ints, length: Ints) -> tuple[list[bytes], Ints]:
    """(the distinct strings, the index of each string among them)."""
    ends = np.cumsum(length)
    places = np.repeat(start - ends + length, length) + np.arange(ends[-1] if len(ends) else 0)
    strings = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(),
        len(start),
        [None, pa.py_buffer(np.r_[0, ends].astype(np.int64)), pa.py_buffer(data[places])],
    ).dictionary_encode()
    return strings.dictionary.to_pylist(), numbers(strings.indices).astype(np.int64)
