"""The ends of all partitions as they are written, in bounded memory: recent ones one by one, older ones thinned out.

For processes that follow the prober for ever. An answer that is left out makes bounds wider, never wrong. In a file a
series of spans takes few bytes: a span is six numbers (``first_ms``, ``last_ms``, ``start``, ``end``, ``stable``,
``more``), rounds are at regular times and ends grow steadily, so that most differences between two spans are small.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from math import log
from typing import Final, NamedTuple

import msgspec
import numpy as np

from groupreplay.streaming.contract.end_columns import column_bytes, columns_of, signed, unsigned
from groupreplay.streaming.contract.partition_ends import EndsChanges, EndsRound, PartitionEnds, TopicEnds
from groupreplay.streaming.contract.probe_messages import ProbeMessage
from groupreplay.streaming.sources.recorded_ends import GONE
from groupreplay.streaming.sources.unpacked_ends import UnpackedEnds
from groupreplay.timeline.lag import EndSpan

#: Numbers of a span.
WIDTH: Final = 6
#: Spans of one chunk: 3 MiB of memory while it is packed.
_CHUNK_SPANS: Final = 65_536
#: Spans that each partition may have, of 56 bytes each; half of them, the newest ones, are never left out.
_LEAST_SPANS: Final = 24
#: A day of rounds every 30 seconds.
_MOST_SPANS: Final = 2_880
_LAST: Final = 1 - WIDTH
_END: Final = 3


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


@dataclass(slots=True)
class _Writer:
    """One process of the prober: the time before its last complete round."""

    taken_ms: int = 0


@dataclass(slots=True)
class _Series:
    """The spans of a partition as numbers, and of each its topic id and why it is not known."""

    writer: str = ""
    numbers: array[int] = field(default_factory=lambda: array("q"))
    about: list[tuple[str, str]] = field(default_factory=list)


class _Stored(msgspec.Struct, frozen=True):
    """``writers``: of each the time before its last complete round."""

    writers: dict[str, int]
    changing: int
    swept: int
    answered_ms: int
    chunks: list[bytes]


class LatestEnds:
    """The ends of one cluster's partitions; messages are added in the order in which they were written.

    A partition has 24 spans at most, or its part of ``spans``: partitions whose ends never change need none of them.
    """

    def __init__(self, cluster_id: str, spans: int = 0) -> None:
        self._cluster_id = cluster_id
        self._spans = spans
        self._unpacked = UnpackedEnds()
        self._writers: dict[str, _Writer] = {}
        self._topics: dict[str, dict[int, _Series]] = {}
        #: Partitions with ends that have changed, and how many there were when all were thinned out.
        self._changing = 0
        self._swept = 1
        self.answered_ms = 0

    def __bool__(self) -> bool:
        return bool(self._topics)

    def add(self, message: ProbeMessage | None) -> None:
        """Note a message, if it is about ends."""
        if not isinstance(message, TopicEnds | EndsChanges | EndsRound):
            return
        if message.cluster_id == self._cluster_id:
            for plain in self._unpacked.read(message):
                self._note(plain)

    def _note(self, message: TopicEnds | EndsRound) -> None:
        writer = self._writers.setdefault(message.writer, _Writer())
        if isinstance(message, EndsRound):
            writer.taken_ms = message.taken_ms
            self.answered_ms = max(self.answered_ms, message.answered_ms)
            return
        partitions = self._topics.setdefault(message.topic, {})
        answers: Mapping[int, PartitionEnds | str] = {**message.partitions, **message.unknown}
        if message.gone:
            answers = dict.fromkeys(partitions, GONE)
        for number, ends in answers.items():
            series = partitions.setdefault(number, _Series())
            count = len(series.about)
            _add(series, self._writers[series.writer or message.writer].taken_ms, message, ends)
            self._changing += count == 1 and len(series.about) > 1
            _thin(series, self._share)
        if self._changing >= 2 * self._swept:
            self._sweep()

    def packed(self) -> bytes:
        """All that is remembered."""
        series = (
            Series(topic, number, series.writer, series.numbers, series.about)
            for topic, partitions in self._topics.items()
            for number, series in partitions.items()
        )
        return msgspec.msgpack.encode(
            _Stored(
                writers={name: writer.taken_ms for name, writer in self._writers.items()},
                changing=self._changing,
                swept=self._swept,
                answered_ms=self.answered_ms,
                chunks=list(packed_series(series)),
            )
        )

    def unpack(self, packed: bytes) -> None:
        """Goes on where another one ended; call it before the first message.

        Raises:
            zlib.error, msgspec.MsgspecError, ValueError: the bytes are damaged.
        """
        stored = msgspec.msgpack.decode(packed, type=_Stored)
        self._writers = {name: _Writer(taken_ms) for name, taken_ms in stored.writers.items()}
        self._changing, self._swept, self.answered_ms = stored.changing, stored.swept, stored.answered_ms
        for chunk in stored.chunks:
            for topic, number, writer, numbers, about in unpacked_series(chunk):
                self._topics.setdefault(topic, {})[number] = _Series(writer, numbers, list(about))

    @property
    def _share(self) -> int:
        """How many spans a partition may have."""
        return max(_LEAST_SPANS, min(_MOST_SPANS, self._spans // max(self._changing, 1)))

    def _sweep(self) -> None:
        """Partitions that do not change any more have been given a larger share."""
        self._swept = self._changing
        for partitions in self._topics.values():
            for series in partitions.values():
                _thin(series, self._share)

    def spans(self, topic: str, partition: int) -> tuple[EndSpan, ...]:
        """What is known of a partition, in the order of its times."""
        series = self._topics.get(topic, {}).get(partition)
        if series is None:
            return ()
        spans = list(_spans(series))
        return (*spans[:-1], _until(spans[-1], self._writers[series.writer].taken_ms))


def _add(series: _Series, before_ms: int, message: TopicEnds, ends: PartitionEnds | str) -> None:
    numbers, about = series.numbers, series.about
    if numbers:
        # The last complete round of who wrote last found the same as before.
        numbers[_LAST] = max(numbers[_LAST], before_ms)
    known = (0, 0, 0, 0)
    if isinstance(ends, PartitionEnds):
        known = ends.start, ends.end, ends.stable, ends.more
    same = (message.topic_id, ends if isinstance(ends, str) else "")
    series.writer = message.writer
    if numbers and about[-1] == same and tuple(numbers[-4:]) == known:
        numbers[_LAST] = max(numbers[_LAST], message.taken_ms)
        return
    numbers.extend((message.answered_ms, message.taken_ms, *known))
    about.append(about[-1] if about and about[-1] == same else same)


def _thin(series: _Series, most: int) -> None:
    """Leaves out older spans where there are more than ``most``: of those that are further back, more.

    None at which the log or the answer is another one.
    """
    count, numbers = len(series.about), series.numbers
    if count <= most:
        return
    first_new = count - most // 2
    kept = [
        place
        for place in range(first_new)
        if series.about[place] != series.about[place - 1]
        or numbers[place * WIDTH + _END] < numbers[place * WIDTH + _END - WIDTH]
    ]
    kept = sorted({0, *kept, *_spaced(numbers, first_new, most // 4)})
    # Many different logs: the oldest are forgotten.
    kept = [*kept, *range(first_new, count)][-(most - 1) :]
    series.numbers = array("q", (n for at in kept for n in numbers[at * WIDTH : (at + 1) * WIDTH]))
    series.about = [series.about[at] for at in kept]


def _spaced(numbers: array[int], places: int, most: int) -> Iterator[int]:
    """Of the first ``places`` spans at most so many: the distance between two grows with their age."""
    newest_ms = numbers[-WIDTH]
    ages = [max(1, newest_ms - numbers[place * WIDTH]) for place in range(places)]
    step = log(ages[0] / ages[-1]) / most or 1.0
    taken = -1
    for place in range(places - 1, -1, -1):
        cell = int(log(ages[place] / ages[-1]) / step)
        if cell > taken:
            taken = cell
            yield place


def _spans(series: _Series) -> Iterator[EndSpan]:
    for place, (topic_id, unknown) in enumerate(series.about):
        first_ms, last_ms, start, end, stable, more = series.numbers[place * WIDTH : (place + 1) * WIDTH]
        yield EndSpan(
            topic_id=topic_id,
            first_ms=first_ms,
            last_ms=last_ms,
            start=start,
            end=end,
            stable=stable,
            unknown=unknown,
            more=more,
        )


def _until(span: EndSpan, taken_ms: int) -> EndSpan:
    """The newest span, which holds up to the last complete round."""
    return replace(span, last_ms=max(span.last_ms, taken_ms))
