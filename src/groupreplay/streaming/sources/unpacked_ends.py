"""The messages about ends as they were before they were packed, read only: what each round has found, by topic.

What a round changes is places and steps. A step counts 2 to the power of the place's shift, within which the end is
known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np

from groupreplay.streaming.contract.end_columns import (
    MOST_PLACES,
    EndColumns,
    Flags,
    Ints,
    signed,
    unpack_columns,
)
from groupreplay.streaming.contract.partition_ends import EndsChanges, EndsRound, PartitionEnds, TopicEnds
from groupreplay.streaming.contract.predicted_ends import PLACES_A_MESSAGE, PredictedEnds

#: Of a round: which way it is told, and places and values of steps, log starts, what waits, shifts and epochs.
_COLUMNS: Final = 11
#: The number of a round before which nothing was stated of a place.
_NEVER: Final = -1
UNREAD: Final = "how the ends of the partition went on is missing in what was read"


@dataclass(slots=True)
class SteppedEnds(EndColumns):
    """The ends as last written: of each place at least ``end``, and at most ``more`` beyond it."""

    more: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    _shift: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    #: What was changed last, and of which places: most of them change again.
    _step: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    _changed: Flags = field(default_factory=lambda: np.zeros(0, np.bool_))

    def state(self, at: Ints, ends: Ints, starts: Ints, waiting: Ints, shifts: Ints, epochs: Ints) -> None:
        """Set these places to what was stated, which is never rounded.

        Raises:
            ValueError: these are no shifts.
        """
        if shifts.max(initial=0) > 62:
            raise ValueError("the shifts are too large")
        self.end[at], self.start[at], self.waiting[at], self._shift[at] = ends, starts, waiting, shifts
        self.epoch[at], self.more[at] = epochs, 0

    def read(self, packed: bytes) -> Ints:
        """Change the table by the changes of a round; returns the places.

        Raises:
            ValueError: these are other bytes, or those of another table.
        """
        way, *columns = unpack_columns(packed, _COLUMNS)
        pairs = [
            (_places(gaps, len(self.end)), signed(values))
            for gaps, values in zip(columns[::2], columns[1::2], strict=True)
        ]
        (places, steps), (starts, by), (waits, waiting), (shifted, shifts), (led, epochs) = pairs
        if len(way) != 2 or not 0 <= shifts.min(initial=0) <= shifts.max(initial=0) <= 62:
            raise ValueError("the columns are not those of a round")
        if way[0]:
            places = np.setxor1d(places, np.flatnonzero(self._changed))
        if len(places) != len(steps) or any(len(left) != len(right) for left, right in pairs[1:]):
            raise ValueError("the columns do not belong together")
        if way[1]:
            steps = steps + self._step[places]
        self._shift[shifted] = shifts
        self.start[starts] += by
        self.waiting[waits] = waiting
        self.epoch[led] += epochs
        self.end[places] += steps << self._shift[places]
        self.more[places] = (np.int64(1) << self._shift[places]) - 1
        self._step[self._changed] = 0
        self._step[places] = steps
        self._changed[:] = False
        self._changed[places] = True
        touched: Ints = np.unique(np.concatenate([places, starts, waits, led]))
        return touched


def _places(gaps: Ints, count: int) -> Ints:
    places = np.cumsum(gaps)
    if len(places) and (gaps.min() < 0 or places[-1] >= count or np.any(np.diff(places) <= 0)):
        raise ValueError("the places are not those of this table")
    return places


@dataclass(frozen=True, slots=True)
class _Topic:
    """Whose partitions have the places from ``first`` on."""

    name: str
    topic_id: str
    first: int

    def message(self, of: EndsChanges) -> TopicEnds:
        """One of this topic, of the same round."""
        return TopicEnds(
            cluster_id=of.cluster_id,
            writer=of.writer,
            number=of.number,
            taken_ms=of.taken_ms,
            answered_ms=of.answered_ms,
            interval_ms=of.interval_ms,
            topic=self.name,
            topic_id=self.topic_id,
        )


@dataclass(slots=True)
class _Writer:
    """The table of one process of the prober, as far as it was read."""

    table: PredictedEnds | SteppedEnds
    #: By place: the round in which it was stated, and the number of its topic.
    stated: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    topic: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    topics: list[_Topic] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)
    #: The last changes, how many parts there are of them, and whether the next ones can be told by them.
    last: tuple[int, int] = (-1, 0)
    _parts: int = 1
    _is_told: bool = False

    def state(self, message: TopicEnds) -> TopicEnds | None:
        """The same with all partitions one by one; None: it is no message of a prober."""
        assert message.place is not None
        try:
            gaps, ends, starts, waiting, paces, epochs = unpack_columns(message.packed, 6)
        except ValueError:
            return None
        numbers = np.cumsum(gaps)
        count = max(int(numbers.max(initial=-1)), max(message.unknown, default=-1)) + 1
        columns = {len(column) for column in (numbers, ends, starts, waiting, paces, epochs)}
        is_sound = len(columns) == 1 and 0 <= count <= MOST_PLACES - message.place
        if not is_sound or np.any(np.diff(numbers) <= 0):
            return None
        self._grow(message.place + count)
        places = message.place + numbers
        try:
            self.table.state(places, ends, starts, waiting, paces, epochs - 1)
        except ValueError:
            return None
        self.stated[places] = message.number
        self.stated[[message.place + number for number in message.unknown]] = _NEVER
        topic = _Topic(message.topic, message.topic_id, message.place)
        before = self._numbers.get(message.topic)
        if before is None or self.topics[before] != topic:
            self._numbers[message.topic] = len(self.topics)
            self.topics.append(topic)
        self.topic[message.place : message.place + count] = self._numbers[message.topic]
        if before not in (None, self._numbers[message.topic]):
            # Places that it had before and has no more.
            self.stated[self.topic == before] = _NEVER
        partitions = dict(zip(numbers.tolist(), self._ends(places), strict=True))
        return msgspec.structs.replace(message, place=None, packed=b"", partitions=partitions)

    def leave(self, topic: str) -> None:
        """The topic is gone: changes of its places mean nothing."""
        if (number := self._numbers.pop(topic, None)) is not None:
            self.stated[self.topic == number] = _NEVER

    def change(self, message: EndsChanges) -> Iterator[TopicEnds]:
        """What has changed, by topic; nothing of partitions that were not stated since a message is missing."""
        if (message.number, message.part) <= self.last:
            return
        self._grow(message.places)
        if not self._follows(message):
            self._is_told = False
            yield from self._forgotten(message)
        self.last = message.number, message.part
        self._parts = -(-message.places // PLACES_A_MESSAGE)
        try:
            places = self._read(message)
        except ValueError:
            self._is_told = False
            yield from self._forgotten(message)
            return
        places = places[(self.stated[places] != _NEVER) & (self.table.end[places] >= 0)]
        for topic, at in self._by_topic(places):
            partitions = dict(zip((at - topic.first).tolist(), self._ends(at), strict=True))
            yield msgspec.structs.replace(topic.message(message), partitions=partitions)

    def _follows(self, message: EndsChanges) -> bool:
        """No message between the last one and this one is missing."""
        if isinstance(self.table, SteppedEnds):
            return message.after in (None, self.last[0])
        if message.part:
            return self.last == (message.number, message.part - 1)
        return message.after is None or self.last == (message.after, self._parts - 1)

    def _read(self, message: EndsChanges) -> Ints:
        # What was told of the first places does not begin with a later part.
        self._is_told = self._is_told or (message.alone and (not message.part or message.rounding is None))
        if not self._is_told:
            raise ValueError("the changes before are not known")
        if isinstance(self.table, SteppedEnds):
            return self.table.read(message.packed)
        return self.table.read(message.packed, message.part, message.rounding or 0, alone=message.alone)

    def _by_topic(self, places: Ints) -> Iterator[tuple[_Topic, Ints]]:
        places = places[np.argsort(self.topic[places], kind="stable")]
        borders = np.flatnonzero(np.diff(self.topic[places])) + 1
        for at in np.split(places, borders) if len(places) else ():
            yield self.topics[int(self.topic[at[0]])], at

    def _forgotten(self, message: EndsChanges) -> Iterator[TopicEnds]:
        """What was stated before this round may have changed in one that was not read."""
        places = np.flatnonzero((self.stated != _NEVER) & (self.stated < message.number))
        self.stated[places] = _NEVER
        for topic, at in self._by_topic(places):
            unknown = dict.fromkeys((at - topic.first).tolist(), UNREAD)
            yield msgspec.structs.replace(topic.message(message), unknown=unknown)

    def _ends(self, places: Ints) -> Iterator[PartitionEnds]:
        table = self.table
        columns = (table.start, table.end, table.waiting, table.epoch, table.more)
        for start, end, waiting, epoch, more in np.column_stack(
            [column[places] for column in columns]
        ).tolist():
            yield PartitionEnds(start, end, max(end - waiting, 0), epoch, more)

    def _grow(self, count: int) -> None:
        missing = count - len(self.stated)
        if missing > 0:
            self.table.grow(count)
            self.stated = np.concatenate([self.stated, np.full(missing, _NEVER, np.int64)])
            self.topic = np.concatenate([self.topic, np.full(missing, -1, np.int64)])


@dataclass(slots=True)
class UnpackedEnds:
    """Of one cluster. The messages of a writer are given in the order in which it has written them."""

    _writers: dict[str, _Writer] = field(default_factory=dict)

    def read(self, message: TopicEnds | EndsChanges | EndsRound) -> Iterator[TopicEnds | EndsRound]:
        """What a message says; one that is not packed says itself."""
        if isinstance(message, EndsChanges):
            yield from self._writer(message.writer, is_predicted=message.rounding is not None).change(message)
            return
        if isinstance(message, TopicEnds) and message.place is not None:
            stated = self._writer(message.writer, is_predicted=message.predicted).state(message)
            if stated is not None:
                yield stated
            return
        if isinstance(message, TopicEnds) and message.gone and message.writer in self._writers:
            self._writers[message.writer].leave(message.topic)
        yield message

    def _writer(self, name: str, *, is_predicted: bool) -> _Writer:
        """A process writes rounds of one form only."""
        table = PredictedEnds if is_predicted else SteppedEnds
        return self._writers.setdefault(name, _Writer(table()))
