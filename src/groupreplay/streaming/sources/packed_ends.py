"""The spans of many partitions as few bytes: what ``LatestEnds`` has in memory, for a file.

A span is six numbers (``first_ms``, ``last_ms``, ``start``, ``end``, ``stable``, ``more``). Rounds are at regular times
and ends grow steadily, so that most differences between two spans are small.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

import msgspec
import numpy as np

from groupreplay.streaming.contract.end_columns import column_bytes, columns_of, signed, unsigned

#: Numbers of a span.
WIDTH: Final = 6
#: Spans of one chunk: 3 MiB of memory while it is packed.
_CHUNK_SPANS: Final = 65_536


class Series(NamedTuple):
    """The spans of one partition; ``about`` has for each its topic id and why it is not known."""

    topic: str
    partition: int
    writer: str
    numbers: array[int]
    about: Sequence[tuple[str, str]]


class _Head(msgspec.Struct, frozen=True, array_like=True):
    """A series without its numbers: ``about`` with how many spans in a row have the same."""

    topic: str
    partition: int
    writer: str
    about: tuple[tuple[int, str, str], ...]


class _Chunk(msgspec.Struct, frozen=True, array_like=True):
    heads: tuple[_Head, ...]
    numbers: bytes


def packed_series(all_series: Iterable[Series]) -> Iterator[bytes]:
    """Chunks of series, each packed for itself."""
    series, spans = list[Series](), 0
    for one in all_series:
        series.append(one)
        spans += len(one.about)
        if spans >= _CHUNK_SPANS:
            yield _packed(series)
            series, spans = [], 0
    if series:
        yield _packed(series)


def _packed(series: Sequence[Series]) -> bytes:
    numbers = np.frombuffer(b"".join(one.numbers.tobytes() for one in series), np.int64).reshape(-1, WIDTH)
    changes = np.diff(numbers, axis=0, prepend=np.zeros((1, WIDTH), np.int64))
    columns = column_bytes([unsigned(column) for column in changes.T])
    heads = tuple(_Head(one.topic, one.partition, one.writer, tuple(_runs(one.about))) for one in series)
    return zlib.compress(msgspec.msgpack.encode(_Chunk(heads, columns)), 1)


def _runs(about: Iterable[tuple[str, str]]) -> Iterator[tuple[int, str, str]]:
    for (topic_id, unknown), same in groupby(about):
        yield sum(1 for _ in same), topic_id, unknown


def unpacked_series(chunk: bytes) -> Iterator[Series]:
    """The series of one chunk.

    Raises:
        zlib.error, msgspec.MsgspecError, ValueError: it is damaged.
    """
    content = msgspec.msgpack.decode(zlib.decompress(chunk), type=_Chunk)
    changes = [signed(column) for column in columns_of(content.numbers, WIDTH)]
    numbers = np.cumsum(changes, axis=1).T
    first = 0
    for head in content.heads:
        about = [(topic_id, unknown) for count, topic_id, unknown in head.about for _ in range(count)]
        mine = numbers[first : first + len(about)]
        first += len(about)
        yield Series(head.topic, head.partition, head.writer, array("q", mine.tobytes()), about)
