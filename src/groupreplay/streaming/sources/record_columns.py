"""The records of batches as columns: of batches that are not compressed all at once, without an object for each record.

Only the lengths of records are read one after the other, because each says where the next record begins; every other
field is read of all of them in one step. aiokafka, which reads the rest, makes a Python object of each record: that
takes several times as long as the broker itself takes to load the same log.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_Numbers = npt.NDArray[np.int64]

#: Head of a record batch (Kafka's ``DefaultRecordBatch``), and in it the base offset, the attributes, the first and the
#: last time, and the number of records.
HEAD_BYTES: Final = 61
_HEAD: Final = struct.Struct(">q13xh4xqq14xi")
_APPEND_TIME: Final = 0x08
#: Behind the last batch: zeros end a number that goes on beyond it.
_PADDING: Final = bytes(16)
_MOST_BITS: Final = 63


class Columns(NamedTuple):
    """Records of one partition, one entry each."""

    offsets: pa.Array
    timestamps: pa.Array
    timestamp_types: pa.Array
    keys: pa.Array
    values: pa.Array


def columns_of_records(records: Sequence[Any]) -> Columns:
    """Of records of aiokafka; messages before Kafka 0.10 have no time: -1."""
    return Columns(
        pa.array([record.offset for record in records], pa.int64()),
        pa.array([-1 if record.timestamp is None else record.timestamp for record in records], pa.int64()),
        pa.array(
            [-1 if record.timestamp_type is None else record.timestamp_type for record in records],
            pa.int32(),
        ),
        pa.array([record.key for record in records], pa.binary()),
        pa.array([record.value for record in records], pa.binary()),
    )


def columns_of_batches(blocks: Sequence[bytes]) -> Columns | None:
    """Of record batches that are not compressed, less than 2 GiB of them; None: one is not what its head says."""
    data = b"".join([*blocks, _PADDING])
    heads = [_HEAD.unpack_from(block) for block in blocks]
    ends = list(accumulate(map(len, blocks)))
    starts = array("q")
    for block, end, head in zip(blocks, ends, heads, strict=True):
        if not _add_records(data, end - len(block) + HEAD_BYTES, end, head[-1], starts):
            return None
    counts = np.array([head[-1] for head in heads], np.int64)
    fields = _Fields(data, np.frombuffer(starts, np.int64), _tails(starts, counts, ends))
    if not fields.read():
        return None
    base, attributes, first_ms, last_ms = (
        np.repeat(np.array([head[place] for head in heads], np.int64), counts) for place in range(4)
    )
    is_appended = (attributes & _APPEND_TIME) != 0
    return Columns(
        _arrow(base + fields.offset_deltas, pa.int64()),
        _arrow(np.where(is_appended, last_ms, first_ms + fields.time_deltas), pa.int64()),
        _arrow(is_appended.astype(np.int32), pa.int32()),
        *fields.keys_and_values(),
    )


def _add_records(data: bytes, position: int, end: int, count: int, starts: array[int]) -> bool:
    """Adds where the records of a batch begin, with their lengths; whether they are as many as it says."""
    add, before = starts.append, len(starts)
    while position < end:
        add(position)
        length = data[position]
        if length > 127:
            length, bits = length & 127, 7
            while (byte := data[position := position + 1]) > 127:
                length |= (byte & 127) << bits
                bits += 7
                if bits > _MOST_BITS:
                    return False
            length |= byte << bits
        position += 1 + (length >> 1)
    return position == end and len(starts) - before == count


def _tails(starts: array[int], counts: _Numbers, ends: Sequence[int]) -> _Numbers:
    """Where each record ends: at the next one, the last one of a batch with it."""
    tails = np.empty(len(starts), np.int64)
    tails[:-1] = np.frombuffer(starts, np.int64)[1:]
    has_records = counts > 0
    tails[(np.cumsum(counts) - 1)[has_records]] = np.array(ends, np.int64)[has_records]
    return tails


class _Fields:
    """The fields of all records (Kafka's ``DefaultRecord``); brokers write no headers into this topic."""

    def __init__(self, data: bytes, starts: _Numbers, tails: _Numbers) -> None:
        self._data = data
        self._bytes = np.frombuffer(data, np.uint8)
        self._starts, self._tails = starts, tails
        self.time_deltas = self.offset_deltas = starts
        self._keys = self._values = (starts, starts)

    def read(self) -> bool:
        """Whether every record is its length and its fields, with no headers behind them."""
        length, body = self._varints(self._starts)
        # The first byte has attributes, of which none is in use.
        if (body + length != self._tails).any() or self._bytes[body].any():
            return False
        self.time_deltas, position = self._varints(body + 1)
        self.offset_deltas, position = self._varints(position)
        key = self._span(position)
        value = None if key is None else self._span(key[0] + np.maximum(key[1], 0))
        if key is None or value is None:
            return False
        headers = value[0] + np.maximum(value[1], 0)
        self._keys, self._values = key, value
        return bool(((headers == self._tails - 1) & (self._bytes[headers] == 0)).all())

    def keys_and_values(self) -> tuple[pa.Array, pa.Array]:
        """Cut out of the batches; null where a record has none."""
        cuts = np.empty((len(self._starts), 4), np.int32)
        for place, (start, length) in enumerate((self._keys, self._values)):
            cuts[:, 2 * place] = start
            cuts[:, 2 * place + 1] = start + np.maximum(length, 0)
        pieces = pa.Array.from_buffers(
            pa.binary(), max(0, cuts.size - 1), [None, pa.py_buffer(cuts), pa.py_buffer(self._data)]
        )
        places = np.arange(len(cuts), dtype=np.int64) * 4
        keys, values = (
            pieces.take(_arrow(places + 2 * place, pa.int64(), present=length >= 0))
            for place, (_, length) in enumerate((self._keys, self._values))
        )
        return keys, values

    def _span(self, position: _Numbers) -> tuple[_Numbers, _Numbers] | None:
        """Where bytes begin, and how many they are (-1: null); None: one is beyond its record."""
        if (position >= self._tails).any():
            return None
        length, start = self._varints(position)
        is_whole = (length >= -1) & (length <= self._tails - start)
        return (start, length) if is_whole.all() else None

    def _varints(self, position: _Numbers) -> tuple[_Numbers, _Numbers]:
        """Signed numbers of one to ten bytes (zigzag), and where each ends."""
        byte = self._bytes[position].astype(np.int64)
        number, end = byte & 127, position + 1
        more = np.flatnonzero(byte > 127)
        for bits in range(7, _MOST_BITS + 1, 7):
            if not more.size:
                break
            byte = self._bytes[end[more]].astype(np.int64)
            number[more] |= (byte & 127) << bits
            end[more] += 1
            more = more[byte > 127]
        return ((number >> 1) & ((1 << _MOST_BITS) - 1)) ^ -(number & 1), end


def _arrow(
    numbers: npt.NDArray[Any], kind: pa.DataType, present: npt.NDArray[np.bool_] | None = None
) -> pa.Array:
    """Without a copy; ``pa.array`` imports pandas to look at what it gets, which takes a third of a second."""
    valid = None if present is None else pa.py_buffer(np.packbits(present, bitorder="little"))
    return pa.Array.from_buffers(kind, len(numbers), [valid, pa.py_buffer(numbers)])
