"""The records of batches as columns: of batches that are not compressed all at once, without an object for each record.

Every field is read of all records in one step. Only in a batch with records of several lengths they are read one after
the other, because each says where the next one begins. aiokafka, which reads the rest, makes a Python object of each
record: that takes several times as long as the broker itself takes to load the same log.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from groupreplay.streaming.contract.log import ROW_SCHEMA

_Numbers = npt.NDArray[np.int64]

_Bytes = npt.NDArray[np.uint8]

#: Head of a record batch (Kafka's ``DefaultRecordBatch``), of which these fields are used.
HEAD_BYTES: Final = 61
_HEAD: Final = np.dtype(
    {
        "names": ["base_offset", "attributes", "first_ms", "last_ms", "count"],
        "formats": [">i8", ">i2", ">i8", ">i8", ">i4"],
        "offsets": [0, 21, 27, 35, 57],
        "itemsize": HEAD_BYTES,
    }
)
_APPEND_TIME: Final = 0x08
#: Behind the last batch: zeros end a number that goes on beyond it.
_PADDING: Final = bytes(16)
_MOST_BITS: Final = 63
#: Length, attributes, two deltas, the lengths of key and value, the number of headers: a byte each.
_LEAST_RECORD_BYTES: Final = 7
#: From these records of a batch on, the offset delta takes a byte more.
_WIDER: Final = (1 << 6, 1 << 13, 1 << 20)


class Columns(NamedTuple):
    """Records of one partition, one entry each."""

    offsets: pa.Array
    timestamps: pa.Array
    timestamp_types: pa.Array
    keys: pa.Array
    values: pa.Array

    def rows(self, topic: str, partition: int) -> pa.RecordBatch:
        """The records with the columns of ``ROW_SCHEMA``."""
        count, name = len(self.offsets), topic.encode()
        ends = np.arange(count + 1, dtype=np.int32) * len(name)
        # ``pa.repeat`` imports pandas, as ``pa.array`` does.
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(name * count)]
        topics = pa.Array.from_buffers(pa.string(), count, buffers)
        partitions = _arrow(np.full(count, partition, np.int32), pa.int32())
        return pa.RecordBatch.from_arrays([topics, partitions, *self], schema=ROW_SCHEMA)


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
    heads = np.frombuffer(b"".join([block[:HEAD_BYTES] for block in blocks]), _HEAD)
    ends = np.cumsum(np.fromiter(map(len, blocks), np.int64, len(blocks)))
    begins, counts = np.append(0, ends[:-1]) + HEAD_BYTES, heads["count"].astype(np.int64)
    places = _record_places(data, begins, ends, counts)
    if places is None or not (fields := _Fields(data, *places)).read():
        return None
    base, attributes, first_ms, last_ms = (
        np.repeat(heads[name].astype(np.int64), counts)
        for name in ("base_offset", "attributes", "first_ms", "last_ms")
    )
    is_appended = (attributes & _APPEND_TIME) != 0
    return Columns(
        _arrow(base + fields.offset_deltas, pa.int64()),
        _arrow(np.where(is_appended, last_ms, first_ms + fields.time_deltas), pa.int64()),
        _arrow(is_appended.astype(np.int32), pa.int32()),
        *fields.keys_and_values(),
    )


def _record_places(
    data: bytes, begins: _Numbers, ends: _Numbers, counts: _Numbers
) -> tuple[_Numbers, _Numbers] | None:
    """Where each record begins behind its length, and where it ends; None: a batch has not as many as it says."""
    if ((counts < 0) | (counts > (ends - begins) // _LEAST_RECORD_BYTES)).any():
        return None
    # The records of one request mostly differ in their offset deltas alone: then each is where it has to be.
    even_bytes, firsts = ends - begins - _wider_bytes(counts), np.cumsum(counts) - counts
    sizes = even_bytes // np.maximum(counts, 1)
    batches, batch_begins, record_sizes = (
        np.repeat(each, counts) for each in (np.arange(len(counts)), begins, sizes)
    )

    def place_of(number: _Numbers) -> _Numbers:
        places: _Numbers = batch_begins + number * record_sizes + _wider_bytes(number)
        return places

    numbers = np.arange(len(batches)) - np.repeat(firsts, counts)
    lengths, bodies = _varints(np.frombuffer(data, np.uint8), place_of(numbers))
    tails = bodies + lengths
    is_even = sizes * counts == even_bytes
    is_even[batches[tails != place_of(numbers + 1)]] = False
    for place in np.flatnonzero(~is_even).tolist():
        found = _places_of_one(data, int(begins[place]), int(ends[place]))
        first, count = int(firsts[place]), int(counts[place])
        if found is None or len(found[0]) != count:
            return None
        bodies[first : first + count], tails[first : first + count] = found
    return bodies, tails


def _wider_bytes(numbers: _Numbers) -> _Numbers:
    """What the offset deltas of so many records take beyond a byte each."""
    most, wider = numbers.max(initial=0), np.zeros_like(numbers)
    for first in _WIDER:
        if most > first:
            wider += np.maximum(numbers - first, 0)
    return wider


def _places_of_one(data: bytes, position: int, end: int) -> tuple[array[int], array[int]] | None:
    """The same of one batch, whose records are read one after the other; None: the last one goes beyond its end."""
    bodies, tails = array("q"), array("q")
    while position < end:
        length, bits = data[position], 7
        position += 1
        if length > 127:
            length &= 127
            while (byte := data[position]) > 127 and bits < _MOST_BITS:
                length |= (byte & 127) << bits
                bits, position = bits + 7, position + 1
            length, position = length | byte << bits, position + 1
        if length & 1:
            return None
        bodies.append(position)
        position += length >> 1
        tails.append(position)
    return (bodies, tails) if position == end else None


class _Fields:
    """The fields of all records (Kafka's ``DefaultRecord``); brokers write no headers into this topic."""

    def __init__(self, data: bytes, bodies: _Numbers, tails: _Numbers) -> None:
        self._data = data
        self._bytes = np.frombuffer(data, np.uint8)
        self._bodies, self._tails = bodies, tails
        self.time_deltas = self.offset_deltas = bodies
        self._keys = self._values = (bodies, bodies)

    def read(self) -> bool:
        """Whether every record is its fields, with no headers behind them."""
        # The first byte has attributes, of which none is in use.
        if self._bytes[self._bodies].any():
            return False
        self.time_deltas, position = _varints(self._bytes, self._bodies + 1)
        self.offset_deltas, position = _varints(self._bytes, position)
        key = self._span(position)
        value = None if key is None else self._span(key[0] + np.maximum(key[1], 0))
        if key is None or value is None:
            return False
        headers = value[0] + np.maximum(value[1], 0)
        self._keys, self._values = key, value
        return bool(((headers == self._tails - 1) & (self._bytes[headers] == 0)).all())

    def keys_and_values(self) -> tuple[pa.Array, pa.Array]:
        """Cut out of the batches; null where a record has none."""
        cuts = np.empty((len(self._bodies), 4), np.int32)
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
        length, start = _varints(self._bytes, position)
        is_whole = (length >= -1) & (length <= self._tails - start)
        return (start, length) if is_whole.all() else None


def _varints(data: _Bytes, position: _Numbers) -> tuple[_Numbers, _Numbers]:
    """Signed numbers of one to ten bytes (zigzag), and where each ends."""
    byte = data[position].astype(np.int64)
    number, end = byte & 127, position + 1
    more = np.flatnonzero(byte > 127)
    for bits in range(7, _MOST_BITS + 1, 7):
        if not more.size:
            break
        byte = data[end[more]].astype(np.int64)
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
